// Text to machine code for GPUs: NVRTC, and cubins kept on disk.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace thalweg::codegen::cuda {

// One kernel to compile: CUDA C++ that defines `extern "C" __global__ void NAME(…)`; codegen's prelude and the fixed-width integers are put before it.
struct KernelSource {
  std::string name;
  std::string text;
};

// Machine code of one kernel, as the driver loads it.
using Image = std::shared_ptr<const std::string>;

// Compiles (over threads of its own) what is not cached, and returns the images in order, for GPUs of `architecture` (90: compute capability 9.0). Cached
// for the life of the process by text and, where the cache folder can be written, on disk by text, architecture and NVRTC's version; a cached kernel needs
// no NVRTC but its version. Thread-safe. Throws Error(Missing) with what to install when there is no NVRTC; Error(Internal) with the compiler's log and the
// kernel's text when it rejects one.
std::vector<Image> compile(std::span<const KernelSource> kernels, int architecture);

// Counters since process start: kernels compiled, found in memory, found on disk, and seconds spent in compile().
struct JitStats {
  int64_t compiled = 0, memory_hits = 0, disk_hits = 0;
  double seconds = 0;
};
JitStats stats();

}  // namespace thalweg::codegen::cuda
