// Making literals and reading their elements whatever the dtype.
#include "ir/literal.h"

#include <cmath>

#include "ir/float_formats.h"

namespace thalweg::ir {
namespace {

// Bits of the low `bytes` bytes at `from`, zero-extended.
uint64_t load_bits(const std::byte* from, int64_t bytes) {
  uint64_t bits = 0;
  std::memcpy(&bits, from, static_cast<size_t>(bytes));
  return bits;
}

// Reduces `value` to `width` bits as a signed or unsigned integer would wrap.
int64_t wrap(int64_t value, int width, bool is_signed) {
  if (width >= 64) return value;
  const uint64_t low = static_cast<uint64_t>(value) & ((uint64_t{1} << width) - 1);
  if (is_signed && (low >> (width - 1)) & 1) return static_cast<int64_t>(low | (~uint64_t{0} << width));
  return static_cast<int64_t>(low);
}

int integer_bits(DType dtype) {
  if (dtype == DType::S2 || dtype == DType::U2) return 2;
  if (dtype == DType::S4 || dtype == DType::U4) return 4;
  return static_cast<int>(8 * byte_size(dtype));
}

}  // namespace

int64_t load_int(DType dtype, const std::byte* from) {
  const int64_t bytes = byte_size(dtype);
  if (dtype_class(dtype) == DTypeClass::Signed) return wrap(static_cast<int64_t>(load_bits(from, bytes)), static_cast<int>(8 * bytes), true);
  if (dtype_class(dtype) == DTypeClass::Unsigned || dtype == DType::I1) return static_cast<int64_t>(load_bits(from, bytes));
  return static_cast<int64_t>(load_double(dtype, from));
}

double load_double(DType dtype, const std::byte* from) {
  switch (dtype_class(dtype)) {
    case DTypeClass::Float:
      return decode_float(dtype, load_bits(from, byte_size(dtype)));
    case DTypeClass::Complex:
      return load_double(real_dtype(dtype), from);
    case DTypeClass::Unsigned:
      return static_cast<double>(static_cast<uint64_t>(load_int(dtype, from)));
    default:
      return static_cast<double>(load_int(dtype, from));
  }
}

void store_int(DType dtype, std::byte* to, int64_t value) {
  switch (dtype_class(dtype)) {
    case DTypeClass::Float:
    case DTypeClass::Complex:
      store_double(dtype, to, static_cast<double>(value));
      return;
    case DTypeClass::Bool:
      *to = std::byte(value != 0);
      return;
    default:
      break;
  }
  const int64_t wrapped = wrap(value, integer_bits(dtype), dtype_class(dtype) == DTypeClass::Signed);
  std::memcpy(to, &wrapped, static_cast<size_t>(byte_size(dtype)));
}

void store_double(DType dtype, std::byte* to, double value) {
  switch (dtype_class(dtype)) {
    case DTypeClass::Float: {
      const uint64_t bits = encode_float(dtype, value);
      std::memcpy(to, &bits, static_cast<size_t>(byte_size(dtype)));
      return;
    }
    case DTypeClass::Complex:
      store_complex(dtype, to, value, 0.0);
      return;
    case DTypeClass::Bool:
      *to = std::byte(value != 0);
      return;
    case DTypeClass::Unsigned:
      store_int(dtype, to, value >= 0x1p63 ? static_cast<int64_t>(static_cast<uint64_t>(value)) : static_cast<int64_t>(value));
      return;
    case DTypeClass::Signed:
      store_int(dtype, to, static_cast<int64_t>(value));
      return;
  }
}

void store_complex(DType dtype, std::byte* to, double real, double imaginary) {
  const DType part = real_dtype(dtype);
  store_double(part, to, real);
  store_double(part, to + byte_size(part), imaginary);
}

LiteralPtr make_splat(const Type& type, double value) {
  auto literal = std::make_shared<Literal>();
  literal->type = type;
  literal->data.resize(static_cast<size_t>(byte_size(type.dtype)));
  literal->splat = true;
  store_double(type.dtype, literal->data.data(), value);
  return literal;
}

LiteralPtr make_splat_int(const Type& type, int64_t value) {
  auto literal = std::make_shared<Literal>();
  literal->type = type;
  literal->data.resize(static_cast<size_t>(byte_size(type.dtype)));
  literal->splat = true;
  store_int(type.dtype, literal->data.data(), value);
  return literal;
}

LiteralPtr make_ints(DType dtype, const std::vector<int64_t>& values) {
  auto literal = std::make_shared<Literal>(tensor(dtype, {static_cast<int64_t>(values.size())}));
  for (size_t i = 0; i < values.size(); ++i) store_int(dtype, literal->data.data() + static_cast<int64_t>(i) * byte_size(dtype), values[i]);
  return literal;
}

double to_double(const Literal& literal, int64_t i) {
  return load_double(literal.type.dtype, literal.data.data() + (literal.splat ? 0 : i) * byte_size(literal.type.dtype));
}

int64_t to_int(const Literal& literal, int64_t i) {
  return load_int(literal.type.dtype, literal.data.data() + (literal.splat ? 0 : i) * byte_size(literal.type.dtype));
}

Literal expand(const Literal& literal) {
  if (!literal.splat) return literal;
  Literal full(literal.type);
  const size_t step = literal.data.size();
  for (size_t at = 0; at < full.data.size(); at += step) std::memcpy(full.data.data() + at, literal.data.data(), step);
  return full;
}

}  // namespace thalweg::ir
