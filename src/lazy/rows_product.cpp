// Rows of matrix products and convolutions.
#include "lazy/emit.h"
#include "lazy/rows.h"

namespace thalweg::lazy {
namespace {

using namespace emit;

const ir::DotDims kMatrix{{}, {}, {1}, {0}};
const ir::DotDims kBatch{{0}, {0}, {2}, {1}};
const ir::DotDims kVector{{}, {}, {1}, {0}};

// The product of two arguments of the result's dtype, accumulated in `wide` when it is added to afterwards.
V product(Lowering& l, size_t lhs, size_t rhs, const ir::DotDims& dims, DType result) {
  return l.b.dot(l.b.convert(l.t(lhs), l.dtype()), l.b.convert(l.t(rhs), l.dtype()), dims, result);
}

template <const ir::DotDims& dims>
Values product_row(Lowering& l) {
  return {product(l, 0, 1, dims, l.dtype())};
}

Values dot_row(Lowering& l) { return {product(l, 0, 1, {{}, {}, {0}, {0}}, l.dtype())}; }

// beta * self + alpha * (lhs @ rhs)
template <const ir::DotDims& dims>
Values add_product_row(Lowering& l) {
  Builder& b = l.b;
  const DType wide = Lowering::compute_dtype(l.dtype());
  V p = product(l, 1, 2, dims, wide);
  auto scaled = [&](V v, size_t arg) {
    const bool one = (l.kind(arg) == ArgKind::Int || l.kind(arg) == ArgKind::Double) && l.real(arg) == 1;
    return one ? v : mul(b, v, b.broadcast_to(l.number(arg, wide), v->type.dims));
  };
  const bool beta_zero = (l.kind(3) == ArgKind::Int || l.kind(3) == ArgKind::Double) && l.real(3) == 0;
  V scaled_product = scaled(p, 4);
  return {beta_zero ? scaled_product : add(b, scaled_product, scaled(l.as(0, wide), 3))};
}

// The window of a convolution as the library call's configuration.
ir::Attributes window(Lowering& l, size_t first, const char* mode) {
  ir::Attributes config;
  config.set("mode", mode);
  config.set("stride", l.ints(first));
  config.set("padding", l.ints(first + 1));
  config.set("dilation", l.ints(first + 2));
  config.set("transposed", l.boolean(first + 3));
  config.set("output_padding", l.ints(first + 4));
  config.set("groups", l.integer(first + 5));
  return config;
}

V add_bias(Lowering& l, V y, size_t arg) {
  if (!l.has(arg)) return y;
  return add(l.b, y, along(l.b, l.b.convert(l.t(arg), y->type.dtype), y->type.dims, 1));
}

// Kernel equal to stride, no padding: patches are disjoint, the convolution is a product of patch rows (patch embeddings).
bool is_patch_product(Lowering& l, V input, V weight, size_t first) {
  if (input->type.rank() != 4 || l.boolean(first + 3) || l.integer(first + 5) != 1) return false;
  const Dims stride = l.ints(first), padding = l.ints(first + 1), dilation = l.ints(first + 2);
  for (size_t i = 0; i < 2; ++i) {
    const int64_t k = weight->type.dims[2 + i];
    if (stride[i] != k || padding[i] != 0 || dilation[i] != 1 || input->type.dims[2 + i] % k != 0) return false;
  }
  return true;
}

// [N, C, H, W] as patch rows [N * h * w, C * kh * kw].
V patch_rows(Builder& b, V x, int64_t kh, int64_t kw) {
  const Dims& d = x->type.dims;
  const int64_t h = d[2] / kh, w = d[3] / kw;
  V split = b.transpose(b.reshape(x, {d[0], d[1], h, kh, w, kw}), {0, 2, 4, 1, 3, 5});
  return b.reshape(split, {d[0] * h * w, d[1] * kh * kw});
}

// [N, O, h, w] as rows [N * h * w, O].
V channel_rows(Builder& b, V y) {
  const Dims& d = y->type.dims;
  return b.reshape(b.transpose(y, {0, 2, 3, 1}), {d[0] * d[2] * d[3], d[1]});
}

V flat_kernel(Builder& b, V w) { return b.reshape(w, {w->type.dims[0], w->type.size() / w->type.dims[0]}); }

V patch_forward(Lowering& l, V x, V w) {
  Builder& b = l.b;
  const Dims out = l.shape();
  V rows = b.dot(patch_rows(b, x, w->type.dims[2], w->type.dims[3]), flat_kernel(b, w), {{}, {}, {1}, {1}});
  return b.transpose(b.reshape(rows, {out[0], out[2], out[3], out[1]}), {0, 3, 1, 2});
}

V patch_input_grad(Builder& b, V grad, V w, const Dims& shape) {
  const int64_t kh = w->type.dims[2], kw = w->type.dims[3], h = shape[2] / kh, width = shape[3] / kw;
  V rows = b.dot(channel_rows(b, grad), flat_kernel(b, w), kMatrix);
  return b.reshape(b.transpose(b.reshape(rows, {shape[0], h, width, shape[1], kh, kw}), {0, 3, 1, 4, 2, 5}), shape);
}

V patch_weight_grad(Builder& b, V grad, V x, const Dims& shape) {
  return b.reshape(b.dot(channel_rows(b, grad), patch_rows(b, x, shape[2], shape[3]), {{}, {}, {0}, {0}}), shape);
}

Values convolution_row(Lowering& l) {  // input, weight, bias?, stride, padding, dilation, transposed, output_padding, groups
  V x = l.b.convert(l.t(0), l.dtype()), w = l.b.convert(l.t(1), l.dtype());
  if (is_patch_product(l, x, w, 3)) return {add_bias(l, patch_forward(l, x, w), 2)};
  V y = l.b.custom_call("thalweg.convolution", {x, w}, {ir::tensor(l.dtype(), l.shape())}, window(l, 3, "forward"))[0];
  return {add_bias(l, y, 2)};
}

// grad_output, input, weight, stride, padding, dilation, transposed, output_padding, groups, output_mask → those of grad input, weight, bias that are asked for
Values convolution_backward_row(Lowering& l) {
  Builder& b = l.b;
  V grad = l.t(0), x = l.t(1), w = l.t(2);
  const Dims mask = l.ints(9);
  const bool patches = is_patch_product(l, x, w, 3);
  Values results;
  if (mask[0]) {
    results.push_back(patches ? patch_input_grad(b, grad, w, x->type.dims)
                              : b.custom_call("thalweg.convolution", {grad, w}, {x->type}, window(l, 3, "input_grad"))[0]);
  }
  if (mask[1]) {
    results.push_back(patches ? patch_weight_grad(b, grad, x, w->type.dims)
                              : b.custom_call("thalweg.convolution", {grad, x}, {w->type}, window(l, 3, "weight_grad"))[0]);
  }
  if (mask[2]) results.push_back(sum(b, grad, other_dims(grad->type.rank(), {1})));
  return results;
}

ir::Attributes attention_config(Lowering& l, size_t causal) {
  ir::Attributes config;
  config.set("causal", l.boolean(causal));
  config.set("scale", l.real(causal + 1));
  return config;
}

Values attention_row(Lowering& l) {  // q, k, v, bias?, causal, scale → y, logsumexp
  Values operands{l.t(0), l.t(1), l.t(2)};
  if (l.has(3)) operands.push_back(l.t(3));
  return l.b.composite("thalweg.attention", operands, {ir::tensor(l.dtype(0), l.shape(0)), ir::tensor(l.dtype(1), l.shape(1))}, attention_config(l, 4));
}

Values attention_grad_row(Lowering& l) {  // dy, q, k, v, y, logsumexp, bias?, causal, scale, bias_grad → dq, dk, dv, dbias
  Values operands;
  for (size_t arg = 0; arg < 7; ++arg)
    if (l.has(arg)) operands.push_back(l.t(arg));
  std::vector<ir::Type> types;
  for (size_t arg : {1, 2, 3}) types.push_back(l.t(arg)->type);
  if (l.boolean(9)) types.push_back(l.t(6)->type);
  return l.b.composite("thalweg.attention_grad", operands, types, attention_config(l, 7));
}

}  // namespace

std::vector<Row> product_rows() {
  return {
      {"aten::mm", product_row<kMatrix>, kSameDtype},
      {"aten::bmm", product_row<kBatch>, kSameDtype},
      {"aten::mv", product_row<kVector>, kSameDtype},
      {"aten::dot", dot_row, kSameDtype},
      {"aten::addmm", add_product_row<kMatrix>, kScalarsStatic | kSameDtype},
      {"aten::baddbmm", add_product_row<kBatch>, kScalarsStatic | kSameDtype},
      {"aten::addmv", add_product_row<kVector>, kScalarsStatic | kSameDtype},
      {"aten::convolution_overrideable", convolution_row},
      {"aten::convolution_backward_overrideable", convolution_backward_row},
      {"thalweg::attention", attention_row, kScalarsStatic},
      {"thalweg::attention_grad", attention_grad_row, kScalarsStatic},
  };
}

}  // namespace thalweg::lazy
