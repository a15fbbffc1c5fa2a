// Rows of random numbers. Philox counters are taken when the operation is recorded, so values do not depend on where flushes fall.
#include <cmath>
#include <numbers>

#include "lazy/emit.h"
#include "lazy/rows.h"

namespace thalweg::lazy {
namespace {

using namespace emit;

// Streams of one operation that must be independent use keys that differ by this.
constexpr double kSecondKey = 2654435769.0;

V bits(Lowering& l, bool second = false) {
  Builder& b = l.b;
  V state = l.rng_state();
  if (second)
    state = b.binary(OpCode::Xor, state, b.concatenate({b.splat(ir::tensor(DType::U64, {1}), kSecondKey), b.splat(ir::tensor(DType::U64, {1}), 0)}, 0));
  ir::Attributes attrs;
  attrs.set("rng_algorithm", ir::EnumWord{"rng_algorithm", "PHILOX"});
  ir::Op* op = b.make(OpCode::RngBitGenerator, {state}, attrs, {state->type, ir::tensor(DType::U32, l.shape())});
  return op->result(1);
}

// Uniform in [0, 1) with as many bits as the dtype's mantissa holds: 24 for f32, 53 for f64.
V uniform(Lowering& l, DType dtype, bool second = false) {
  Builder& b = l.b;
  V high = bits(l, second);
  if (dtype == DType::F64) {
    V low = bits(l, !second);
    V top = mul(b, b.convert(b.binary(OpCode::ShiftRightLogical, high, like(b, high, 5)), DType::F64), 67108864.0);
    return mul(b, add(b, top, b.convert(b.binary(OpCode::ShiftRightLogical, low, like(b, low, 6)), DType::F64)), 1.0 / 9007199254740992.0);
  }
  return mul(b, b.convert(b.binary(OpCode::ShiftRightLogical, high, like(b, high, 8)), DType::F32), 1.0 / 16777216.0);
}

DType float_dtype(Lowering& l) { return l.dtype() == DType::F64 ? DType::F64 : DType::F32; }

V number_like(Lowering& l, size_t arg, V a) { return l.b.broadcast_to(l.number(arg, a->type.dtype), a->type.dims); }

Values uniform_row(Lowering& l) {  // self, from, to
  Builder& b = l.b;
  V u = uniform(l, float_dtype(l)), from = number_like(l, 1, u), to = number_like(l, 2, u);
  return {add(b, mul(b, u, sub(b, to, from)), from)};
}

Values normal_row(Lowering& l) {  // self, mean, std: Box and Muller's transform
  Builder& b = l.b;
  const DType dtype = float_dtype(l);
  V u = uniform(l, dtype), angle = mul(b, uniform(l, dtype, true), 2 * std::numbers::pi);
  V radius = b.unary(OpCode::Sqrt, mul(b, b.unary(OpCode::LogPlusOne, b.unary(OpCode::Negate, u)), -2));
  V z = mul(b, radius, b.unary(OpCode::Cosine, angle));
  return {add(b, mul(b, z, number_like(l, 2, z)), number_like(l, 1, z))};
}

V bernoulli(Lowering& l, V probability) {
  V u = uniform(l, DType::F32);
  return l.b.compare(Comparison::LT, u, l.b.broadcast_to(l.b.convert(probability, DType::F32), l.shape()));
}

Values bernoulli_p_row(Lowering& l) { return {bernoulli(l, l.number(1, DType::F32))}; }  // self, p
Values bernoulli_tensor_row(Lowering& l) { return {bernoulli(l, l.t(0))}; }              // self holds the probabilities
Values bernoulli_by_row(Lowering& l) { return {bernoulli(l, l.t(1))}; }                  // self, p tensor

Values dropout_row(Lowering& l) {  // input, p, train → output, mask
  Builder& b = l.b;
  V x = l.in(0);
  if (l.kind(2) != ArgKind::None && !l.boolean(2)) return {x, b.splat(ir::tensor(DType::I1, l.shape()), 1)};
  const double p = l.real(1);
  V keep = bernoulli(l, b.splat(ir::tensor(DType::F32), 1 - p));
  return {b.select(keep, mul(b, x, p < 1 ? 1 / (1 - p) : 0), like(b, x, 0)), keep};
}

Values dropout_backward_row(Lowering& l) {  // grad_output, mask, scale
  V g = l.in(0);
  return {l.b.select(l.t(1), mul(l.b, g, l.real(2)), like(l.b, g, 0))};
}

Values exponential_row(Lowering& l) {  // self, lambd
  Builder& b = l.b;
  V u = uniform(l, float_dtype(l));
  return {div(b, b.unary(OpCode::Negate, b.unary(OpCode::LogPlusOne, b.unary(OpCode::Negate, u))), number_like(l, 1, u))};
}

// Integers in [low, low + range): 64 random bits modulo the range.
V integers(Lowering& l, V low, V range) {
  Builder& b = l.b;
  V high_bits = b.convert(bits(l), DType::U64), low_bits = b.convert(bits(l, true), DType::U64);
  V wide = b.binary(OpCode::Or, b.binary(OpCode::ShiftLeft, high_bits, like(b, high_bits, 32)), low_bits);
  V offset = b.convert(b.binary(OpCode::Remainder, wide, b.broadcast_to(b.convert(range, DType::U64), l.shape())), DType::S64);
  return add(b, offset, b.broadcast_to(low, l.shape()));
}

Values random_from_row(Lowering& l) {  // self, from, to?
  V from = l.number(1, DType::S64);
  if (l.kind(2) == ArgKind::None) return {integers(l, from, l.b.splat(ir::tensor(DType::S64), 9007199254740992.0))};
  return {integers(l, from, sub(l.b, l.number(2, DType::S64), from))};
}

Values random_to_row(Lowering& l) { return {integers(l, l.b.splat(ir::tensor(DType::S64), 0), l.number(1, DType::S64))}; }  // self, to

Values random_row(Lowering& l) {  // self: the dtype's whole range of exactly held integers
  double range = 9007199254740992.0;
  switch (l.dtype()) {
    case DType::I1:
      range = 2;
      break;
    case DType::U8:
      range = 256;
      break;
    case DType::S8:
      range = 128;
      break;
    case DType::S16:
      range = 32768;
      break;
    case DType::S32:
      range = 2147483648.0;
      break;
    case DType::F32:
      range = 16777217;
      break;
    case DType::F16:
      range = 2049;
      break;
    case DType::BF16:
      range = 257;
      break;
    default:
      break;
  }
  return {integers(l, l.b.splat(ir::tensor(DType::S64), 0), l.b.splat(ir::tensor(DType::S64), range))};
}

}  // namespace

std::vector<Row> random_rows() {
  return {
      {"aten::uniform_", uniform_row, kRandom},
      {"aten::normal_", normal_row, kRandom},
      {"aten::bernoulli", bernoulli_tensor_row, kRandom},
      {"aten::bernoulli.p", bernoulli_p_row, kRandom},
      {"aten::bernoulli_.float", bernoulli_p_row, kRandom},
      {"aten::bernoulli_.Tensor", bernoulli_by_row, kRandom},
      {"aten::native_dropout", dropout_row, kRandom},
      {"aten::native_dropout_backward", dropout_backward_row},
      {"aten::exponential_", exponential_row, kRandom},
      {"aten::random_", random_row, kRandom},
      {"aten::random_.from", random_from_row, kRandom},
      {"aten::random_.to", random_to_row, kRandom},
  };
}

}  // namespace thalweg::lazy
