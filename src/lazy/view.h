// How a tensor reads or writes the elements of a storage: dtype, sizes, strides and offset, in elements.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "ir/dtype.h"
#include "ir/type.h"

namespace thalweg::lazy {

// Tensors of a higher rank are not traced: they take the fallback.
inline constexpr int kMaxRank = 8;

// A strided window on a storage. sizes and strides beyond `rank` are unspecified.
struct View {
  ir::DType dtype = ir::DType::F32;
  uint8_t rank = 0;
  int64_t offset = 0;
  std::array<int64_t, kMaxRank> sizes, strides;

  View() = default;
  // Row-major over `dims` from element 0.
  View(ir::DType dtype, std::span<const int64_t> dims);
  View(ir::DType dtype, std::span<const int64_t> dims, std::span<const int64_t> strides, int64_t offset);

  std::span<const int64_t> dims() const { return {sizes.data(), rank}; }
  int64_t count() const;
  // Equal meaning: strides of dims of size 0 or 1 do not matter, nor anything but dtype and sizes when there are no elements.
  bool same_as(const View& other) const;
  // True when the elements are exactly the first count() of the storage, in any order of dims (non-overlapping, no gaps, offset 0).
  bool is_dense() const;
  bool is_row_major() const;
  // For a dense view: the dims in memory order, slowest first (a permutation of 0..rank).
  ir::Dims memory_order() const;
  // A hash of everything that same_as() compares.
  uint64_t hash() const;
};

}  // namespace thalweg::lazy
