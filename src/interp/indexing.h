// Walking over the elements of row-major tensors.
#pragma once

#include <cstring>

#include "ir/literal.h"

namespace thalweg::interp {

// Elements between neighbours along each dimension.
inline ir::Dims strides_of(const ir::Dims& dims) {
  ir::Dims strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

// The element at `index`, counted in elements.
inline int64_t offset_of(const ir::Dims& index, const ir::Dims& strides) {
  int64_t offset = 0;
  for (size_t i = 0; i < index.size(); ++i) offset += index[i] * strides[i];
  return offset;
}

// Whether every number of `index` lies in its dimension.
inline bool is_inside(const ir::Dims& index, const ir::Dims& dims) {
  for (size_t i = 0; i < dims.size(); ++i)
    if (index[i] < 0 || index[i] >= dims[i]) return false;
  return true;
}

// Calls visit(index, number) for every index of a tensor of shape `dims`, last dimension fastest.
template <class Visit>
void for_each_index(const ir::Dims& dims, const Visit& visit) {
  for (int64_t d : dims)
    if (d == 0) return;
  ir::Dims index(dims.size(), 0);
  for (int64_t number = 0;; ++number) {
    visit(static_cast<const ir::Dims&>(index), number);
    size_t i = dims.size();
    while (i > 0 && ++index[i - 1] == dims[i - 1]) index[--i] = 0;
    if (i == 0) return;
  }
}

inline const std::byte* element(const ir::Literal& literal, int64_t i) { return literal.data.data() + i * ir::byte_size(literal.type.dtype); }
inline std::byte* element(ir::Literal& literal, int64_t i) { return literal.data.data() + i * ir::byte_size(literal.type.dtype); }

// to[i] = from[j]; both have the same dtype.
inline void copy_element(ir::Literal& to, int64_t i, const ir::Literal& from, int64_t j) {
  std::memcpy(element(to, i), element(from, j), static_cast<size_t>(ir::byte_size(to.type.dtype)));
}

}  // namespace thalweg::interp
