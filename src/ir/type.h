// Types of IR values: tensors, tokens, tuples, and text kept for types that are only parsed and printed.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "ir/dtype.h"

namespace thalweg::ir {

using Dims = std::vector<int64_t>;

// A dimension written `?`: parsed, printed and verified, never compiled.
inline constexpr int64_t kDynamic = std::numeric_limits<int64_t>::min();

// The type of one value. Tensors are dense and row-major in meaning; memory layout is the plan's business.
struct Type {
  enum class Kind : uint8_t { Tensor, Token, Tuple, Opaque };
  Kind kind = Kind::Tensor;
  DType dtype = DType::F32;
  Dims dims;
  std::vector<Type> elements;  // of a tuple
  std::string text;            // Opaque: the type as written; Tensor: its encoding or quantized element type, usually empty

  bool is_tensor() const { return kind == Kind::Tensor; }
  int64_t rank() const { return static_cast<int64_t>(dims.size()); }
  // Number of elements: 1 for rank 0.
  int64_t size() const {
    int64_t n = 1;
    for (int64_t d : dims) n *= d;
    return n;
  }
  int64_t bytes() const { return size() * byte_size(dtype); }
  bool operator==(const Type&) const = default;
};

// A dense tensor type; the token type.
inline Type tensor(DType dtype, Dims dims = {}) {
  Type t;
  t.dtype = dtype;
  t.dims = std::move(dims);
  return t;
}
// The token type.
inline Type token() {
  Type t;
  t.kind = Type::Kind::Token;
  return t;
}

// As StableHLO writes it, e.g. "tensor<2x3xf32>".
std::string to_string(const Type& type);

}  // namespace thalweg::ir
