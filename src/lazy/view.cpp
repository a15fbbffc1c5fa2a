// Questions about strided windows: density, order in memory, equality, hash.
#include "lazy/view.h"

#include <algorithm>
#include <numeric>

#include "support/error.h"
#include "support/hash.h"

namespace thalweg::lazy {

View::View(ir::DType dtype, std::span<const int64_t> dims) : dtype(dtype), rank(static_cast<uint8_t>(dims.size())) {
  THALWEG_ASSERT(dims.size() <= kMaxRank, "rank ", dims.size());
  int64_t stride = 1;
  for (int i = rank - 1; i >= 0; --i) {
    sizes[i] = dims[i];
    strides[i] = stride;
    stride *= std::max<int64_t>(dims[i], 1);
  }
}

View::View(ir::DType dtype, std::span<const int64_t> dims, std::span<const int64_t> strides_in, int64_t offset)
    : dtype(dtype), rank(static_cast<uint8_t>(dims.size())), offset(offset) {
  THALWEG_ASSERT(dims.size() <= kMaxRank && dims.size() == strides_in.size(), "rank ", dims.size());
  std::copy(dims.begin(), dims.end(), sizes.begin());
  std::copy(strides_in.begin(), strides_in.end(), strides.begin());
}

int64_t View::count() const {
  int64_t n = 1;
  for (int i = 0; i < rank; ++i) n *= sizes[i];
  return n;
}

bool View::same_as(const View& other) const {
  if (dtype != other.dtype || rank != other.rank) return false;
  bool empty = false, strides_equal = offset == other.offset;
  for (int i = 0; i < rank; ++i) {
    if (sizes[i] != other.sizes[i]) return false;
    empty |= sizes[i] == 0;
    strides_equal &= sizes[i] <= 1 || strides[i] == other.strides[i];
  }
  return empty || strides_equal;
}

bool View::is_row_major() const {
  if (offset != 0) return count() == 0;
  int64_t expected = 1;
  bool ordered = true;
  for (int i = rank - 1; i >= 0; --i) {
    if (sizes[i] == 0) return true;
    ordered &= sizes[i] == 1 || strides[i] == expected;
    expected *= sizes[i];
  }
  return ordered;
}

ir::Dims View::memory_order() const {
  ir::Dims order(rank);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return strides[a] > strides[b]; });
  return order;
}

bool View::is_dense() const {
  if (is_row_major()) return true;
  if (offset != 0) return false;
  std::array<int, kMaxRank> order{};
  int n = 0;
  for (int i = 0; i < rank; ++i) {
    if (sizes[i] <= 1) continue;
    int at = n++;
    for (; at > 0 && strides[order[at - 1]] > strides[i]; --at) order[at] = order[at - 1];
    order[at] = i;
  }
  int64_t expected = 1;
  for (int k = 0; k < n; ++k) {
    if (strides[order[k]] != expected) return false;
    expected *= sizes[order[k]];
  }
  return true;
}

uint64_t View::hash() const {
  uint64_t h = mix(static_cast<uint64_t>(dtype) * 64 + rank, static_cast<uint64_t>(offset));
  for (int i = 0; i < rank; ++i) h = mix(h, static_cast<uint64_t>(sizes[i]) * 0x9E3779B97F4A7C15ull + (sizes[i] > 1 ? static_cast<uint64_t>(strides[i]) : 0));
  return h;
}

}  // namespace thalweg::lazy
