// Elementwise ops.
#include "interp/indexing.h"
#include "interp/machine.h"
#include "interp/scalar_functions.h"

namespace thalweg::interp {
namespace {

using ir::DType;
using ir::Literal;
using ir::OpCode;

Literal map1(UnaryFn function, const Literal& a, const ir::Type& type) {
  Literal out(type);
  for (int64_t i = 0; i < type.size(); ++i) function(element(a, i), element(out, i));
  return out;
}

Literal map2(BinaryFn function, const Literal& a, const Literal& b, const ir::Type& type) {
  Literal out(type);
  for (int64_t i = 0; i < type.size(); ++i) function(element(a, i), element(b, i), element(out, i));
  return out;
}

std::vector<Literal> unary(const Call& call) {
  const UnaryFn function = unary_function(call.op.code, call.in(0).type.dtype);
  if (!function) unsupported(call.op);
  return one(map1(function, call.in(0), call.type()));
}

std::vector<Literal> binary(const Call& call) {
  const BinaryFn function = binary_function(call.op.code, call.in(0).type.dtype);
  if (!function) unsupported(call.op);
  return one(map2(function, call.in(0), call.in(1), call.type()));
}

std::vector<Literal> convert(const Call& call) { return one(map1(convert_function(call.in(0).type.dtype, call.type().dtype), call.in(0), call.type())); }

std::vector<Literal> compare(const Call& call) {
  const BinaryFn function = compare_function(call.in(0).type.dtype, call.attrs().string("comparison_direction"), call.attrs().string("compare_type", ""));
  return one(map2(function, call.in(0), call.in(1), call.type()));
}

std::vector<Literal> is_finite(const Call& call) {
  Literal out(call.type());
  for (int64_t i = 0; i < out.type.size(); ++i) out.set<bool>(i, __builtin_isfinite(to_double(call.in(0), i)));
  return one(std::move(out));
}

// The first or second half of each complex number; of a real one itself or zero.
std::vector<Literal> part(const Call& call) {
  const bool imaginary = call.op.code == OpCode::Imag;
  const Literal& in = call.in(0);
  Literal out(call.type());
  if (!is_complex(in.type.dtype)) return one(imaginary ? std::move(out) : in);
  const auto size = static_cast<size_t>(byte_size(out.type.dtype));
  for (int64_t i = 0; i < out.type.size(); ++i) std::memcpy(element(out, i), element(in, i) + (imaginary ? size : 0), size);
  return one(std::move(out));
}

std::vector<Literal> complex(const Call& call) {
  Literal out(call.type());
  const auto size = static_cast<size_t>(byte_size(call.in(0).type.dtype));
  for (int64_t i = 0; i < out.type.size(); ++i)
    for (size_t k = 0; k < 2; ++k) std::memcpy(element(out, i) + k * size, element(call.in(k), i), size);
  return one(std::move(out));
}

std::vector<Literal> select(const Call& call) {
  const Literal& predicate = call.in(0);
  Literal out(call.type());
  for (int64_t i = 0; i < out.type.size(); ++i) copy_element(out, i, predicate.get<bool>(predicate.type.rank() == 0 ? 0 : i) ? call.in(1) : call.in(2), i);
  return one(std::move(out));
}

// min(max(operand, low), high)
std::vector<Literal> clamp(const Call& call) {
  const Literal &low = call.in(0), &high = call.in(2);
  const BinaryFn max = binary_function(OpCode::Maximum, low.type.dtype), min = binary_function(OpCode::Minimum, low.type.dtype);
  Literal out(call.type());
  for (int64_t i = 0; i < out.type.size(); ++i) {
    max(element(call.in(1), i), element(low, low.type.rank() == 0 ? 0 : i), element(out, i));
    min(element(out, i), element(high, high.type.rank() == 0 ? 0 : i), element(out, i));
  }
  return one(std::move(out));
}

int packed_bits(DType dtype) {
  switch (dtype) {
    case DType::I1:
      return 1;
    case DType::S2:
    case DType::U2:
      return 2;
    case DType::S4:
    case DType::U4:
    case DType::F4E2M1FN:
      return 4;
    default:
      return 0;
  }
}

// Same bits, other type. Sub-byte elements count with the bits that they have, lowest first.
std::vector<Literal> bitcast(const Call& call) {
  const Literal& in = call.in(0);
  Literal out(call.type());
  const int from = packed_bits(in.type.dtype), to = packed_bits(out.type.dtype);
  if (from == 0 && to == 0) {
    std::memcpy(out.data.data(), in.data.data(), in.data.size());
    return one(std::move(out));
  }
  const int64_t from_bits = from ? from : 8 * byte_size(in.type.dtype), to_bits = to ? to : 8 * byte_size(out.type.dtype);
  const auto bit = [&](int64_t n) { return (static_cast<int>(element(in, n / from_bits)[n % from_bits / 8]) >> (n % from_bits % 8)) & 1; };
  for (int64_t n = 0; n < in.type.size() * from_bits; ++n)
    if (bit(n)) element(out, n / to_bits)[n % to_bits / 8] |= std::byte{1} << (n % to_bits % 8);
  if (to != 0 && dtype_class(out.type.dtype) == ir::DTypeClass::Signed)
    for (int64_t i = 0; i < out.type.size(); ++i) ir::store_int(out.type.dtype, element(out, i), static_cast<int64_t>(out.data[static_cast<size_t>(i)]));
  return one(std::move(out));
}

std::vector<Literal> reduce_precision_op(const Call& call) {
  Literal out(call.type());
  const int exponent = static_cast<int>(call.attrs().integer("exponent_bits")), mantissa = static_cast<int>(call.attrs().integer("mantissa_bits"));
  for (int64_t i = 0; i < out.type.size(); ++i) reduce_precision(out.type.dtype, element(call.in(0), i), element(out, i), exponent, mantissa);
  return one(std::move(out));
}

}  // namespace

OpFn elementwise_function(OpCode code) {
  switch (code) {
#define THALWEG_OP(name, text, ...)
#define THALWEG_UNARY(name, text, cls, expression) case OpCode::name:
#define THALWEG_BINARY(name, text, cls, expression)
#include "ir/ops.def"
#undef THALWEG_UNARY
#undef THALWEG_BINARY
    return unary;
#define THALWEG_UNARY(name, text, cls, expression)
#define THALWEG_BINARY(name, text, cls, expression) case OpCode::name:
#include "ir/ops.def"
#undef THALWEG_UNARY
#undef THALWEG_BINARY
#undef THALWEG_OP
    return binary;
    case OpCode::Convert:
      return convert;
    case OpCode::Compare:
      return compare;
    case OpCode::IsFinite:
      return is_finite;
    case OpCode::Real:
    case OpCode::Imag:
      return part;
    case OpCode::Complex:
      return complex;
    case OpCode::Select:
      return select;
    case OpCode::Clamp:
      return clamp;
    case OpCode::BitcastConvert:
      return bitcast;
    case OpCode::ReducePrecision:
      return reduce_precision_op;
    default:
      return nullptr;
  }
}

}  // namespace thalweg::interp
