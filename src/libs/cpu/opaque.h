// Library calls on the CPU that somebody above fills in: convolutions and bf16 products of PyTorch's oneDNN, and whole PyTorch operations.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/buffer.h"

namespace thalweg::libs::cpu {

// A dense row-major host tensor as a library call sees it; `dtype` is an ir::DType's number.
struct TensorArg {
  void* data = nullptr;
  int dtype = 0;
  std::vector<int64_t> dims;
};

// A function called by name from a compiled program: reads `inputs`, writes all of `outputs`. `config` is text that the one who traced the call wrote: the
// custom_call's backend_config when that is a string or a dictionary with the only entry `config`, else "name=value;" for each entry of the dictionary, sorted
// by name (lists of integers joined by commas, flags 0 or 1). Runs on a stream's thread. May throw.
using OpaqueFn = std::function<void(const std::string& config, std::span<const TensorArg> inputs, std::span<const TensorArg> outputs)>;

// Registers `fn` under `target` (the custom_call's target in the IR); a later registration replaces an earlier one. Thread-safe.
void register_opaque(std::string target, OpaqueFn fn);
// The function, or null when none is registered.
const OpaqueFn* find_opaque(const std::string& target);

}  // namespace thalweg::libs::cpu
