// Text of vectors, barriers and reductions of groups of threads.
#include "codegen/cuda/group_text.h"

namespace thalweg::codegen::cuda {

const char kGroupText[] = R"(
template <class T, int N>
struct alignas(N * sizeof(T) < 16 ? N * sizeof(T) : 16) vec {
  T v[N];
};

// The threads of a warp's part that work together, as a mask of the warp's threads.
template <int Lanes>
inline unsigned group_mask() {
  if constexpr (Lanes >= 32) return ~0u;
  else return ((1u << Lanes) - 1u) << (threadIdx.x & 31u & ~(unsigned)(Lanes - 1));
}

// Waits for all lanes; what they wrote to shared memory is there then.
template <int Lanes>
inline void group_barrier() {
  if constexpr (Lanes > 32) asm volatile("bar.sync %0, %1;" ::"r"(threadIdx.x / Lanes), "n"(Lanes) : "memory");
  else if constexpr (Lanes > 1) __syncwarp(group_mask<Lanes>());
}

// `x` of the thread whose number differs in the bit `offset`.
template <class T>
inline T exchange(unsigned mask, const T& x, int offset) {
  union {
    T value;
    unsigned words[(sizeof(T) + 3) / 4];
  } mine{}, other{};
  mine.value = x;
  for (int i = 0; i < (int)((sizeof(T) + 3) / 4); ++i) other.words[i] = __shfl_xor_sync(mask, mine.words[i], offset);
  return other.value;
}

// All lanes' x put together by join(lower lanes', higher lanes'): the same in every lane. `shared`: room for a T of each warp.
template <int Lanes, class T, class Join>
inline T across(T x, int lane, char* shared, Join join) {
  const unsigned mask = group_mask<Lanes>();
#pragma unroll
  for (int offset = 1; offset < (Lanes < 32 ? Lanes : 32); offset *= 2) {
    const T other = exchange(mask, x, offset);
    x = lane & offset ? join(other, x) : join(x, other);
  }
  if constexpr (Lanes > 32) {
    T* const slots = (T*)shared;
    if ((lane & 31) == 0) slots[lane / 32] = x;
    group_barrier<Lanes>();
    x = slots[lane & (Lanes / 32 - 1)];
#pragma unroll
    for (int offset = 1; offset < Lanes / 32; offset *= 2) {
      const T other = exchange(mask, x, offset);
      x = lane & offset ? join(other, x) : join(x, other);
    }
  }
  return x;
}
)";

}  // namespace thalweg::codegen::cuda
