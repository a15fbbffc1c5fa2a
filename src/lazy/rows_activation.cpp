// Rows of activations and losses with their gradients.
#include <cmath>

#include "lazy/emit.h"
#include "lazy/rows.h"

namespace thalweg::lazy {
namespace {

using namespace emit;

V relu_of(Builder& b, V x) { return b.binary(OpCode::Maximum, x, like(b, x, 0)); }
V sigmoid_of(Builder& b, V x) { return b.unary(OpCode::Logistic, x); }
V gate(Builder& b, V condition, V x) { return b.select(condition, x, like(b, x, 0)); }

Values relu_row(Lowering& l) { return {relu_of(l.b, l.in(0))}; }
Values relu6_row(Lowering& l) {
  V x = relu_of(l.b, l.in(0));
  return {l.b.binary(OpCode::Minimum, x, like(l.b, x, 6))};
}

Values threshold_backward(Lowering& l) {
  V grad = l.in(0), x = l.in(1);
  return {l.b.select(l.b.compare(Comparison::LE, x, l.in(2)), like(l.b, grad, 0), grad)};
}

Values sigmoid_backward(Lowering& l) {
  V grad = l.in(0), y = l.in(1);
  return {mul(l.b, mul(l.b, grad, sub(l.b, like(l.b, y, 1), y)), y)};
}

Values tanh_backward(Lowering& l) {
  V grad = l.in(0), y = l.in(1);
  return {mul(l.b, grad, sub(l.b, like(l.b, y, 1), square(l.b, y)))};
}

ir::Attributes approximation(Lowering& l, size_t arg) {
  ir::Attributes config;
  config.set("approximate", l.string(arg));
  return config;
}

Values gelu_row(Lowering& l) {  // self, approximate
  V x = l.in(0);
  return l.b.composite("thalweg.gelu", {x}, {x->type}, approximation(l, 1));
}

Values gelu_backward(Lowering& l) {  // grad_output, self, approximate
  V grad = l.in(0);
  return l.b.composite("thalweg.gelu_grad", {grad, l.in(1)}, {grad->type}, approximation(l, 2));
}

Values silu_row(Lowering& l) {
  V x = l.in(0);
  return {mul(l.b, x, sigmoid_of(l.b, x))};
}

Values silu_backward(Lowering& l) {
  V grad = l.in(0), x = l.in(1), s = sigmoid_of(l.b, x);
  return {mul(l.b, mul(l.b, grad, s), add(l.b, mul(l.b, x, sub(l.b, like(l.b, s, 1), s)), 1))};
}

Values hardtanh_row(Lowering& l) { return {l.b.binary(OpCode::Minimum, l.b.binary(OpCode::Maximum, l.in(0), l.in(1)), l.in(2))}; }

Values hardtanh_backward(Lowering& l) {
  V grad = l.in(0), x = l.in(1);
  V outside = l.b.binary(OpCode::Or, l.b.compare(Comparison::LE, x, l.in(2)), l.b.compare(Comparison::GE, x, l.in(3)));
  return {l.b.select(outside, like(l.b, grad, 0), grad)};
}

V hard_gate(Builder& b, V x) {  // relu6(x + 3) / 6
  V y = b.binary(OpCode::Minimum, relu_of(b, add(b, x, 3)), like(b, x, 6));
  return div(b, y, 6);
}

Values hardsigmoid_row(Lowering& l) { return {hard_gate(l.b, l.in(0))}; }
Values hardswish_row(Lowering& l) {
  V x = l.in(0);
  return {mul(l.b, x, hard_gate(l.b, x))};
}

V strictly_inside(Builder& b, V x, double low, double high) {
  return b.binary(OpCode::And, b.compare(Comparison::GT, x, like(b, x, low)), b.compare(Comparison::LT, x, like(b, x, high)));
}

Values hardsigmoid_backward(Lowering& l) { return {gate(l.b, strictly_inside(l.b, l.in(1), -3, 3), div(l.b, l.in(0), 6))}; }

Values hardswish_backward(Lowering& l) {
  Builder& b = l.b;
  V grad = l.in(0), x = l.in(1);
  V middle = mul(b, grad, add(b, div(b, x, 3), 0.5));
  V high = b.select(b.compare(Comparison::LE, x, like(b, x, 3)), middle, grad);
  return {b.select(b.compare(Comparison::LE, x, like(b, x, -3)), like(b, x, 0), high)};
}

Values leaky_relu_row(Lowering& l) {
  V x = l.in(0);
  return {l.b.select(l.b.compare(Comparison::GT, x, like(l.b, x, 0)), x, mul(l.b, x, l.in(1)))};
}

Values leaky_relu_backward(Lowering& l) {
  V grad = l.in(0), x = l.in(1);
  return {l.b.select(l.b.compare(Comparison::GT, x, like(l.b, x, 0)), grad, mul(l.b, grad, l.in(2)))};
}

Values elu_row(Lowering& l) {  // self, alpha, scale, input_scale
  Builder& b = l.b;
  V x = l.in(0);
  V low = mul(b, mul(b, b.unary(OpCode::ExponentialMinusOne, mul(b, x, l.in(3))), l.in(1)), l.in(2));
  return {b.select(b.compare(Comparison::GT, x, like(b, x, 0)), mul(b, x, l.in(2)), low)};
}

Values elu_backward(Lowering& l) {  // grad, alpha, scale, input_scale, is_result, self_or_result
  Builder& b = l.b;
  V grad = l.in(0), alpha = l.in(1), scale = l.in(2), input_scale = l.in(3), x = l.in(5);
  V slope = l.boolean(4) ? mul(b, input_scale, add(b, x, mul(b, alpha, scale)))
                         : mul(b, mul(b, mul(b, input_scale, alpha), scale), b.unary(OpCode::Exponential, mul(b, x, input_scale)));
  return {mul(b, grad, b.select(b.compare(Comparison::LE, x, like(b, x, 0)), slope, scale))};
}

Values softplus_row(Lowering& l) {  // self, beta, threshold
  Builder& b = l.b;
  V x = l.in(0), scaled = mul(b, x, l.in(1));
  V soft = div(b, b.unary(OpCode::LogPlusOne, b.unary(OpCode::Exponential, scaled)), l.in(1));
  return {b.select(b.compare(Comparison::GT, scaled, l.in(2)), x, soft)};
}

Values softplus_backward(Lowering& l) {  // grad, self, beta, threshold
  Builder& b = l.b;
  V grad = l.in(0), scaled = mul(b, l.in(1), l.in(2));
  return {b.select(b.compare(Comparison::GT, scaled, l.in(3)), grad, mul(b, grad, sigmoid_of(b, scaled)))};
}

Values mish_row(Lowering& l) {
  V x = l.in(0);
  return {mul(l.b, x, l.b.unary(OpCode::Tanh, l.b.unary(OpCode::LogPlusOne, l.b.unary(OpCode::Exponential, x))))};
}

Values log_sigmoid_forward(Lowering& l) {  // output, buffer
  Builder& b = l.b;
  V x = l.in(0), zero = like(b, x, 0);
  V decay = b.unary(OpCode::Exponential, b.unary(OpCode::Negate, b.unary(OpCode::Abs, x)));
  return {sub(b, b.binary(OpCode::Minimum, x, zero), b.unary(OpCode::LogPlusOne, decay)), decay};
}

Values log_sigmoid_backward(Lowering& l) {
  V x = l.in(1);
  return {mul(l.b, l.in(0), sigmoid_of(l.b, l.b.unary(OpCode::Negate, x)))};
}

// reduction: 0 none, 1 mean, 2 sum.
V reduced(Lowering& l, V losses, int64_t reduction) {
  if (reduction == 0) return losses;
  const Dims all = all_dims(losses->type.rank());
  return reduction == 1 ? mean(l.b, losses, all) : sum(l.b, losses, all);
}

V loss_scale(Lowering& l, V grad, V x, int64_t reduction) {
  V g = l.b.broadcast_to(grad, x->type.dims);
  return reduction == 1 ? div(l.b, g, static_cast<double>(x->type.size())) : g;
}

V raw(Lowering& l, size_t arg, const Dims& shape) { return l.fit(l.t(arg), Lowering::compute_dtype(l.dtype()), shape); }

Dims joint_shape(Lowering& l) { return l.t(0)->type.size() >= l.t(1)->type.size() ? l.t(0)->type.dims : l.t(1)->type.dims; }

Values mse_loss(Lowering& l) {
  const Dims shape = joint_shape(l);
  V d = sub(l.b, raw(l, 0, shape), raw(l, 1, shape));
  return {reduced(l, square(l.b, d), l.integer(2))};
}

Values mse_loss_backward(Lowering& l) {
  V d = sub(l.b, l.in(1), l.in(2));
  return {mul(l.b, loss_scale(l, l.fit(l.t(0), d->type.dtype, l.t(0)->type.dims), d, l.integer(3)), mul(l.b, d, 2))};
}

// Smooth L1 and Huber differ in the scale of their outer part: value(|d|) and slope(d).
struct Robust {
  V value, slope;
};

Robust smooth_l1(Builder& b, V d, double beta) {
  V size = b.unary(OpCode::Abs, d), sign = b.unary(OpCode::Sign, d);
  if (beta == 0) return {size, sign};
  V inside = b.compare(Comparison::LT, size, like(b, d, beta));
  return {b.select(inside, mul(b, square(b, d), 0.5 / beta), sub(b, size, 0.5 * beta)), b.select(inside, div(b, d, beta), sign)};
}

Robust huber(Builder& b, V d, double delta) {
  V size = b.unary(OpCode::Abs, d), sign = b.unary(OpCode::Sign, d);
  V inside = b.compare(Comparison::LE, size, like(b, d, delta));
  return {b.select(inside, mul(b, square(b, d), 0.5), mul(b, sub(b, size, 0.5 * delta), delta)), b.select(inside, d, mul(b, sign, delta))};
}

template <Robust (*form)(Builder&, V, double)>
Values robust_loss(Lowering& l) {
  const Dims shape = joint_shape(l);
  return {reduced(l, form(l.b, sub(l.b, raw(l, 0, shape), raw(l, 1, shape)), l.real(3)).value, l.integer(2))};
}

template <Robust (*form)(Builder&, V, double)>
Values robust_loss_backward(Lowering& l) {
  V d = sub(l.b, l.in(1), l.in(2));
  return {mul(l.b, loss_scale(l, l.fit(l.t(0), d->type.dtype, l.t(0)->type.dims), d, l.integer(3)), form(l.b, d, l.real(4)).slope)};
}

V clamped_log(Builder& b, V x) { return b.binary(OpCode::Maximum, b.unary(OpCode::Log, x), like(b, x, -100)); }

Values binary_cross_entropy(Lowering& l) {  // self, target, weight?, reduction
  Builder& b = l.b;
  const Dims shape = l.t(0)->type.dims;
  V p = raw(l, 0, shape), y = raw(l, 1, shape), one = like(b, p, 1);
  V loss = sub(b, mul(b, sub(b, y, one), clamped_log(b, sub(b, one, p))), mul(b, y, clamped_log(b, p)));
  if (l.has(2)) loss = mul(b, loss, raw(l, 2, shape));
  return {reduced(l, loss, l.integer(3))};
}

Values binary_cross_entropy_backward(Lowering& l) {  // grad, self, target, weight?, reduction
  Builder& b = l.b;
  V p = l.in(1), y = l.in(2), one = like(b, p, 1);
  V spread_out = b.binary(OpCode::Maximum, mul(b, sub(b, one, p), p), like(b, p, 1e-12));
  V g = mul(b, loss_scale(l, l.fit(l.t(0), p->type.dtype, l.t(0)->type.dims), p, l.integer(4)), div(b, sub(b, p, y), spread_out));
  return {l.has(3) ? mul(b, g, l.in(3)) : g};
}

Values bce_with_logits(Lowering& l) {  // self, target, weight?, pos_weight?, reduction
  Builder& b = l.b;
  const Dims shape = l.t(0)->type.dims;
  V x = raw(l, 0, shape), y = raw(l, 1, shape), one = like(b, x, 1);
  V log_sigmoid = sub(b, b.binary(OpCode::Minimum, x, like(b, x, 0)),
                      b.unary(OpCode::LogPlusOne, b.unary(OpCode::Exponential, b.unary(OpCode::Negate, b.unary(OpCode::Abs, x)))));
  V scale = log_sigmoid;
  if (l.has(3)) scale = mul(b, add(b, mul(b, sub(b, raw(l, 3, shape), one), y), one), log_sigmoid);
  V loss = sub(b, mul(b, sub(b, one, y), x), scale);
  if (l.has(2)) loss = mul(b, loss, raw(l, 2, shape));
  return {reduced(l, loss, l.integer(4))};
}

// What both loss rows do: the labels checked, and the configuration of the composite.
ir::Attributes nll_config(Lowering& l, V target, int64_t classes, size_t reduction_arg) {
  Builder& b = l.b;
  const int64_t ignore = l.integer(reduction_arg + 1);
  V labels = b.convert(target, DType::S64);
  V ignored = b.compare(Comparison::EQ, labels, like(b, labels, static_cast<double>(ignore)));
  check_index(l, b.select(ignored, like(b, labels, 0), labels), 0, classes, "label");
  static const char* const kReductions[] = {"none", "mean", "sum"};
  ir::Attributes config;
  config.set("reduction", kReductions[l.integer(reduction_arg)]);
  config.set("ignore_index", ignore);
  return config;
}

int64_t classes_of(const Dims& shape) { return shape[shape.size() == 1 ? 0 : 1]; }

Values nll_loss_forward(Lowering& l) {  // self, target, weight?, reduction, ignore_index → output, total_weight
  Builder& b = l.b;
  const DType dtype = Lowering::compute_dtype(l.dtype());
  Values operands{b.convert(l.t(0), dtype), l.t(1)};
  if (l.has(2)) operands.push_back(b.convert(l.t(2), dtype));
  ir::Attributes config = nll_config(l, l.t(1), classes_of(l.t(0)->type.dims), 3);
  return b.composite("thalweg.nll_loss", operands, {ir::tensor(dtype, l.shape(0)), ir::tensor(dtype)}, std::move(config));
}

Values nll_loss_backward(Lowering& l) {  // grad, self, target, weight?, reduction, ignore_index, total_weight
  Builder& b = l.b;
  const DType dtype = Lowering::compute_dtype(l.dtype());
  Values operands{b.convert(l.t(0), dtype), l.t(2), b.reshape(b.convert(l.t(6), dtype), {})};
  if (l.has(3)) operands.push_back(b.convert(l.t(3), dtype));
  ir::Attributes config = nll_config(l, l.t(2), classes_of(l.shape()), 4);
  return b.composite("thalweg.nll_loss_grad", operands, {ir::tensor(dtype, l.shape())}, std::move(config));
}

}  // namespace

std::vector<Row> activation_rows() {
  return {
      {"aten::relu", relu_row},
      {"aten::relu6", relu6_row},
      {"aten::threshold_backward", threshold_backward},
      {"aten::sigmoid_backward", sigmoid_backward},
      {"aten::tanh_backward", tanh_backward},
      {"aten::gelu", gelu_row},
      {"aten::gelu_backward", gelu_backward},
      {"aten::silu", silu_row},
      {"aten::silu_backward", silu_backward},
      {"aten::hardtanh", hardtanh_row},
      {"aten::hardtanh_backward", hardtanh_backward},
      {"aten::hardsigmoid", hardsigmoid_row},
      {"aten::hardsigmoid_backward", hardsigmoid_backward},
      {"aten::hardswish", hardswish_row},
      {"aten::hardswish_backward", hardswish_backward},
      {"aten::leaky_relu", leaky_relu_row},
      {"aten::leaky_relu_backward", leaky_relu_backward},
      {"aten::elu", elu_row},
      {"aten::elu_backward", elu_backward},
      {"aten::softplus", softplus_row},
      {"aten::softplus_backward", softplus_backward},
      {"aten::mish", mish_row},
      {"aten::log_sigmoid_forward", log_sigmoid_forward},
      {"aten::log_sigmoid_backward", log_sigmoid_backward},
      {"aten::mse_loss", mse_loss},
      {"aten::mse_loss_backward", mse_loss_backward},
      {"aten::smooth_l1_loss", robust_loss<smooth_l1>},
      {"aten::smooth_l1_loss_backward", robust_loss_backward<smooth_l1>},
      {"aten::huber_loss", robust_loss<huber>},
      {"aten::huber_loss_backward", robust_loss_backward<huber>},
      {"aten::binary_cross_entropy", binary_cross_entropy},
      {"aten::binary_cross_entropy_backward", binary_cross_entropy_backward},
      {"aten::binary_cross_entropy_with_logits", bce_with_logits},
      {"aten::nll_loss_forward", nll_loss_forward},
      {"aten::nll_loss_backward", nll_loss_backward},
      {"aten::nll_loss2d_forward", nll_loss_forward},
      {"aten::nll_loss2d_backward", nll_loss_backward},
  };
}

}  // namespace thalweg::lazy
