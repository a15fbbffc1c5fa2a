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
    const Dims& shape = l.list(0)[i]->type.dims;
    auto number = [&](size_t arg) { return b.broadcast_to(b.convert(l.t(arg), dtype), shape); };
    V p = b.convert(l.list(0)[i], dtype), m = b.convert(l.list(2)[i], dtype), v = b.convert(l.list(3)[i], dtype), g = step.gradient(i, dtype);
    V lr = number(6), beta1 = number(7), beta2 = number(8), decay = number(9), eps = number(10), one = like(b, p, 1);
    V p0 = p;
    if (decoupled)
      p0 = sub(b, p, mul(b, mul(b, lr, decay), p));
    else
      g = add(b, g, mul(b, decay, p));
    V m1 = add(b, m, mul(b, sub(b, one, beta1), sub(b, g, m)));
    V v1 = add(b, mul(b, v, beta2), mul(b, mul(b, sub(b, one, beta2), g), g));
    V t = b.broadcast_to(b.convert(l.list(5)[i], dtype), shape);
    V correction1 = sub(b, one, b.binary(OpCode::Power, beta1, t)), correction2 = sub(b, one, b.binary(OpCode::Power, beta2, t));
    V spread_of = v1;
    if (l.boolean(11)) {
      V most = b.binary(OpCode::Maximum, b.convert(l.list(4)[i], dtype), v1);
      out.greatest.push_back(step.keep(b.convert(l.list(4)[i], dtype), most));
      spread_of = most;
    }
    V denominator = add(b, div(b, b.unary(OpCode::Sqrt, spread_of), b.unary(OpCode::Sqrt, correction2)), eps);
    out.params.push_back(step.keep(p, sub(b, p0, mul(b, div(b, lr, correction1), div(b, m1, denominator)))));
    out.averages.push_back(step.keep(m, m1));
    out.squares.push_back(step.keep(v, v1));
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
    const Dims& shape = l.list(0)[i]->type.dims;
    auto number = [&](size_t arg) { return b.broadcast_to(b.convert(l.t(arg), dtype), shape); };
    V p = b.convert(l.list(0)[i], dtype);
    V g = add(b, step.gradient(i, dtype), mul(b, number(3), p));
    if (has_momentum) {
      V buffer = b.convert(l.list(2)[i], dtype);
      V moved = l.boolean(9) ? g : add(b, mul(b, buffer, number(4)), mul(b, g, sub(b, like(b, g, 1), number(6))));
      buffers.push_back(step.keep(buffer, moved));
      g = l.boolean(7) ? add(b, g, mul(b, moved, number(4))) : moved;
    }
    params.push_back(step.keep(p, sub(b, p, mul(b, number(5), g))));
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
