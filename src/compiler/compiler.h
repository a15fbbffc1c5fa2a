// The pipeline: IR function to executable for the CPU; the one place that sees every stage.
#pragma once

#include <memory>

#include "exec/executable.h"
#include "ir/graph.h"

namespace thalweg::compiler {

// What changes the code that comes out; part of every cache key.
struct Options {
  bool deterministic = true;
  bool reduced_bf16_products = false;  // bf16 accumulate where the library offers it
};

// Compiles `function` (static shapes, calls allowed when `module` is given; consumed). Arguments and results are row-major tensors.
// Composites are taken by name where the backend has better, else decomposed. Throws Error(Unsupported) naming the op and shape that cannot be
// compiled. Thread-safe.
std::shared_ptr<const exec::Executable> compile(std::unique_ptr<ir::Function> function, const Options& options = {}, const ir::Module* module = nullptr);

// Replaces Thalweg's own composites by their decompositions, so that the text of `function` is plain StableHLO.
void make_portable(ir::Function& function);

}  // namespace thalweg::compiler
