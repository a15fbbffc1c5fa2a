// A constant or host tensor: a type and its bytes, row-major, little-endian, one byte for i1 and sub-byte elements.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

#include "ir/type.h"

namespace thalweg::ir {

// Immutable once shared; `splat` literals hold one element that stands for all of them.
struct Literal {
  Type type;
  std::vector<std::byte> data;
  bool splat = false;

  Literal() = default;
  // Zero-filled.
  explicit Literal(Type t) : type(std::move(t)), data(static_cast<size_t>(type.bytes())) {}

  // Element `i` in row-major order, read as T (no conversion: T must have the element's size).
  template <class T>
  T get(int64_t i) const {
    T v;
    std::memcpy(&v, data.data() + (splat ? 0 : i) * static_cast<int64_t>(sizeof(T)), sizeof(T));
    return v;
  }
  template <class T>
  void set(int64_t i, T v) {
    std::memcpy(data.data() + i * static_cast<int64_t>(sizeof(T)), &v, sizeof(T));
  }
  // Same type and bits; a splat equals its expansion only when it has one element.
  bool operator==(const Literal& other) const { return type == other.type && data == other.data && (splat == other.splat || type.size() == 1); }
};

using LiteralPtr = std::shared_ptr<const Literal>;

// A literal whose every element is `value` converted to `type.dtype` (rounded once; complex: imaginary part 0). Stored as a splat.
LiteralPtr make_splat(const Type& type, double value);
LiteralPtr make_splat_int(const Type& type, int64_t value);
// A rank-1 literal from integers, converted to `dtype`.
LiteralPtr make_ints(DType dtype, const std::vector<int64_t>& values);
// Element `i` as double / int64 (complex: real part), whatever the dtype.
double to_double(const Literal& literal, int64_t i);
int64_t to_int(const Literal& literal, int64_t i);

// One element in memory, converted from or to a C++ number; floats are rounded once, integers wrap (f64 to integer: truncates), complex: real part.
double load_double(DType dtype, const std::byte* from);
int64_t load_int(DType dtype, const std::byte* from);
void store_double(DType dtype, std::byte* to, double value);
void store_int(DType dtype, std::byte* to, int64_t value);
void store_complex(DType dtype, std::byte* to, double real, double imaginary);

// The same tensor with every element stored.
Literal expand(const Literal& literal);

}  // namespace thalweg::ir
