// Rows of operations on lists of tensors: _foreach_*, fused optimizers, loss scaling.
#include "lazy/emit.h"
#include "lazy/rows.h"

namespace thalweg::lazy {
namespace {

using namespace emit;

DType wide_dtype(Lowering& l, size_t i) { return Lowering::compute_dtype(l.dtype(i)); }

// Element i of list argument `arg` for computing result i.
V item(Lowering& l, size_t arg, size_t i) { return l.fit(l.list(arg)[i], wide_dtype(l, i), l.shape(i)); }

V number_for(Lowering& l, size_t arg, size_t i) { return l.b.broadcast_to(l.number(arg, wide_dtype(l, i)), l.shape(i)); }
V listed_number(Lowering& l, size_t arg, size_t i) { return l.b.broadcast_to(l.numbers(arg, wide_dtype(l, i))[i], l.shape(i)); }

// Second operand of result i: a list of tensors, one tensor, a list of numbers or one number.
V operand(Lowering& l, size_t arg, size_t i) {
  switch (l.kind(arg)) {
    case ArgKind::Tensors:
      return item(l, arg, i);
    case ArgKind::Scalars:
      return listed_number(l, arg, i);
    case ArgKind::Tensor:
      return l.fit(l.t(arg), wide_dtype(l, i), l.shape(i));
    default:
      return number_for(l, arg, i);
  }
}

template <class Body>
Values for_each(Lowering& l, Body body) {
  Values out;
  for (size_t i = 0; i < l.node.outputs.size(); ++i) out.push_back(body(i));
  return out;
}

template <OpCode code>
Values unary(Lowering& l) {
  return for_each(l, [&](size_t i) { return l.b.unary(code, item(l, 0, i)); });
}

template <OpCode code>
Values binary(Lowering& l) {
  return for_each(l, [&](size_t i) { return l.b.binary(code, item(l, 0, i), operand(l, 1, i)); });
}

// self + alpha * other, alpha in argument 2.
template <OpCode code>
Values scaled_binary(Lowering& l) {
  return for_each(l, [&](size_t i) {
    V other = operand(l, 1, i);
    if (l.kind(2) != ArgKind::None) other = mul(l.b, other, number_for(l, 2, i));
    return l.b.binary(code, item(l, 0, i), other);
  });
}

Values reciprocal(Lowering& l) {
  return for_each(l, [&](size_t i) {
    V x = item(l, 0, i);
    return div(l.b, like(l.b, x, 1), x);
  });
}

Values zero(Lowering& l) {
  return for_each(l, [&](size_t i) { return l.b.splat(ir::tensor(l.dtype(i), l.shape(i)), 0); });
}

Values copy(Lowering& l) {
  return for_each(l, [&](size_t i) { return l.list(1)[i]; });
}

// self + value * first (op) second; value is a number, a list of numbers or one tensor of them.
template <OpCode code>
Values pointwise(Lowering& l) {
  return for_each(l, [&](size_t i) {
    V value =
        l.kind(3) == ArgKind::Tensor
            ? l.b.broadcast_to(l.b.convert(l.b.reshape(l.b.slice(l.t(3), {static_cast<int64_t>(i)}, {static_cast<int64_t>(i) + 1}, {1}), {}), wide_dtype(l, i)),
                               l.shape(i))
            : operand(l, 3, i);
    V first = item(l, 1, i), second = item(l, 2, i);
    return add(l.b, item(l, 0, i), l.b.binary(code, mul(l.b, value, first), second));
  });
}

Values lerp(Lowering& l) {
  return for_each(l, [&](size_t i) {
    V start = item(l, 0, i), end = item(l, 1, i), weight = operand(l, 2, i), difference = sub(l.b, end, start);
    V low = add(l.b, start, mul(l.b, weight, difference));
    V high = sub(l.b, end, mul(l.b, difference, sub(l.b, like(l.b, weight, 1), weight)));
    return l.b.select(l.b.compare(Comparison::LT, l.b.unary(OpCode::Abs, weight), like(l.b, weight, 0.5)), low, high);
  });
}

Values norm(Lowering& l) {  // self, ord, dtype?
  Builder& b = l.b;
  const double order = l.real(1);
  return for_each(l, [&](size_t i) {
    V x = b.convert(l.list(0)[i], wide_dtype(l, i));
    const Dims all = all_dims(x->type.rank());
    if (order == 1) return sum(b, b.unary(OpCode::Abs, x), all);
    if (order == 2) return b.unary(OpCode::Sqrt, sum(b, square(b, x), all));
    THALWEG_CHECK(order > 1e300, Unsupported, "_foreach_norm of order ", order);
    return all.empty() ? b.unary(OpCode::Abs, x) : b.max(b.unary(OpCode::Abs, x), all);
  });
}

// What all fused optimizers share: gradient i unscaled and signed, and whether the step is skipped because of an infinity.
struct Step {
  Lowering& l;
  size_t grads, maximize, grad_scale, found_inf;

