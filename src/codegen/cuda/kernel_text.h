// The kernel around bodies that were written for ranges of units: on a GPU a thread or a group of threads takes one unit at a time.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "codegen/cuda/jit.h"

namespace thalweg::codegen::cuda {

// The body of a function (void* const* args, int64_t begin, int64_t end, int lane, char* shared) over `units` units that do not depend on each other, as
// NestCode::body; bodies of one lane need not know the last two.
struct Part {
  std::string body;
  int64_t units = 0;
  size_t args = 0;       // entries of its argument array
  int lanes = 1;         // threads of a group: a power of two up to 1024
  int shared_bytes = 0;  // of a group
};

// A kernel of parts that do not depend on each other. Its one parameter is the array of all their arguments' addresses, one part after the other, by value.
// Launched as `blocks` blocks of `threads` threads; each part has blocks of its own, so that its threads can wait for each other.
struct KernelText {
  KernelSource source;
  unsigned blocks = 1, threads = 1;
  size_t args = 0;
};

// The addresses that fit one kernel's parameters: 32,764 bytes since CUDA 12.1 on Volta and later, less some for the driver.
inline constexpr size_t kMostArgs = 4000;

// `multiprocessors`: of the GPU, which limits the grid; groups go on to further units.
KernelText kernel_text(std::span<const Part> parts, int multiprocessors);

}  // namespace thalweg::codegen::cuda
