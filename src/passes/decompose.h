// Composites and StableHLO's batch normalisation in plain ops.
#pragma once

#include "ir/graph.h"

namespace thalweg::passes {

// Replaces batch_norm_{inference,training,grad} and the composites below; others stay. 16-bit floats compute in f32 and round at the end.
//
//   thalweg.softmax, thalweg.log_softmax   x → y; dim
//   thalweg.gelu                           x → y; approximate: "none" or "tanh"
//   thalweg.gelu_grad                      dy, x → dx; approximate
//   thalweg.layer_norm                     x [, weight, bias] → y, mean, rstd; axis (first normalised dim; mean and rstd have the dims before it), eps
//   thalweg.layer_norm_grad                dy, x, mean, rstd [, weight] → dx [, dweight, dbias]; axis
//   thalweg.attention                      q, k, v [, bias] → y [, logsumexp of each row]; scale, causal; shapes [batch…, tokens, width]. The bias is added
//                                          to the scores and broadcast to them; a row whose scores are all -inf through it gives zeros
//   thalweg.attention_grad                 dy, q, k, v, y, logsumexp [, bias] → dq, dk, dv [, dbias]; scale, causal
//   thalweg.batch_norm                     x [, weight, bias] → y, mean, rstd, variance (biased); eps; the channels are dim 1
//   thalweg.batch_norm_inference           x, mean, variance [, weight, bias] → y; eps
//   thalweg.batch_norm_grad                dy, x, mean, rstd [, weight] → dx, dweight, dbias; training (false: mean and rstd are constants)
//   thalweg.nll_loss                       x [N, C, …] or [C], labels [, class weights] → loss, sum of weights; reduction ("none", "mean", "sum"), ignore_index
//   thalweg.nll_loss_grad                  dloss, labels, sum of weights [, class weights] → dx; reduction, ignore_index
//   thalweg.sgd                            parameter, gradient, lr, momentum, dampening, weight decay [, buffer] → parameter [, buffer]; nesterov, first
//   thalweg.adam                           parameter, gradient, average, square average, step, lr, beta1, beta2, weight decay, eps [, greatest square] →
//                                          parameter, average, square average [, greatest square]; decoupled (weight decay as in AdamW)
//   chlo.square                            x → y
//   chlo.top_k                             x → values, places: the k largest of the last dim
//
// Calls that only state a sharding (sdy.sharding_constraint, Sharding …) become their operand.
bool decompose(ir::Function& function, const ir::Module* module = nullptr);

// True for the composites named above.
bool has_decomposition(const ir::Op& composite);

}  // namespace thalweg::passes