  V gradient(size_t i, DType dtype) const {
    V g = l.b.convert(l.list(grads)[i], dtype);
    if (l.has(grad_scale)) g = div(l.b, g, l.b.broadcast_to(l.b.convert(l.t(grad_scale), dtype), g->type.dims));
    return l.boolean(maximize) ? l.b.unary(OpCode::Negate, g) : g;
  }
  // `fresh` unless the step is skipped.
  V keep(V old, V fresh) const {
    if (!l.has(found_inf)) return fresh;
    V skip = l.b.broadcast_to(l.b.compare(Comparison::NE, l.t(found_inf), like(l.b, l.t(found_inf), 0)), old->type.dims);
    return l.b.select(skip, old, fresh);
  }
};

struct Adam {
  Values params, averages, squares, greatest;
};

// self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, lr, beta1, beta2, weight_decay, eps, amsgrad, maximize, grad_scale?, found_inf?
template <bool decoupled>
Values fused_adam(Lowering& l) {
  Builder& b = l.b;
  const size_t n = l.list(0).size();
  const Step step{l, 1, 12, 13, 14};
  Adam out;
  for (size_t i = 0; i < n; ++i) {
    const DType dtype = Lowering::compute_dtype(l.list(0)[i]->type.dtype);
    auto state = [&](size_t arg) { return b.convert(l.list(arg)[i], dtype); };
    Values operands{state(0), step.gradient(i, dtype), state(2), state(3), b.reshape(state(5), {})};
    for (size_t arg : {6, 7, 8, 9, 10}) operands.push_back(b.reshape(b.convert(l.t(arg), dtype), {}));
    if (l.boolean(11)) operands.push_back(state(4));
    std::vector<ir::Type> types(l.boolean(11) ? 4 : 3, operands[0]->type);
    ir::Attributes config;
    config.set("decoupled", decoupled);
    const Values fresh = b.composite("thalweg.adam", operands, types, std::move(config));
    out.params.push_back(step.keep(operands[0], fresh[0]));
    out.averages.push_back(step.keep(operands[2], fresh[1]));
    out.squares.push_back(step.keep(operands[3], fresh[2]));
    if (l.boolean(11)) out.greatest.push_back(step.keep(operands[10], fresh[3]));
  }
  Values results = out.params;
  for (V g : l.list(1)) results.push_back(g);
  results.insert(results.end(), out.averages.begin(), out.averages.end());
  results.insert(results.end(), out.squares.begin(), out.squares.end());
  if (l.boolean(11))
    results.insert(results.end(), out.greatest.begin(), out.greatest.end());
  else
    for (V v : l.list(4)) results.push_back(v);
  return results;
}

// self, grads, momentum_buffer_list, weight_decay, momentum, lr, dampening, nesterov, maximize, is_first_step, grad_scale?, found_inf?
Values fused_sgd(Lowering& l) {
  Builder& b = l.b;
  const size_t n = l.list(0).size();
  const Step step{l, 1, 8, 10, 11};
  const bool has_momentum = !l.list(2).empty();
  Values params, buffers;
  for (size_t i = 0; i < n; ++i) {
    const DType dtype = Lowering::compute_dtype(l.list(0)[i]->type.dtype);
    auto number = [&](size_t arg) { return b.reshape(b.convert(l.t(arg), dtype), {}); };
    Values operands{b.convert(l.list(0)[i], dtype), step.gradient(i, dtype), number(5), number(4), number(6), number(3)};
    if (has_momentum) operands.push_back(b.convert(l.list(2)[i], dtype));
    std::vector<ir::Type> types(has_momentum ? 2 : 1, operands[0]->type);
    ir::Attributes config;
    config.set("nesterov", l.boolean(7));
    config.set("first", l.boolean(9));
    const Values fresh = b.composite("thalweg.sgd", operands, types, std::move(config));
    params.push_back(step.keep(operands[0], fresh[0]));
    if (has_momentum) buffers.push_back(step.keep(operands[6], fresh[1]));
  }
  Values results = params;
  for (V g : l.list(1)) results.push_back(g);
  results.insert(results.end(), buffers.begin(), buffers.end());
  return results;
}

Values unscale_row(Lowering& l) {  // self, found_inf, inv_scale → gradients, found_inf
  Builder& b = l.b;
  Values results;
  V found = b.compare(Comparison::NE, l.t(1), like(b, l.t(1), 0));
  for (V g : l.list(0)) {
    const DType dtype = Lowering::compute_dtype(g->type.dtype);
    V x = b.convert(g, dtype);
    V bad = b.reshape(b.unary(OpCode::Not, b.unary(OpCode::IsFinite, x)), {x->type.size()});
    found = b.binary(OpCode::Or, found, b.broadcast_to(b.reduce(OpCode::Or, bad, b.splat(ir::tensor(DType::I1), 0), {0}), found->type.dims));
    results.push_back(mul(b, x, b.broadcast_to(b.convert(l.t(2), dtype), x->type.dims)));
  }
  results.push_back(b.convert(found, l.t(1)->type.dtype));
  return results;
}

Values update_scale_row(Lowering& l) {  // scale, growth_tracker, found_inf, growth_factor, backoff_factor, growth_interval → scale, growth_tracker
  Builder& b = l.b;
  V scale = l.t(0), tracker = l.t(1), found = b.compare(Comparison::NE, l.t(2), like(b, l.t(2), 0));
  V successful = add(b, tracker, 1);
  V grow = b.compare(Comparison::EQ, successful, like(b, tracker, static_cast<double>(l.integer(5))));
  V grown = mul(b, scale, b.broadcast_to(b.convert(l.t(3), scale->type.dtype), scale->type.dims));
  V finite_growth = b.select(b.unary(OpCode::IsFinite, grown), grown, scale);
  V shrunk = mul(b, scale, b.broadcast_to(b.convert(l.t(4), scale->type.dtype), scale->type.dims));
  V zero_tracker = like(b, tracker, 0);
  return {b.select(found, shrunk, b.select(grow, finite_growth, scale)), b.select(found, zero_tracker, b.select(grow, zero_tracker, successful))};
}

}  // namespace

std::vector<Row> foreach_rows() {
  return {
      {"aten::_foreach_add.Scalar", binary<OpCode::Add>},
      {"aten::_foreach_add.List", scaled_binary<OpCode::Add>},
      {"aten::_foreach_add.ScalarList", binary<OpCode::Add>},
      {"aten::_foreach_add.Tensor", scaled_binary<OpCode::Add>},
      {"aten::_foreach_sub.Scalar", binary<OpCode::Subtract>},
      {"aten::_foreach_sub.List", scaled_binary<OpCode::Subtract>},
      {"aten::_foreach_sub.ScalarList", binary<OpCode::Subtract>},
      {"aten::_foreach_mul.Scalar", binary<OpCode::Multiply>},
      {"aten::_foreach_mul.List", binary<OpCode::Multiply>},
      {"aten::_foreach_mul.ScalarList", binary<OpCode::Multiply>},
      {"aten::_foreach_mul.Tensor", binary<OpCode::Multiply>},
      {"aten::_foreach_div.Scalar", binary<OpCode::Divide>},
      {"aten::_foreach_div.List", binary<OpCode::Divide>},
      {"aten::_foreach_div.ScalarList", binary<OpCode::Divide>},
      {"aten::_foreach_div.Tensor", binary<OpCode::Divide>},
      {"aten::_foreach_maximum.Scalar", binary<OpCode::Maximum>},
      {"aten::_foreach_maximum.List", binary<OpCode::Maximum>},
      {"aten::_foreach_minimum.Scalar", binary<OpCode::Minimum>},
      {"aten::_foreach_minimum.List", binary<OpCode::Minimum>},
      {"aten::_foreach_clamp_min.Scalar", binary<OpCode::Maximum>},
      {"aten::_foreach_clamp_max.Scalar", binary<OpCode::Minimum>},
      {"aten::_foreach_pow.Scalar", binary<OpCode::Power>},
      {"aten::_foreach_pow.List", binary<OpCode::Power>},
      {"aten::_foreach_pow.ScalarList", binary<OpCode::Power>},
      {"aten::_foreach_sqrt", unary<OpCode::Sqrt>},
      {"aten::_foreach_rsqrt", unary<OpCode::Rsqrt>},
      {"aten::_foreach_neg", unary<OpCode::Negate>},
      {"aten::_foreach_abs", unary<OpCode::Abs>},
      {"aten::_foreach_exp", unary<OpCode::Exponential>},
      {"aten::_foreach_sign", unary<OpCode::Sign>},
      {"aten::_foreach_reciprocal", reciprocal},
      {"aten::_foreach_zero_", zero},
      {"aten::_foreach_copy_", copy},
      {"aten::_foreach_addcmul.Scalar", pointwise<OpCode::Multiply>},
      {"aten::_foreach_addcmul.ScalarList", pointwise<OpCode::Multiply>},
      {"aten::_foreach_addcmul.Tensor", pointwise<OpCode::Multiply>},
      {"aten::_foreach_addcdiv.Scalar", pointwise<OpCode::Divide>},
      {"aten::_foreach_addcdiv.ScalarList", pointwise<OpCode::Divide>},
      {"aten::_foreach_addcdiv.Tensor", pointwise<OpCode::Divide>},
      {"aten::_foreach_lerp.List", lerp},
      {"aten::_foreach_lerp.Scalar", lerp},
      {"aten::_foreach_lerp.ScalarList", lerp},
      {"aten::_foreach_norm.Scalar", norm, kScalarsStatic},
      {"aten::_fused_adam_", fused_adam<false>, kDoublesDynamic},
      {"aten::_fused_adam_.tensor_lr", fused_adam<false>, kDoublesDynamic},
      {"aten::_fused_adamw_", fused_adam<true>, kDoublesDynamic},
      {"aten::_fused_adamw_.tensor_lr", fused_adam<true>, kDoublesDynamic},
      {"aten::_fused_sgd_", fused_sgd, kDoublesDynamic},
      {"aten::_fused_sgd_.tensor_lr", fused_sgd, kDoublesDynamic},
      {"aten::_amp_foreach_non_finite_check_and_unscale_", unscale_row},
      {"aten::_amp_update_scale_", update_scale_row, kDoublesDynamic},
  };
}

}  // namespace thalweg::lazy
