// Text to machine code on the CPU: in-process Clang and ORC, loaded on demand from libthalweg_clang.so.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace thalweg::codegen::cpu {

// A compiled kernel. `args[i]` is the address of the i-th buffer of the kernel's argument list; the call runs the slice [begin, end) of the
// kernel's outermost parallel range on the calling thread. Kernels keep no state and never throw.
using KernelFn = void (*)(void* const* args, int64_t begin, int64_t end);

// One kernel to compile: C++ text that defines `extern "C" void NAME(void* const* args, int64_t begin, int64_t end)`; ir/scalar.h's text is put before it.
struct KernelSource {
  std::string name;
  std::string text;
};

// Compiles (in parallel, over threads of its own) what is not cached, and returns the functions in order. Cached for the life of the process by text and,
// where the cache folder can be written, on disk by text, compiler version and CPU. Thread-safe. Throws Error(Missing) with what to install when Clang
// cannot be loaded, Error(Internal) with the compiler's log and the kernel's text when it rejects one.
std::vector<KernelFn> compile(std::span<const KernelSource> kernels);

// Counters since process start: kernels compiled, found in memory, found on disk, and seconds spent compiling.
struct JitStats {
  int64_t compiled = 0, memory_hits = 0, disk_hits = 0;
  double seconds = 0;
};
JitStats stats();

// True when Clang can be loaded; `why` gets the reason when not.
bool available(std::string* why = nullptr);

}  // namespace thalweg::codegen::cpu
