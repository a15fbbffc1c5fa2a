// The first half of a compile: layouts, products and fusion of a function, before anything has a place or a text.
#pragma once

#include <memory>

#include "codegen/fusion.h"
#include "compiler/heavy.h"

namespace thalweg::compiler {

// A function divided into works. `context` points to `products`, `cudnn_calls` and to what divide() was given; the function must stay as it is.
struct Division {
  std::unique_ptr<ProductPlans> products;
  std::unique_ptr<CudnnCalls> cudnn_calls;
  HeavyContext context;
  codegen::FusionResult fusion;
};

// Rewrites `function` into what kernels and libraries take (settled layouts, BLAS products, calls to cuDNN), then fuses.
Division divide(ir::Function& function, const Options& options, const ir::Module* module, exec::ExecutableInfo& info);

}  // namespace thalweg::compiler
