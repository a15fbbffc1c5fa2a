// Convolutions and their gradients as graphs for cuDNN.
#pragma once

#include <memory>

#include "libs/cuda/cudnn.h"

namespace thalweg::libs::cuda::cudnn {

// y = x * w over n windows of space. All dims are in PyTorch's order whatever the strides (in elements) say: x [batch, channels, space…], w [outputs,
// channels / groups, window…], y [batch, outputs, places…]; 1 to 3 dims of space. Sums are made in f32, for F64 in f64, and rounded once.
struct ConvolutionShape {
  enum class Kind : int { Forward, DataGrad, FilterGrad };
  Kind kind = Kind::Forward;
  Type element = Type::F32;
  Dims x, w, y, x_strides, w_strides, y_strides;
  Dims stride, before, after, dilation;  // each of the space's rank; before and after: padding
};

// The tensors' ids for Plan::run(). Forward reads X and W and writes Y, DataGrad reads Y and W and writes X, FilterGrad reads X and Y and writes W.
inline constexpr int64_t kConvolutionX = 1, kConvolutionW = 2, kConvolutionY = 3;

// Throws Error(Unsupported) with the shape for what cuDNN cannot describe.
std::shared_ptr<const Graph> convolution_graph(const ConvolutionShape& shape);

}  // namespace thalweg::libs::cuda::cudnn
