// Random elementwise ops, and floats whose sums are exact.
#include "tools_cli/random_drawer.h"

#include <cmath>
#include <cstring>

namespace thalweg::tools_cli {
namespace {

constexpr OpCode kFloatUnary[] = {OpCode::Abs,      OpCode::Cbrt,        OpCode::Ceil,
                                  OpCode::Cosine,   OpCode::Exponential, OpCode::ExponentialMinusOne,
                                  OpCode::Floor,    OpCode::Log,         OpCode::LogPlusOne,
                                  OpCode::Logistic, OpCode::Negate,      OpCode::RoundNearestAfz,
                                  OpCode::Rsqrt,    OpCode::Sign,        OpCode::Sine,
                                  OpCode::Sqrt,     OpCode::Tan,         OpCode::Tanh,
                                  OpCode::Erf,      OpCode::Erfc,        OpCode::RoundNearestEven};
constexpr OpCode kFloatBinary[] = {OpCode::Add,     OpCode::Subtract, OpCode::Multiply,  OpCode::Divide, OpCode::Maximum,
                                   OpCode::Minimum, OpCode::Power,    OpCode::Remainder, OpCode::Atan2};
constexpr OpCode kComplexUnary[] = {OpCode::Negate, OpCode::Real, OpCode::Imag, OpCode::Abs, OpCode::Exponential};
constexpr OpCode kComplexBinary[] = {OpCode::Add, OpCode::Subtract, OpCode::Multiply, OpCode::Divide};
constexpr OpCode kIntegerUnary[] = {OpCode::Not, OpCode::Popcnt, OpCode::CountLeadingZeros, OpCode::Negate};
constexpr OpCode kIntegerBinary[] = {OpCode::Add,
                                     OpCode::Subtract,
                                     OpCode::Multiply,
                                     OpCode::Divide,
                                     OpCode::Remainder,
                                     OpCode::Maximum,
                                     OpCode::Minimum,
                                     OpCode::And,
                                     OpCode::Or,
                                     OpCode::Xor,
                                     OpCode::ShiftLeft,
                                     OpCode::ShiftRightLogical,
                                     OpCode::ShiftRightArithmetic,
                                     OpCode::Power};
constexpr OpCode kBoolBinary[] = {OpCode::And, OpCode::Or, OpCode::Xor, OpCode::Maximum, OpCode::Minimum, OpCode::Add, OpCode::Multiply};

}  // namespace

Value* Drawer::unary() {
  Value* a = any();
  const DType dtype = a->type.dtype;
  if (is_float(dtype)) return b().unary(one_of(kFloatUnary), a);
  if (is_complex(dtype)) return b().unary(one_of(kComplexUnary), a);
  if (dtype == DType::I1) return b().unary(OpCode::Not, a);
  return b().unary(one_of(kIntegerUnary), a);
}

OpCode Drawer::binary_code(DType dtype) {
  if (is_float(dtype)) return one_of(kFloatBinary);
  if (is_complex(dtype)) return one_of(kComplexBinary);
  return dtype == DType::I1 ? one_of(kBoolBinary) : one_of(kIntegerBinary);
}

Value* Drawer::binary() {
  Value* a = any();
  Value* other = exactly(a->type);
  if (chance(50)) std::swap(a, other);
  return b().binary(binary_code(a->type.dtype), a, other);
}

Value* Drawer::compare() {
  Value* a = of([](DType d) { return !ir::is_complex(d); });
  return b().compare(static_cast<ir::Comparison>(below(6)), a, exactly(a->type));
}

Value* Drawer::select() {
  Value* a = any();
  Value* other = exactly(a->type);
  return b().select(exactly(ir::tensor(DType::I1, chance(15) ? Dims{} : a->type.dims)), a, other);
}

Value* Drawer::clamp() {
  Value* a = of([](DType d) { return !ir::is_complex(d); });
  const Type bound = chance(50) ? a->type : ir::tensor(a->type.dtype);
  Value* low = exactly(bound);
  return b().make(OpCode::Clamp, {low, a, exactly(bound)})->result();
}

Value* Drawer::convert() {
  Value* a = any();
  DType to = one_of(kDTypes);
  if (is_complex(a->type.dtype) && !is_complex(to)) to = DType::C64;
  return b().convert(a, to);
}

Value* Drawer::bitcast() {
  Value* a = of([](DType d) { return !ir::is_complex(d) && d != DType::I1; });
  DType to = one_of(kDTypes);
  while (byte_size(to) != byte_size(a->type.dtype) || to == DType::I1 || is_complex(to)) to = one_of(kDTypes);
  if (is_float(a->type.dtype)) {  // which NaN it is, nobody promises
    a = b().select(b().compare(ir::Comparison::EQ, a, a), a, b().splat(a->type, 0));
  }
  return b().bitcast(a, ir::tensor(to, a->type.dims));
}

Value* Drawer::part() {
  if (Value* a = find([](const Type& t) { return is_complex(t.dtype); })) return b().unary(chance(50) ? OpCode::Real : OpCode::Imag, a);
  Value* re = of([](DType d) { return d == DType::F32 || d == DType::F64; });
  return b().make(OpCode::Complex, {re, exactly(re->type)})->result();
}

Value* Drawer::reduce_precision() {
  Value* a = of([](DType d) { return d == DType::F32 || d == DType::F64; });
  ir::Attributes attrs;
  attrs.set("exponent_bits", ir::Attribute(2 + below(9), "i32"));
  attrs.set("mantissa_bits", ir::Attribute(below(24), "i32"));
  return b().make(OpCode::ReducePrecision, {a}, std::move(attrs))->result();
}

Value* Drawer::small_integers(Value* a) {
  const Type &type = a->type, scalar = ir::tensor(a->type.dtype);
  Value* ordered = b().compare(ir::Comparison::EQ, a, a);
  Value* number = b().select(ordered, a, b().splat(type, 0));
  Value* clamped = b().make(OpCode::Clamp, {b().splat(scalar, -4), number, b().splat(scalar, 4)})->result();
  return b().unary(OpCode::RoundNearestEven, clamped);
}

Value* Drawer::summable(Value* a) {
  if (is_float(a->type.dtype)) {
    a = small_integers(a);
    return byte_size(a->type.dtype) < 4 ? b().convert(a, DType::F32) : a;
  }
  return is_complex(a->type.dtype) ? summable(b().unary(OpCode::Real, a)) : a;
}

Value* Drawer::iota() {
  Type type = random_type();
  if (type.rank() == 0 || type.dtype == DType::I1) return nullptr;
  return b().iota(type, below(type.rank()));
}

Value* Drawer::random_bits() {
  ir::Attributes attrs;
  attrs.set("rng_algorithm", ir::EnumWord{"rng_algorithm", chance(80) ? "PHILOX" : "THREE_FRY"});
  const Type state = ir::tensor(DType::U64, {2});
  return b()
      .make(OpCode::RngBitGenerator, {exactly(state)}, std::move(attrs), {state, ir::tensor(chance(70) ? DType::U32 : DType::U64, random_dims())})
      ->result(1);
}

}  // namespace thalweg::tools_cli
