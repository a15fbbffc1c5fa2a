// Machine code on GPUs, loaded once a process.
#pragma once

#include <span>
#include <vector>

#include "codegen/cuda/jit.h"
#include "runtime/cuda/kernel.h"

namespace thalweg::compiler {

// The kernels of these texts on a GPU, compiled and loaded on first use and kept for the life of the process. Any thread.
std::vector<runtime::cuda::Kernel> load_kernels(runtime::Device& device, std::span<const codegen::cuda::KernelSource> sources);

}  // namespace thalweg::compiler
