// Convolutions over images of few channels, which tensor cores compute slowly, as convolutions over more channels without a stride.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "ir/builder.h"

namespace thalweg::compiler {

// The images that were folded so far: a forward pass and its weights' gradient share them.
using FoldedImages = std::map<std::tuple<const ir::Value*, ir::Dims, ir::Dims>, ir::Value*>;

// A call that means the same with other operands; `back` gives the first call's result from its result.
struct FoldedConvolution {
  std::vector<ir::Value*> operands;
  ir::Type result;
  ir::Attributes config;
  std::function<ir::Value*(ir::Builder&, ir::Value*)> back;
};

// For a `thalweg.convolution` of two dims of space over fewer than 8 channels, forward or the weights' gradient, without groups and dilation: blocks of the
// stride's size become channels (with zeros up to a multiple of 8) that lie last, padding becomes part of the image, and the stride 1. Else nothing.
std::optional<FoldedConvolution> fold_few_channels(ir::Builder& b, const ir::Op& call, FoldedImages& images);

}  // namespace thalweg::compiler
