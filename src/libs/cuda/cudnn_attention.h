// Scaled dot product attention and its gradient as graphs for cuDNN's fused kernels.
#pragma once

#include <memory>
#include <optional>

#include "libs/cuda/cudnn.h"

namespace thalweg::libs::cuda::cudnn {

// y = softmax(scale · q kᵀ [+ bias]) v for each of `batch` × `heads`; with `causal`, row i sees columns 0 to i. Every tensor is [batch, heads, tokens, width]
// whatever its strides (in elements) say; the width's stride is 1. F16 or BF16; arithmetic in f32.
struct AttentionShape {
  Type element = Type::BF16;
  int64_t batch = 1, heads = 1, rows = 1, columns = 1;  // rows: tokens of q; columns: tokens of k and v
  int64_t width = 1, value_width = 1;                   // of q and k; of v and y
  double scale = 1;
  bool causal = false;
  Dims q, k, v, y;           // strides
  std::optional<Dims> bias;  // dims, each 1 or the whole extent of [batch, heads, rows, columns]
  Dims bias_strides;
};

// The gradient's tensors beside those of the forward pass: strides of dy, dq, dk and dv.
struct AttentionGradShape {
  AttentionShape forward;
  Dims dy, dq, dk, dv;
  bool bias_grad = false;      // the gradient of the bias as well, in the bias's dims, row-major
  bool deterministic = false;  // no sums in an order that changes; takes scratch memory for rows × columns
};

// The tensors' ids for Plan::run(). Stats: the logarithm of each row's sum of exponentials, f32 [batch, heads, rows], row-major.
inline constexpr int64_t kAttentionQ = 1, kAttentionK = 2, kAttentionV = 3, kAttentionY = 4, kAttentionStats = 5, kAttentionBias = 6;
inline constexpr int64_t kAttentionDy = 7, kAttentionDq = 8, kAttentionDk = 9, kAttentionDv = 10, kAttentionBiasGrad = 11;

// Reads Q, K, V [, Bias]; writes Y [and Stats]. Throws Error(Unsupported) with the shape for what cuDNN cannot describe.
std::shared_ptr<const Graph> attention_graph(const AttentionShape& shape, bool with_stats);
// Reads Q, K, V, Y, Stats, Dy [, Bias]; writes Dq, Dk, Dv [, BiasGrad].
std::shared_ptr<const Graph> attention_grad_graph(const AttentionGradShape& shape);

}  // namespace thalweg::libs::cuda::cudnn
