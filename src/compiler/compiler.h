// The pipeline: IR function to executable for the CPU or a GPU; the one place that sees every stage.
#pragma once

#include <memory>
#include <string>

#include "exec/executable.h"
#include "ir/graph.h"
#include "runtime/device.h"

namespace thalweg::compiler {

// What changes the code that comes out; part of every cache key.
struct Options {
  runtime::Device* device = nullptr;   // a GPU that programs are compiled for; null or a CPU device: the host's processor
  bool deterministic = true;           // on GPUs: no algorithm is chosen by measuring it
  bool reduced_bf16_products = false;  // bf16 accumulate where the library offers it
  bool tf32 = false;                   // on GPUs: f32 products may round their factors to TF32
};

// Compiles `function` (static shapes, calls allowed when `module` is given; consumed). Arguments and results are row-major tensors.
// Composites are taken by name where the backend has better, else decomposed. Throws Error(Unsupported) naming the op and shape that cannot be
// compiled. Thread-safe. For a GPU the executable launches on streams of that device; ops without a kernel run on the host in stream order, and are listed as
// opaque calls.
std::shared_ptr<const exec::Executable> compile(std::unique_ptr<ir::Function> function, const Options& options = {}, const ir::Module* module = nullptr);

// Whether programs can be compiled for GPUs here: NVRTC and cuBLASLt are found. `why`, when given, says what is missing. Any thread; never throws.
bool can_compile_for_gpus(std::string* why = nullptr);

// Replaces Thalweg's own composites by their decompositions, so that the text of `function` is plain StableHLO.
void make_portable(ir::Function& function);

}  // namespace thalweg::compiler
