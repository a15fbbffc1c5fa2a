// Rows of layer, group and batch normalization with their gradients. Statistics and sums are kept in f32 (f64 for f64).
#include <algorithm>

#include "lazy/emit.h"
#include "lazy/rows.h"

namespace thalweg::lazy {
namespace {

using namespace emit;

// Drops the entries that the output mask (argument `arg`) switches off.
Values masked(Lowering& l, size_t arg, const Values& all) {
  const Dims mask = l.ints(arg);
  Values kept;
  for (size_t i = 0; i < all.size(); ++i)
    if (mask[i]) kept.push_back(all[i]);
  return kept;
}

V wide(Lowering& l, size_t arg) { return l.b.convert(l.t(arg), Lowering::compute_dtype(l.t(arg)->type.dtype)); }

V optional_wide(Lowering& l, size_t arg, DType dtype) { return l.has(arg) ? l.b.convert(l.t(arg), dtype) : nullptr; }

// weight and bias as operands of a composite: none, the weight, or both, for which a missing weight is ones.
void push_affine(Lowering& l, Values& operands, size_t weight, size_t bias, const ir::Type& type) {
  if (l.has(weight))
    operands.push_back(optional_wide(l, weight, type.dtype));
  else if (l.has(bias))
    operands.push_back(l.b.splat(type, 1));
  if (l.has(bias)) operands.push_back(optional_wide(l, bias, type.dtype));
}

struct Statistics {
  V mean, variance;  // without the reduced dims
};

Statistics statistics(Builder& b, V x, const Dims& dims) {
  V m = mean(b, x, dims);
  return {m, mean(b, square(b, sub(b, x, spread(b, m, x->type.dims, dims))), dims)};
}

V inverse_deviation(Builder& b, V variance, double eps) { return b.unary(OpCode::Rsqrt, add(b, variance, eps)); }

// Gradient of x where y = (x - mean) * rstd and g is the gradient of y, over the normalized dims.
V normalized_gradient(Builder& b, V g, V normalized, V rstd, const Dims& dims) {
  const Dims& shape = g->type.dims;
  V mean_g = spread(b, mean(b, g, dims), shape, dims);
  V mean_gy = spread(b, mean(b, mul(b, g, normalized), dims), shape, dims);
  return mul(b, spread(b, rstd, shape, dims), sub(b, sub(b, g, mean_g), mul(b, normalized, mean_gy)));
}

// The shape of what is left after normalizing from dim `axis` on.
Dims outer_shape(const Dims& shape, size_t axis) { return Dims(shape.begin(), shape.begin() + static_cast<int64_t>(axis)); }

Values layer_norm_row(Lowering& l) {  // input, normalized_shape, weight?, bias?, eps → out, mean, rstd
  Builder& b = l.b;
  V x = wide(l, 0);
  const size_t axis = x->type.dims.size() - l.ints(1).size();
  Values operands{x};
  push_affine(l, operands, 2, 3, ir::tensor(x->type.dtype, l.ints(1)));
  ir::Attributes config;
  config.set("axis", static_cast<int64_t>(axis));
  config.set("eps", l.real(4));
  const ir::Type row = ir::tensor(x->type.dtype, outer_shape(x->type.dims, axis));
  Values y = b.composite("thalweg.layer_norm", operands, {x->type, row, row}, std::move(config));
  return {y[0], b.reshape(y[1], l.shape(1)), b.reshape(y[2], l.shape(2))};
}

Values layer_norm_backward_row(Lowering& l) {  // grad_out, input, normalized_shape, mean, rstd, weight?, bias?, output_mask
  Builder& b = l.b;
  V g = wide(l, 0), x = wide(l, 1);
  const Dims shape = x->type.dims;
  const size_t axis = shape.size() - l.ints(2).size();
  Values operands{g, x, b.reshape(wide(l, 3), outer_shape(shape, axis)), b.reshape(wide(l, 4), outer_shape(shape, axis))};
  if (l.has(5)) operands.push_back(optional_wide(l, 5, x->type.dtype));
  ir::Attributes config;
  config.set("axis", static_cast<int64_t>(axis));
  const ir::Type inner = ir::tensor(x->type.dtype, l.ints(2));
  return masked(l, 7, b.composite("thalweg.layer_norm_grad", operands, {x->type, inner, inner}, std::move(config)));
}

// Group norm works on [N, groups, C / groups, HW].
V grouped(Builder& b, V x, int64_t n, int64_t c, int64_t hw, int64_t groups) { return b.reshape(x, {n, groups, c / groups, hw}); }
V channel_grouped(Builder& b, V w, const Dims& shape) { return b.broadcast(b.reshape(w, {shape[1], shape[2]}), shape, {1, 2}); }

Values group_norm_row(Lowering& l) {  // input, weight?, bias?, N, C, HxW, group, eps → out, mean, rstd
  Builder& b = l.b;
  V x = wide(l, 0);
  const Dims in_shape = x->type.dims, dims{2, 3};
  x = grouped(b, x, l.integer(3), l.integer(4), l.integer(5), l.integer(6));
  const Dims shape = x->type.dims;
  Statistics s = statistics(b, x, dims);
  V rstd = inverse_deviation(b, s.variance, l.real(7));
  V y = mul(b, sub(b, x, spread(b, s.mean, shape, dims)), spread(b, rstd, shape, dims));
  if (V w = optional_wide(l, 1, x->type.dtype)) y = mul(b, y, channel_grouped(b, w, shape));
  if (V c = optional_wide(l, 2, x->type.dtype)) y = add(b, y, channel_grouped(b, c, shape));
  return {b.reshape(y, in_shape), b.reshape(s.mean, l.shape(1)), b.reshape(rstd, l.shape(2))};
}

Values group_norm_backward_row(Lowering& l) {  // grad_out, input, mean, rstd, weight?, N, C, HxW, group, output_mask
  Builder& b = l.b;
  const int64_t n = l.integer(5), c = l.integer(6), hw = l.integer(7), groups = l.integer(8);
  const Dims in_shape = l.t(1)->type.dims, dims{2, 3};
  V g = grouped(b, wide(l, 0), n, c, hw, groups), x = grouped(b, wide(l, 1), n, c, hw, groups);
  const Dims shape = x->type.dims;
  V m = b.reshape(wide(l, 2), {n, groups}), rstd = b.reshape(wide(l, 3), {n, groups});
  V normalized = mul(b, sub(b, x, spread(b, m, shape, dims)), spread(b, rstd, shape, dims));
  V weighted = g;
  if (V w = optional_wide(l, 4, x->type.dtype)) weighted = mul(b, g, channel_grouped(b, w, shape));
  V input_grad = b.reshape(normalized_gradient(b, weighted, normalized, rstd, dims), in_shape);
  V weight_grad = b.reshape(sum(b, mul(b, g, normalized), {0, 3}), {c}), bias_grad = b.reshape(sum(b, g, {0, 3}), {c});
  return masked(l, 9, {input_grad, weight_grad, bias_grad});
}

// input, weight?, bias?, running_mean?, running_var?, training, momentum, eps → out, mean, inverse deviation, then the new running statistics
Values batch_norm_row(Lowering& l) {
  Builder& b = l.b;
  V x = wide(l, 0);
  const DType dtype = x->type.dtype;
  const ir::Type channel = ir::tensor(dtype, {x->type.dims[1]});
  V running_mean = optional_wide(l, 3, dtype), running_var = optional_wide(l, 4, dtype);
  ir::Attributes config;
  config.set("eps", l.real(7));
  if (!l.boolean(5)) {
    Values operands{x, running_mean, running_var};
    push_affine(l, operands, 1, 2, channel);
    V y = b.composite("thalweg.batch_norm_inference", operands, {x->type}, std::move(config))[0];
    return {y, b.splat(ir::tensor(dtype, l.shape(1)), 0), b.splat(ir::tensor(dtype, l.shape(2)), 0), running_mean, running_var};
  }
  Values operands{x};
  push_affine(l, operands, 1, 2, channel);
  Values results = b.composite("thalweg.batch_norm", operands, {x->type, channel, channel, channel}, std::move(config));
  V variance = results.back();
  results.pop_back();
  const double n = static_cast<double>(x->type.size()) / static_cast<double>(std::max<int64_t>(channel.size(), 1));
  auto blend = [&](V running, V batch) {
    V momentum = b.broadcast_to(l.number(6, dtype), running->type.dims);
    return add(b, mul(b, running, sub(b, like(b, momentum, 1), momentum)), mul(b, batch, momentum));
  };
  if (running_mean) results.push_back(blend(running_mean, results[1]));
  if (running_var) results.push_back(blend(running_var, mul(b, variance, n / std::max(n - 1, 1.0))));
  return results;
}

// grad_out, input, weight?, running_mean?, running_var?, save_mean?, save_invstd?, train, eps, output_mask
Values batch_norm_backward_row(Lowering& l) {
  Builder& b = l.b;
  V x = wide(l, 1);
  const DType dtype = x->type.dtype;
  const bool training = l.boolean(7);
  Values operands{wide(l, 0), x, optional_wide(l, training ? 5 : 3, dtype),
                  training ? optional_wide(l, 6, dtype) : inverse_deviation(b, optional_wide(l, 4, dtype), l.real(8))};
  if (l.has(2)) operands.push_back(optional_wide(l, 2, dtype));
  ir::Attributes config;
  config.set("training", training);
  const ir::Type channel = ir::tensor(dtype, {x->type.dims[1]});
  return masked(l, 9, b.composite("thalweg.batch_norm_grad", operands, {x->type, channel, channel}, std::move(config)));
}

}  // namespace

std::vector<Row> normalization_rows() {
  return {
      {"aten::native_layer_norm", layer_norm_row},
      {"aten::native_layer_norm_backward", layer_norm_backward_row},
      {"aten::native_group_norm", group_norm_row},
      {"aten::native_group_norm_backward", group_norm_backward_row},
      {"aten::native_batch_norm", batch_norm_row, kPlain, "running_mean,running_var"},
      {"aten::native_batch_norm_backward", batch_norm_backward_row},
  };
}

}  // namespace thalweg::lazy
