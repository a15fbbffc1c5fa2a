// Rows of reductions: sums, extremes, variances, softmax.
#include <cmath>

#include "lazy/emit.h"
#include "lazy/rows.h"

namespace thalweg::lazy {
namespace {

using namespace emit;

// Argument 0 in the result's computing dtype, in its own shape.
V operand(Lowering& l, size_t arg = 0) { return l.fit(l.t(arg), Lowering::compute_dtype(l.dtype()), l.t(arg)->type.dims); }

// The reduced value in the result's shape (keepdim puts ones in).
V shaped(Lowering& l, V reduced, size_t result = 0) { return l.b.reshape(reduced, l.shape(result)); }

Values sum_all(Lowering& l) { return {sum(l.b, operand(l), all_dims(l.t(0)->type.rank()))}; }
Values sum_dims(Lowering& l) { return {shaped(l, sum(l.b, operand(l), normal_dims(l.ints(1), l.t(0)->type.rank())))}; }
Values mean_all(Lowering& l) { return {mean(l.b, operand(l), all_dims(l.t(0)->type.rank()))}; }
Values mean_dims(Lowering& l) { return {shaped(l, mean(l.b, operand(l), normal_dims(l.ints(1), l.t(0)->type.rank())))}; }

V reduce_by(Lowering& l, OpCode code, V x, const Dims& dims) {
  if (dims.empty()) return x;
  const ir::Type scalar = ir::tensor(x->type.dtype);
  const bool is_float = ir::is_float(x->type.dtype), is_bool = x->type.dtype == DType::I1;
  if (code == OpCode::Maximum) return is_bool ? l.b.reduce(OpCode::Or, x, l.b.splat(scalar, 0), dims) : l.b.max(x, dims);
  if (code == OpCode::Minimum) {
    if (is_bool) return l.b.reduce(OpCode::And, x, l.b.splat(scalar, 1), dims);
    if (is_float) return l.b.reduce(code, x, l.b.splat(scalar, INFINITY), dims);
    V flipped = l.b.unary(OpCode::Not, x);  // order-reversing on two's complement and unsigned alike
    return l.b.unary(OpCode::Not, l.b.max(flipped, dims));
  }
  return l.b.reduce(code, x, l.b.splat(scalar, code == OpCode::Or ? 0 : 1), dims);
}

template <OpCode code>
Values extreme_all(Lowering& l) {
  return {reduce_by(l, code, l.t(0), all_dims(l.t(0)->type.rank()))};
}

template <OpCode code>
Values extreme_dims(Lowering& l) {
  return {shaped(l, reduce_by(l, code, l.t(0), normal_dims(l.ints(1), l.t(0)->type.rank())))};
}

template <OpCode code>
Values logical_all(Lowering& l) {
  return {reduce_by(l, code, not_zero(l.b, l.t(0)), all_dims(l.t(0)->type.rank()))};
}

template <OpCode code>
Values logical_dims(Lowering& l) {
  return {shaped(l, reduce_by(l, code, not_zero(l.b, l.t(0)), normal_dims(l.ints(1), l.t(0)->type.rank())))};
}

Values prod_all(Lowering& l) { return {reduce_by(l, OpCode::Multiply, operand(l), all_dims(l.t(0)->type.rank()))}; }
Values prod_dim(Lowering& l) { return {shaped(l, reduce_by(l, OpCode::Multiply, operand(l), normal_dims({l.integer(1)}, l.t(0)->type.rank())))}; }

// Value and first position of the extreme along `dim`; NaN wins.
std::vector<V> extreme_with_index(Lowering& l, V x, int64_t dim, bool greatest) {
  Builder& b = l.b;
  V positions = b.iota(ir::tensor(DType::S64, x->type.dims), dim);
  const double worst = greatest ? -INFINITY : INFINITY;
  V init = ir::is_float(x->type.dtype) ? b.splat(ir::tensor(x->type.dtype), worst)
                                       : reduce_by(l, greatest ? OpCode::Minimum : OpCode::Maximum, x, all_dims(x->type.rank()));
  V last = b.splat(ir::tensor(DType::S64), 9.0e18);
  return b.reduce({x, positions}, {init, last}, {dim}, [&](Builder& r, std::vector<V> v) -> std::vector<V> {
    V better = r.compare(greatest ? Comparison::GT : Comparison::LT, v[0], v[2]);
    V equal = r.compare(Comparison::EQ, v[0], v[2]);
    if (ir::is_float(x->type.dtype)) {
      V left_nan = r.compare(Comparison::NE, v[0], v[0]), right_nan = r.compare(Comparison::NE, v[2], v[2]);
      better = r.binary(OpCode::Or, better, r.binary(OpCode::And, left_nan, r.unary(OpCode::Not, right_nan)));
      equal = r.binary(OpCode::Or, equal, r.binary(OpCode::And, left_nan, right_nan));
    }
    V first = r.binary(OpCode::And, equal, r.compare(Comparison::LT, v[1], v[3]));
    V take_left = r.binary(OpCode::Or, better, first);
    return {r.select(take_left, v[0], v[2]), r.select(take_left, v[1], v[3])};
  });
}

template <bool greatest>
Values extreme_dim_row(Lowering& l) {  // self, dim, keepdim → values, indices
  V x = l.t(0);
  if (x->type.rank() == 0) return {x, l.b.splat(ir::tensor(DType::S64), 0)};
  auto both = extreme_with_index(l, x, normal_dims({l.integer(1)}, x->type.rank())[0], greatest);
  return {shaped(l, both[0], 0), shaped(l, both[1], 1)};
}

template <bool greatest>
Values arg_extreme(Lowering& l) {  // self, dim?, keepdim
  V x = l.t(0);
  if (x->type.rank() == 0) return {l.b.splat(ir::tensor(DType::S64), 0)};
  int64_t dim = 0;
  if (l.kind(1) == ArgKind::None) {
    x = l.b.reshape(x, {x->type.size()});
  } else {
    dim = normal_dims({l.integer(1)}, x->type.rank())[0];
  }
  return {shaped(l, extreme_with_index(l, x, dim, greatest)[1])};
}

struct Moments {
  V mean, variance;
};

Moments moments(Lowering& l, V x, const Dims& dims, double correction) {
  Builder& b = l.b;
  const double n = static_cast<double>(count_of(x->type.dims, dims));
  V m = mean(b, x, dims);
  V squares = sum(b, square(b, sub(b, x, spread(b, m, x->type.dims, dims))), dims);
  return {m, div(b, squares, std::max(n - correction, 0.0))};
}

double correction_of(Lowering& l, size_t arg) { return l.kind(arg) == ArgKind::None ? 1 : l.real(arg); }

Values var_row(Lowering& l) {
  V x = operand(l);
  return {shaped(l, moments(l, x, normal_dims(l.ints(1), x->type.rank()), correction_of(l, 2)).variance)};
}

Values std_row(Lowering& l) { return {l.b.unary(OpCode::Sqrt, var_row(l)[0])}; }

Values var_mean_row(Lowering& l) {
  V x = operand(l);
  Moments m = moments(l, x, normal_dims(l.ints(1), x->type.rank()), correction_of(l, 2));
  return {shaped(l, m.variance, 0), shaped(l, m.mean, 1)};
}

Values vector_norm(Lowering& l) {  // self, ord, dim?, keepdim, dtype?
  Builder& b = l.b;
  V x = operand(l);
  const Dims dims = normal_dims(l.ints(2), x->type.rank());
  const double order = l.real(1);
  V size = b.unary(OpCode::Abs, x);
  V norm;
  if (order == 2)
    norm = b.unary(OpCode::Sqrt, sum(b, square(b, x), dims));
  else if (order == 1)
    norm = sum(b, size, dims);
  else if (order == INFINITY)
    norm = reduce_by(l, OpCode::Maximum, size, dims);
  else if (order == -INFINITY)
    norm = reduce_by(l, OpCode::Minimum, size, dims);
  else if (order == 0)
    norm = sum(b, b.convert(not_zero(b, x), x->type.dtype), dims);
  else {
    V total = sum(b, b.binary(OpCode::Power, size, like(b, size, order)), dims);
    norm = b.binary(OpCode::Power, total, like(b, total, 1 / order));
  }
  return {shaped(l, norm)};
}

// A composite along one dim of argument 0: self, dim, half_to_float.
V composite_along(Lowering& l, const char* name) {
  V x = operand(l);
  ir::Attributes config;
  config.set("dim", normal_dims({l.integer(1)}, x->type.rank())[0]);
  return l.b.composite(name, {x}, {x->type}, std::move(config))[0];
}

Values softmax_row(Lowering& l) {
  if (l.t(0)->type.rank() == 0) return {like(l.b, operand(l), 1)};
  return {composite_along(l, "thalweg.softmax")};
}

Values log_softmax_row(Lowering& l) {
  if (l.t(0)->type.rank() == 0) return {like(l.b, operand(l), 0)};
  return {composite_along(l, "thalweg.log_softmax")};
}

// softmax whose rows of nothing but -inf (all keys masked) are zeros instead of NaN: _safe_softmax(self, dim, dtype).
Values safe_softmax_row(Lowering& l) {
  Builder& b = l.b;
  V x = operand(l);
  const Dims dims = normal_dims({l.integer(1)}, x->type.rank()), shape = x->type.dims;
  if (x->type.rank() == 0) return {like(b, x, 1)};
  V greatest = b.max(x, dims);
  V finite = b.select(b.compare(Comparison::EQ, greatest, like(b, greatest, -INFINITY)), like(b, greatest, 0), greatest);
  V e = b.unary(OpCode::Exponential, sub(b, x, spread(b, finite, shape, dims)));
  V total = sum(b, e, dims);
  V divisor = b.select(b.compare(Comparison::EQ, total, like(b, total, 0)), like(b, total, 1), total);
  return {div(b, e, spread(b, divisor, shape, dims))};
}

Values softmax_backward(Lowering& l) {  // grad, output, dim, input_dtype
  Builder& b = l.b;
  V grad = operand(l, 0), y = operand(l, 1);
  const Dims dims = normal_dims({l.integer(2)}, y->type.rank());
  V product = mul(b, grad, y);
  return {sub(b, product, mul(b, y, spread(b, sum(b, product, dims), y->type.dims, dims)))};
}

Values log_softmax_backward(Lowering& l) {
  Builder& b = l.b;
  V grad = operand(l, 0), y = operand(l, 1);
  const Dims dims = normal_dims({l.integer(2)}, y->type.rank());
  return {sub(b, grad, mul(b, b.unary(OpCode::Exponential, y), spread(b, sum(b, grad, dims), y->type.dims, dims)))};
}

}  // namespace

std::vector<Row> reduction_rows() {
  return {
      {"aten::sum", sum_all},
      {"aten::sum.dim_IntList", sum_dims},
      {"aten::mean", mean_all},
      {"aten::mean.dim", mean_dims},
      {"aten::amax", extreme_dims<OpCode::Maximum>},
      {"aten::amin", extreme_dims<OpCode::Minimum>},
      {"aten::max", extreme_all<OpCode::Maximum>},
      {"aten::min", extreme_all<OpCode::Minimum>},
      {"aten::max.dim", extreme_dim_row<true>},
      {"aten::min.dim", extreme_dim_row<false>},
      {"aten::argmax", arg_extreme<true>},
      {"aten::argmin", arg_extreme<false>},
      {"aten::prod", prod_all},
      {"aten::prod.dim_int", prod_dim},
      {"aten::any", logical_all<OpCode::Or>},
      {"aten::any.dim", logical_dims<OpCode::Or>},
      {"aten::any.dims", logical_dims<OpCode::Or>},
      {"aten::all", logical_all<OpCode::And>},
      {"aten::all.dim", logical_dims<OpCode::And>},
      {"aten::all.dims", logical_dims<OpCode::And>},
      {"aten::var.correction", var_row, kScalarsStatic},
      {"aten::std.correction", std_row, kScalarsStatic},
      {"aten::var_mean.correction", var_mean_row, kScalarsStatic},
      {"aten::linalg_vector_norm", vector_norm, kScalarsStatic},
      {"aten::_softmax", softmax_row},
      {"aten::_safe_softmax", safe_softmax_row},
      {"aten::_log_softmax", log_softmax_row},
      {"aten::_softmax_backward_data", softmax_backward},
      {"aten::_log_softmax_backward_data", log_softmax_backward},
  };
}

}  // namespace thalweg::lazy
