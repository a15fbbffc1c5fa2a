// The C interface of libthalweg_clang.so: C++ text to object code, object code to functions. The rest of Thalweg sees Clang and LLVM only through it.
#pragma once

#include <cstddef>

extern "C" {

// Receives `size` bytes that are valid during the call.
using ThalwegClangSink = void (*)(void* context, const char* bytes, std::size_t size);

struct ThalwegClangApi {
  // Compiler version, CPU and features: object code is valid for the same text and the same description only.
  const char* (*describe)();
  // Compiles `count` texts after `prelude` (the same in every call of a process) for this machine; text i defines the extern "C" function symbols[i]. They are
  // parsed as one translation unit, each in a namespace of its own, which takes less time than one by one, and give an object file each. 0: sink(contexts[i],
  // …) got object i. Else sink(contexts[0], …) got the compiler's messages. Thread-safe.
  int (*compile)(const char* prelude, std::size_t prelude_size, const char* const* texts, const std::size_t* text_sizes, const char* const* symbols,
                 std::size_t count, ThalwegClangSink sink, void* const* contexts);
  // Loads an object file for the life of the process and finds `symbol` in it. 0: `*address` is set. Else `sink` got the reason. Thread-safe.
  int (*load)(const char* object, std::size_t size, const char* symbol, void** address, ThalwegClangSink sink, void* context);
};

// The only exported symbol; null when the library was built for another `interface_version`.
const ThalwegClangApi* thalweg_clang_api(int interface_version);

}  // extern "C"

inline constexpr int kThalwegClangInterface = 2;
inline constexpr char kThalwegClangEntry[] = "thalweg_clang_api";
