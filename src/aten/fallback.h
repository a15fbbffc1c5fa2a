// Everything that is not traced runs on PyTorch's own kernels, over the same memory.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "aten/torch_headers.h"

namespace thalweg::aten {

// Runs `op` on PyTorch's CUDA, in the order of our compute stream and without waiting, where the device is a GPU and PyTorch has a CUDA kernel; else on the
// CPU. Device tensors on the stack are read (what is pending is flushed first), written arguments change in place, results are device tensors that adopt
// PyTorch's memory; results that alias an argument stay views of it. Counted by name and Python line.
void run_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// Calls counted since the last clear: operation ("aten::nonzero") → Python line → count.
std::map<std::string, std::map<std::string, int64_t>> fallback_counts();
void clear_fallback_counts();

// Raises PyTorch's own message for a CPU tensor among device tensors.
[[noreturn]] void raise_mixed_devices(const at::Tensor& other);

}  // namespace thalweg::aten
