// A library that says it is cuDNN 9.1, with every function that Thalweg looks for: for tests of what is said to its user.
#include <cstddef>
#include <cstdint>

extern "C" {
#define THALWEG_CUDNN(name, symbol, ...) int name(__VA_ARGS__) __asm__(symbol);
#include "libs/cuda/cudnn.def"
#undef THALWEG_CUDNN
#define THALWEG_CUDNN(name, symbol, ...) \
  int name(__VA_ARGS__) { return 1; }
#include "libs/cuda/cudnn.def"
#undef THALWEG_CUDNN
size_t cudnnGetVersion() { return 90100; }
const char* cudnnGetErrorString(int) { return "old"; }
void cudnnGetLastErrorString(char*, size_t) {}
}
