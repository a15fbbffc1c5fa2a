// cuDNN's functions as a table, for the files that wrap it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace thalweg::libs::cuda::cudnn {

// One pointer for each row of cudnn.def; the functions return a status, see failure_text().
struct Functions {
#define THALWEG_CUDNN(name, symbol, ...) int (*name)(__VA_ARGS__);
#include "libs/cuda/cudnn.def"
#undef THALWEG_CUDNN
  size_t (*version)();
  const char* (*status_text)(int status);
  void (*last_error)(char* words, size_t most);
};

// Throws Error(Missing) without a cuDNN that is new enough. Any thread.
const Functions& functions();
// The library's words for `status` and for what this thread's last call found wrong.
std::string failure_text(int status);

}  // namespace thalweg::libs::cuda::cudnn
