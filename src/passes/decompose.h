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
//   thalweg.attention                      q, k, v [, mask added to the scores] → y; scale; shapes [batch…, tokens, width]
//   chlo.square                            x → y
//
// Calls that only state a sharding (sdy.sharding_constraint, Sharding …) become their operand.
bool decompose(ir::Function& function, const ir::Module* module = nullptr);

// True for the composites named above.
bool has_decomposition(const ir::Op& composite);

}  // namespace thalweg::passes
