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

// What the lanes before this one have, put together behind `nothing`; `all` gets that of all lanes. `shared` as in across.
template <int Lanes, class T, class Join>
inline T before(T x, T nothing, int lane, char* shared, Join join, T& all) {
  const unsigned mask = group_mask<Lanes>();
  T prefix = nothing, total = x;
#pragma unroll
  for (int offset = 1; offset < (Lanes < 32 ? Lanes : 32); offset *= 2) {
    const T other = exchange(mask, total, offset);
    if (lane & offset) prefix = join(other, prefix);
    total = lane & offset ? join(other, total) : join(total, other);
  }
  if constexpr (Lanes > 32) {
    T* const slots = (T*)shared;
    if ((lane & 31) == 0) slots[lane / 32] = total;
    group_barrier<Lanes>();
    T warps = nothing;
    total = nothing;
    for (int warp = 0; warp < Lanes / 32; ++warp) {
      if (warp == lane / 32) warps = total;
      total = join(total, slots[warp]);
    }
    prefix = join(warps, prefix);
    group_barrier<Lanes>();
  }
  all = total;
  return prefix;
}

// to[at, at + count) of the merge of from[low, middle) and from[middle, high), as `less` orders them, equal ones of the first run first; `at` counts from low.
template <class Less>
inline void merge_part(const int* from, int* to, int64_t low, int64_t middle, int64_t high, int64_t at, int count, Less less) {
  int64_t first = at > high - middle ? at - (high - middle) : 0, last = at < middle - low ? at : middle - low;
  while (first < last) {
    const int64_t half = (first + last) / 2;
    if (less(from[middle + at - 1 - half], from[low + half])) last = half;
    else first = half + 1;
  }
  int64_t a = low + first, b = middle + at - first;
  for (int k = 0; k < count && low + at + k < high; ++k) {
    const bool second = a >= middle || (b < high && less(from[b], from[a]));
    to[low + at + k] = second ? from[b++] : from[a++];
  }
}

// Sorts order[0, n), n <= Tile, with `spare` beside it, both shared by the lanes; returns where the result is.
template <int Lanes, int Tile, class Less>
inline int* sort_tile(int* order, int* spare, int n, int lane, Less less) {
  constexpr int own = Tile / Lanes;
  const int begin = lane * own, end = begin + own < n ? begin + own : n;
  for (int i = begin + 1; i < end; ++i) {
    const int x = order[i];
    int at = i;
    for (; at > begin && less(x, order[at - 1]); --at) order[at] = order[at - 1];
    order[at] = x;
  }
  for (int width = own; width < n; width *= 2) {
    group_barrier<Lanes>();
    const int low = begin / (2 * width) * (2 * width), middle = low + width < n ? low + width : n, high = low + 2 * width < n ? low + 2 * width : n;
    if (begin < n) merge_part(order, spare, low, middle, high, begin - low, own, less);
    int* const other = order;
    order = spare, spare = other;
  }
  group_barrier<Lanes>();
  return order;
}
)";

}  // namespace thalweg::codegen::cuda
