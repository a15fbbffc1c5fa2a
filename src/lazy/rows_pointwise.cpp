// Rows of arithmetic, comparisons, selects, copies and fills.
#include <cmath>
#include <numbers>

#include "lazy/emit.h"
#include "lazy/rows.h"

namespace thalweg::lazy {
namespace {

using namespace emit;

// One op of the IR on the argument in the result's computing dtype.
template <OpCode code>
Values unary(Lowering& l) {
  return {l.b.unary(code, l.in(0))};
}

template <OpCode code>
Values binary(Lowering& l) {
  return {l.b.binary(code, l.in(0), l.in(1))};
}

template <Comparison direction>
Values compare(Lowering& l) {
  const DType dtype = l.promoted({0, 1});
  return {l.b.compare(direction, l.as(0, dtype), l.as(1, dtype))};
}

template <OpCode code>
Values logical(Lowering& l) {
  const Dims shape = l.shape();
  V a = l.b.broadcast_to(not_zero(l.b, l.t(0)), shape);
  V c = l.b.broadcast_to(not_zero(l.b, l.t(1)), shape);
  return {l.b.binary(code, a, c)};
}

// self + alpha * other and its relatives; alpha is argument `alpha` when present.
V scaled(Lowering& l, size_t arg, size_t alpha) {
  V x = l.in(arg);
  if (!l.has(alpha)) return x;
  if (l.dtype() == DType::I1) return x;
  return mul(l.b, x, l.b.broadcast_to(l.number(alpha, x->type.dtype), l.shape()));
}

Values add_row(Lowering& l) { return {add(l.b, l.in(0), scaled(l, 1, 2))}; }
Values sub_row(Lowering& l) { return {sub(l.b, l.in(0), scaled(l, 1, 2))}; }
Values rsub_row(Lowering& l) { return {sub(l.b, l.in(1), scaled(l, 0, 2))}; }

V truncate(Builder& b, V a) {
  V magnitude = b.unary(OpCode::Floor, b.unary(OpCode::Abs, a));
  return b.select(b.compare(Comparison::LT, a, like(b, a, 0)), b.unary(OpCode::Negate, magnitude), magnitude);
}

// Python's modulo: the sign of the divisor.
V modulo(Builder& b, V a, V c) {
  V r = b.binary(OpCode::Remainder, a, c);
  V differs = b.compare(Comparison::NE, b.compare(Comparison::LT, r, like(b, r, 0)), b.compare(Comparison::LT, c, like(b, c, 0)));
  V nonzero = b.compare(Comparison::NE, r, like(b, r, 0));
  return b.select(b.binary(OpCode::And, nonzero, differs), add(b, r, c), r);
}

V floor_quotient(Builder& b, V a, V c) {
  if (ir::is_float(a->type.dtype)) {
    V quotient = div(b, sub(b, a, modulo(b, a, c)), c);
    V rounded = b.unary(OpCode::Floor, quotient);
    V adjusted = b.select(b.compare(Comparison::GT, sub(b, quotient, rounded), like(b, a, 0.5)), add(b, rounded, 1), rounded);
    return b.select(b.compare(Comparison::EQ, c, like(b, c, 0)), div(b, a, c), adjusted);
  }
  V q = div(b, a, c);
  V r = b.binary(OpCode::Remainder, a, c);
  V differs = b.compare(Comparison::NE, b.compare(Comparison::LT, r, like(b, r, 0)), b.compare(Comparison::LT, c, like(b, c, 0)));
  V inexact = b.compare(Comparison::NE, r, like(b, r, 0));
  return b.select(b.binary(OpCode::And, inexact, differs), sub(b, q, 1), q);
}

Values div_mode(Lowering& l) {
  if (l.kind(2) == ArgKind::None) return {div(l.b, l.in(0), l.in(1))};
  V a = l.in(0), c = l.in(1);
  if (l.string(2) == "floor") return {floor_quotient(l.b, a, c)};
  V q = div(l.b, a, c);
  return {ir::is_float(q->type.dtype) ? truncate(l.b, q) : q};
}

Values floor_divide(Lowering& l) { return {floor_quotient(l.b, l.in(0), l.in(1))}; }
Values remainder_row(Lowering& l) { return {modulo(l.b, l.in(0), l.in(1))}; }

// pow with exponents that are known and cheap written as products.
Values pow_row(Lowering& l) {
  V x = l.in(0);
  if (l.kind(1) == ArgKind::Double || l.kind(1) == ArgKind::Int) {
    const double e = l.real(1);
    if (e == 1) return {x};
    if (e == 2) return {square(l.b, x)};
    if (e == 3) return {mul(l.b, square(l.b, x), x)};
    if (ir::is_float(x->type.dtype)) {
      if (e == 0.5) return {l.b.unary(OpCode::Sqrt, x)};
      if (e == -0.5) return {l.b.unary(OpCode::Rsqrt, x)};
      if (e == -1) return {div(l.b, like(l.b, x, 1), x)};
      if (e == -2) return {div(l.b, like(l.b, x, 1), square(l.b, x))};
    }
  }
  return {l.b.binary(OpCode::Power, x, l.in(1))};
}

Values reciprocal(Lowering& l) {
  V x = l.in(0);
  return {div(l.b, like(l.b, x, 1), x)};
}

template <int base>
Values log_base(Lowering& l) {
  return {mul(l.b, l.b.unary(OpCode::Log, l.in(0)), base == 2 ? std::numbers::log2e : std::numbers::log10e)};
}

Values exp2_row(Lowering& l) {
  V x = l.in(0);
  return {l.b.binary(OpCode::Power, like(l.b, x, 2), x)};
}

Values trunc_row(Lowering& l) {
  V x = l.in(0);
  return {ir::is_float(x->type.dtype) ? truncate(l.b, x) : x};
}

template <OpCode code>
Values rounding(Lowering& l) {
  V x = l.in(0);
  return {ir::is_float(x->type.dtype) ? l.b.unary(code, x) : x};
}

Values sign_row(Lowering& l) {
  V x = l.in(0);
  if (x->type.dtype == DType::I1 || ir::dtype_class(x->type.dtype) == ir::DTypeClass::Unsigned) return {l.b.convert(not_zero(l.b, x), x->type.dtype)};
  V s = l.b.unary(OpCode::Sign, x);
  if (!ir::is_float(x->type.dtype)) return {s};
  return {l.b.select(l.b.compare(Comparison::NE, x, x), like(l.b, x, 0), s)};  // PyTorch: sign(NaN) is 0
}

Values abs_row(Lowering& l) {
  V x = l.in(0);
  const bool plain = x->type.dtype == DType::I1 || ir::dtype_class(x->type.dtype) == ir::DTypeClass::Unsigned;
  return {plain ? x : l.b.unary(OpCode::Abs, x)};
}

Values logical_not(Lowering& l) { return {l.b.unary(OpCode::Not, not_zero(l.b, l.t(0)))}; }

Values isnan_row(Lowering& l) {
  V x = l.t(0);
  return {ir::is_float(x->type.dtype) ? l.b.compare(Comparison::NE, x, x) : l.b.splat(ir::tensor(DType::I1, l.shape()), 0)};
}

Values isinf_row(Lowering& l) {
  V x = l.t(0);
  if (!ir::is_float(x->type.dtype)) return {l.b.splat(ir::tensor(DType::I1, l.shape()), 0)};
  return {l.b.compare(Comparison::EQ, l.b.unary(OpCode::Abs, x), like(l.b, x, INFINITY))};
}

template <bool negative>
Values is_signed_infinity(Lowering& l) {
  V x = l.t(0);
  if (!ir::is_float(x->type.dtype)) return {l.b.splat(ir::tensor(DType::I1, l.shape()), 0)};
  return {l.b.compare(Comparison::EQ, x, like(l.b, x, negative ? -INFINITY : INFINITY))};
}

V three_way_clamp(Lowering& l, V x, V low, V high) {
  if (low) x = l.b.binary(OpCode::Maximum, x, low);
  if (high) x = l.b.binary(OpCode::Minimum, x, high);
  return x;
}

Values clamp_row(Lowering& l) { return {three_way_clamp(l, l.in(0), l.has(1) ? l.in(1) : nullptr, l.has(2) ? l.in(2) : nullptr)}; }
Values clamp_min(Lowering& l) { return {l.b.binary(OpCode::Maximum, l.in(0), l.in(1))}; }
Values clamp_max(Lowering& l) { return {l.b.binary(OpCode::Minimum, l.in(0), l.in(1))}; }

Values where_row(Lowering& l) {
  V condition = l.b.broadcast_to(not_zero(l.b, l.t(0)), l.shape());
  return {l.b.select(condition, l.as(1, l.dtype()), l.as(2, l.dtype()))};
}

Values masked_fill(Lowering& l) {
  V mask = l.b.broadcast_to(not_zero(l.b, l.t(1)), l.shape());
  return {l.b.select(mask, l.as(2, l.dtype()), l.as(0, l.dtype()))};
}

Values lerp_row(Lowering& l) {
  V start = l.in(0), end = l.in(1), weight = l.in(2);
  V difference = sub(l.b, end, start);
  V low = add(l.b, start, mul(l.b, weight, difference));
  V high = sub(l.b, end, mul(l.b, difference, sub(l.b, like(l.b, weight, 1), weight)));
  return {l.b.select(l.b.compare(Comparison::LT, l.b.unary(OpCode::Abs, weight), like(l.b, weight, 0.5)), low, high)};
}

Values addcmul_row(Lowering& l) { return {add(l.b, l.in(0), mul(l.b, mul(l.b, l.in(3), l.in(1)), l.in(2)))}; }
Values addcdiv_row(Lowering& l) { return {add(l.b, l.in(0), div(l.b, mul(l.b, l.in(3), l.in(1)), l.in(2)))}; }

Values fill_row(Lowering& l) { return {l.as(1, l.dtype())}; }
Values zero_row(Lowering& l) { return {l.b.splat(ir::tensor(l.dtype(), l.shape()), 0)}; }
Values one_row(Lowering& l) { return {l.b.splat(ir::tensor(l.dtype(), l.shape()), 1)}; }
Values copy_row(Lowering& l) { return {l.t(0)}; }
Values copy_into(Lowering& l) { return {l.t(1)}; }

Values nan_to_num(Lowering& l) {
  V x = l.in(0);
  if (!ir::is_float(x->type.dtype)) return {x};
  const DType d = l.dtype();
  const double greatest = d == DType::F64    ? 1.7976931348623157e308
                          : d == DType::F16  ? 65504.0
                          : d == DType::BF16 ? 3.3895313892515355e38
                                             : 3.4028234663852886e38;
  const double nan = l.has(1) ? l.real(1) : 0, high = l.has(2) ? l.real(2) : greatest, low = l.has(3) ? l.real(3) : -greatest;
  V y = l.b.select(l.b.compare(Comparison::NE, x, x), like(l.b, x, nan), x);
  y = l.b.select(l.b.compare(Comparison::EQ, x, like(l.b, x, INFINITY)), like(l.b, x, high), y);
  return {l.b.select(l.b.compare(Comparison::EQ, x, like(l.b, x, -INFINITY)), like(l.b, x, low), y)};
}

Values sinh_row(Lowering& l) {
  V e = l.b.unary(OpCode::ExponentialMinusOne, l.in(0));
  return {mul(l.b, add(l.b, e, div(l.b, e, add(l.b, e, 1))), 0.5)};
}

Values cosh_row(Lowering& l) {
  V e = l.b.unary(OpCode::Exponential, l.in(0));
  return {mul(l.b, add(l.b, e, div(l.b, like(l.b, e, 1), e)), 0.5)};
}

Values atan_row(Lowering& l) {
  V x = l.in(0);
  return {l.b.binary(OpCode::Atan2, x, like(l.b, x, 1))};
}

Values asin_row(Lowering& l) {
  V x = l.in(0);
  V root = l.b.unary(OpCode::Sqrt, mul(l.b, sub(l.b, like(l.b, x, 1), x), add(l.b, x, 1)));
  return {l.b.binary(OpCode::Atan2, x, root)};
}

Values acos_row(Lowering& l) {
  V x = l.in(0);
  V root = l.b.unary(OpCode::Sqrt, mul(l.b, sub(l.b, like(l.b, x, 1), x), add(l.b, x, 1)));
  return {l.b.binary(OpCode::Atan2, root, x)};
}

template <OpCode code>
Values bitwise(Lowering& l) {
  return {l.b.binary(code, l.as(0, l.dtype()), l.as(1, l.dtype()))};
}

Values frac_row(Lowering& l) {
  V x = l.in(0);
  return {sub(l.b, x, truncate(l.b, x))};
}

Values masked_zero(Lowering& l) {  // threshold(self, threshold, value)
  V x = l.in(0);
  return {l.b.select(l.b.compare(Comparison::LE, x, l.in(1)), l.in(2), x)};
}

}  // namespace

std::vector<Row> pointwise_rows() {
  return {
      {"aten::abs", abs_row},
      {"aten::neg", unary<OpCode::Negate>},
      {"aten::exp", unary<OpCode::Exponential>},
      {"aten::expm1", unary<OpCode::ExponentialMinusOne>},
      {"aten::exp2", exp2_row},
      {"aten::log", unary<OpCode::Log>},
      {"aten::log1p", unary<OpCode::LogPlusOne>},
      {"aten::log2", log_base<2>},
      {"aten::log10", log_base<10>},
      {"aten::sqrt", unary<OpCode::Sqrt>},
      {"aten::rsqrt", unary<OpCode::Rsqrt>},
      {"aten::sin", unary<OpCode::Sine>},
      {"aten::cos", unary<OpCode::Cosine>},
      {"aten::tan", unary<OpCode::Tan>},
      {"aten::sinh", sinh_row},
      {"aten::cosh", cosh_row},
      {"aten::atan", atan_row},
      {"aten::asin", asin_row},
      {"aten::acos", acos_row},
      {"aten::tanh", unary<OpCode::Tanh>},
      {"aten::sigmoid", unary<OpCode::Logistic>},
      {"aten::erf", unary<OpCode::Erf>},
      {"aten::erfc", unary<OpCode::Erfc>},
      {"aten::floor", rounding<OpCode::Floor>},
      {"aten::ceil", rounding<OpCode::Ceil>},
      {"aten::round", rounding<OpCode::RoundNearestEven>},
      {"aten::trunc", trunc_row},
      {"aten::frac", frac_row},
      {"aten::sign", sign_row},
      {"aten::sgn", sign_row},
      {"aten::reciprocal", reciprocal},
      {"aten::logical_not", logical_not},
      {"aten::bitwise_not", unary<OpCode::Not>},
      {"aten::isnan", isnan_row},
      {"aten::isinf", isinf_row},
      {"aten::isneginf", is_signed_infinity<true>},
      {"aten::isposinf", is_signed_infinity<false>},
      {"aten::nan_to_num", nan_to_num},
      {"aten::add.Tensor", add_row},
      {"aten::add.Scalar", add_row},
      {"aten::sub.Tensor", sub_row},
      {"aten::sub.Scalar", sub_row},
      {"aten::rsub.Tensor", rsub_row},
      {"aten::rsub.Scalar", rsub_row},
      {"aten::mul.Tensor", binary<OpCode::Multiply>},
      {"aten::mul.Scalar", binary<OpCode::Multiply>},
      {"aten::div.Tensor", binary<OpCode::Divide>},
      {"aten::div.Scalar", binary<OpCode::Divide>},
      {"aten::div.Tensor_mode", div_mode},
      {"aten::div.Scalar_mode", div_mode},
      {"aten::floor_divide", floor_divide},
      {"aten::floor_divide.Scalar", floor_divide},
      {"aten::remainder.Tensor", remainder_row},
      {"aten::remainder.Scalar", remainder_row},
      {"aten::fmod.Tensor", binary<OpCode::Remainder>},
      {"aten::fmod.Scalar", binary<OpCode::Remainder>},
      {"aten::pow.Tensor_Tensor", pow_row},
      {"aten::pow.Tensor_Scalar", pow_row, kScalarsStatic},
      {"aten::pow.Scalar", pow_row},
      {"aten::atan2", binary<OpCode::Atan2>},
      {"aten::maximum", binary<OpCode::Maximum>},
      {"aten::minimum", binary<OpCode::Minimum>},
      {"aten::eq.Tensor", compare<Comparison::EQ>},
      {"aten::eq.Scalar", compare<Comparison::EQ>},
      {"aten::ne.Tensor", compare<Comparison::NE>},
      {"aten::ne.Scalar", compare<Comparison::NE>},
      {"aten::lt.Tensor", compare<Comparison::LT>},
      {"aten::lt.Scalar", compare<Comparison::LT>},
      {"aten::le.Tensor", compare<Comparison::LE>},
      {"aten::le.Scalar", compare<Comparison::LE>},
      {"aten::gt.Tensor", compare<Comparison::GT>},
      {"aten::gt.Scalar", compare<Comparison::GT>},
      {"aten::ge.Tensor", compare<Comparison::GE>},
      {"aten::ge.Scalar", compare<Comparison::GE>},
      {"aten::logical_and", logical<OpCode::And>},
      {"aten::logical_or", logical<OpCode::Or>},
      {"aten::logical_xor", logical<OpCode::Xor>},
      {"aten::bitwise_and.Tensor", bitwise<OpCode::And>},
      {"aten::bitwise_and.Scalar", bitwise<OpCode::And>},
      {"aten::bitwise_or.Tensor", bitwise<OpCode::Or>},
      {"aten::bitwise_or.Scalar", bitwise<OpCode::Or>},
      {"aten::bitwise_xor.Tensor", bitwise<OpCode::Xor>},
      {"aten::bitwise_xor.Scalar", bitwise<OpCode::Xor>},
      {"aten::clamp", clamp_row},
      {"aten::clamp.Tensor", clamp_row},
      {"aten::clamp_min", clamp_min},
      {"aten::clamp_min.Tensor", clamp_min},
      {"aten::clamp_max", clamp_max},
      {"aten::clamp_max.Tensor", clamp_max},
      {"aten::where.self", where_row},
      {"aten::masked_fill.Scalar", masked_fill, kOverlapAllowed},
      {"aten::masked_fill.Tensor", masked_fill, kOverlapAllowed},
      {"aten::lerp.Scalar", lerp_row},
      {"aten::lerp.Tensor", lerp_row},
      {"aten::addcmul", addcmul_row},
      {"aten::addcdiv", addcdiv_row},
      {"aten::threshold", masked_zero},
      {"aten::fill.Scalar", fill_row, kOverlapAllowed},
      {"aten::fill.Tensor", fill_row, kOverlapAllowed},
      {"aten::zero", zero_row, kOverlapAllowed},
      {"aten::zeros_like", zero_row},
      {"aten::ones_like", one_row},
      {"aten::clone", copy_row},
      {"aten::copy", copy_into},
  };
}

}  // namespace thalweg::lazy
