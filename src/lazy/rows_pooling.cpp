// Rows of pooling and resizing over the last two dims. Windows are unrolled into strided slices, which fuse into one loop over the result.
#include <algorithm>
#include <cmath>

#include "lazy/emit.h"
#include "lazy/rows.h"

namespace thalweg::lazy {
namespace {

using namespace emit;

// A pooling window over the last two dims; index 0 is height.
struct Window {
  int64_t kernel[2], stride[2], padding[2], dilation[2];
  int64_t in[2], out[2];
};

Window window_of(const Dims& in, const Dims& out, const Dims& kernel, const Dims& stride, const Dims& padding, const Dims& dilation) {
  Window w;
  auto pick = [](const Dims& d, size_t i, int64_t fallback) { return d.empty() ? fallback : d.size() == 1 ? d[0] : d[i]; };
  for (size_t i = 0; i < 2; ++i) {
    w.kernel[i] = pick(kernel, i, 1);
    w.stride[i] = pick(stride, i, w.kernel[i]);
    w.padding[i] = pick(padding, i, 0);
    w.dilation[i] = pick(dilation, i, 1);
    w.in[i] = in[in.size() - 2 + i];
    w.out[i] = out[out.size() - 2 + i];
  }
  return w;
}

// A copy of the last two dims padded so that every window lies inside.
V padded(Builder& b, V x, const Window& w, double value) {
  Dims low(x->type.dims.size(), 0), high = low;
  for (size_t i = 0; i < 2; ++i) {
    const size_t d = low.size() - 2 + i;
    low[d] = w.padding[i];
    high[d] = (w.out[i] - 1) * w.stride[i] + (w.kernel[i] - 1) * w.dilation[i] + 1 - w.padding[i] - w.in[i];
  }
  return b.pad(x, b.splat(ir::tensor(x->type.dtype), value), low, high, Dims(low.size(), 0));
}

// The window element (i, j) of every result position.
V tap(Builder& b, V padded_x, const Window& w, int64_t i, int64_t j) {
  Dims start(padded_x->type.dims.size(), 0), limit = padded_x->type.dims, step(start.size(), 1);
  const int64_t at[2] = {i * w.dilation[0], j * w.dilation[1]};
  for (size_t k = 0; k < 2; ++k) {
    const size_t d = start.size() - 2 + k;
    start[d] = at[k];
    limit[d] = at[k] + (w.out[k] - 1) * w.stride[k] + 1;
    step[d] = w.stride[k];
  }
  return b.slice(padded_x, start, limit, step);
}

// The reverse of tap: result-shaped values put at the input positions that (i, j) reads, `value` elsewhere.
V untap(Builder& b, V y, const Window& w, int64_t i, int64_t j, double value) {
  Dims low(y->type.dims.size(), 0), high = low, interior = low;
  const int64_t at[2] = {i * w.dilation[0], j * w.dilation[1]};
  for (size_t k = 0; k < 2; ++k) {
    const size_t d = low.size() - 2 + k;
    low[d] = at[k] - w.padding[k];
    interior[d] = w.stride[k] - 1;
    high[d] = w.in[k] - (low[d] + (w.out[k] - 1) * w.stride[k] + 1);
  }
  return b.pad(y, b.splat(ir::tensor(y->type.dtype), value), low, high, interior);
}

template <class Body>
void for_taps(const Window& w, Body body) {
  for (int64_t i = 0; i < w.kernel[0]; ++i)
    for (int64_t j = 0; j < w.kernel[1]; ++j) body(i, j);
}

// Position of (i, j)'s element in the flattened input plane.
V plane_position(Builder& b, const Window& w, const Dims& shape, int64_t i, int64_t j) {
  const ir::Type index = ir::tensor(DType::S64, shape);
  const int64_t rank = static_cast<int64_t>(shape.size());
  auto coordinate = [&](int64_t k, int64_t tap_at) {
    return add(b, mul(b, b.iota(index, rank - 2 + k), static_cast<double>(w.stride[k])), static_cast<double>(tap_at * w.dilation[k] - w.padding[k]));
  };
  return add(b, mul(b, coordinate(0, i), static_cast<double>(w.in[1])), coordinate(1, j));
}

Values max_pool_row(Lowering& l) {  // self, kernel_size, stride, padding, dilation, ceil_mode → out, indices
  Builder& b = l.b;
  V x = l.t(0);
  const Window w = window_of(x->type.dims, l.shape(), l.ints(1), l.ints(2), l.ints(3), l.ints(4));
  V source = padded(b, x, w, -INFINITY);
  V best = nullptr, where = nullptr;
  for_taps(w, [&](int64_t i, int64_t j) {
    V value = tap(b, source, w, i, j), position = plane_position(b, w, value->type.dims, i, j);
    if (!best) {
      best = value;
      where = position;
      return;
    }
    V better = b.binary(OpCode::Or, b.compare(Comparison::GT, value, best), b.compare(Comparison::NE, value, value));
    best = b.select(better, value, best);
    where = b.select(better, position, where);
  });
  return {best, where};
}

Values max_pool_backward_row(Lowering& l) {  // grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices
  Builder& b = l.b;
  V grad = b.convert(l.t(0), Lowering::compute_dtype(l.dtype())), where = l.t(7);
  const Window w = window_of(l.t(1)->type.dims, grad->type.dims, l.ints(2), l.ints(3), l.ints(4), l.ints(5));
  V total = nullptr;
  for_taps(w, [&](int64_t i, int64_t j) {
    V chosen = b.compare(Comparison::EQ, where, plane_position(b, w, grad->type.dims, i, j));
    V part = untap(b, b.select(chosen, grad, like(b, grad, 0)), w, i, j, 0);
    total = total ? add(b, total, part) : part;
  });
  return {total};
}

// The number that each window's sum is divided by.
V window_sizes(Lowering& l, const Window& w, const Dims& shape, bool include_pad, bool has_divisor, double divisor, DType dtype) {
  Builder& b = l.b;
  if (has_divisor) return b.splat(ir::tensor(dtype, shape), divisor);
  const ir::Type index = ir::tensor(DType::S64, shape);
  V size = nullptr;
  for (int64_t k = 0; k < 2; ++k) {
    V start = sub(b, mul(b, b.iota(index, static_cast<int64_t>(shape.size()) - 2 + k), static_cast<double>(w.stride[k])), static_cast<double>(w.padding[k]));
    V end = b.binary(OpCode::Minimum, add(b, start, static_cast<double>(w.kernel[k])), like(b, start, static_cast<double>(w.in[k] + w.padding[k])));
    if (!include_pad) {
      start = b.binary(OpCode::Maximum, start, like(b, start, 0));
      end = b.binary(OpCode::Minimum, end, like(b, end, static_cast<double>(w.in[k])));
    }
    V length = sub(b, end, start);
    size = size ? mul(b, size, length) : length;
  }
  return b.convert(size, dtype);
}

Values avg_pool_row(Lowering& l) {  // self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override?
  Builder& b = l.b;
  V x = b.convert(l.t(0), Lowering::compute_dtype(l.dtype()));
  const Window w = window_of(x->type.dims, l.shape(), l.ints(1), l.ints(2), l.ints(3), {});
  V source = padded(b, x, w, 0), total = nullptr;
  for_taps(w, [&](int64_t i, int64_t j) {
    V value = tap(b, source, w, i, j);
    total = total ? add(b, total, value) : value;
  });
  const bool fixed = l.kind(6) != ArgKind::None;
  return {div(b, total, window_sizes(l, w, l.shape(), l.boolean(5), fixed, fixed ? l.real(6) : 0, x->type.dtype))};
}

Values avg_pool_backward_row(Lowering& l) {  // grad_output, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override?
  Builder& b = l.b;
  V grad = b.convert(l.t(0), Lowering::compute_dtype(l.dtype()));
  const Window w = window_of(l.t(1)->type.dims, grad->type.dims, l.ints(2), l.ints(3), l.ints(4), {});
  const bool fixed = l.kind(7) != ArgKind::None;
  V share = div(b, grad, window_sizes(l, w, grad->type.dims, l.boolean(6), fixed, fixed ? l.real(7) : 0, grad->type.dtype)), total = nullptr;
  for_taps(w, [&](int64_t i, int64_t j) {
    V part = untap(b, share, w, i, j, 0);
    total = total ? add(b, total, part) : part;
  });
  return {total};
}

// A linear map of each of the last two dims by a constant matrix [out, in]: resizing and adaptive averages are such maps, and their gradients the transposes.
ir::LiteralPtr matrix(DType dtype, int64_t rows, int64_t columns, const std::vector<double>& values) {
  auto literal = std::make_shared<ir::Literal>(ir::tensor(dtype, {rows, columns}));
  for (int64_t i = 0; i < rows * columns; ++i) {
    if (dtype == DType::F64)
      literal->set<double>(i, values[static_cast<size_t>(i)]);
    else
      literal->set<float>(i, static_cast<float>(values[static_cast<size_t>(i)]));
  }
  return literal;
}

V map_planes(Builder& b, V x, const std::vector<double> (&maps)[2], const int64_t (&out)[2], bool transposed) {
  const Dims shape = x->type.dims;
  const int64_t rank = x->type.rank(), h = shape[static_cast<size_t>(rank - 2)], w = shape[static_cast<size_t>(rank - 1)];
  const int64_t planes = x->type.size() / std::max<int64_t>(h * w, 1);
  const DType dtype = x->type.dtype;
  auto constant = [&](int k, int64_t in) { return b.constant(transposed ? matrix(dtype, in, out[k], maps[k]) : matrix(dtype, out[k], in, maps[k])); };
  const int64_t contract = transposed ? 0 : 1;
  V columns = b.dot(b.reshape(x, {planes * h, w}), constant(1, w), {{}, {}, {1}, {contract}});  // [planes * h, out w]
  V turned = b.reshape(b.transpose(b.reshape(columns, {planes, h, out[1]}), {0, 2, 1}), {planes * out[1], h});
  V rows = b.dot(turned, constant(0, h), {{}, {}, {1}, {contract}});  // [planes * out w, out h]
  V y = b.transpose(b.reshape(rows, {planes, out[1], out[0]}), {0, 2, 1});
  Dims result = shape;
  result[static_cast<size_t>(rank - 2)] = out[0];
  result[static_cast<size_t>(rank - 1)] = out[1];
  return b.reshape(y, result);
}

// Row o averages the inputs floor(o * in / out) to ceil((o + 1) * in / out).
std::vector<double> adaptive_map(int64_t out, int64_t in) {
  std::vector<double> m(static_cast<size_t>(out * in), 0);
  for (int64_t o = 0; o < out; ++o) {
    const int64_t start = o * in / out, end = ((o + 1) * in + out - 1) / out;
    for (int64_t i = start; i < end; ++i) m[static_cast<size_t>(o * in + i)] = 1.0 / static_cast<double>(end - start);
  }
  return m;
}

std::vector<double> nearest_map(int64_t out, int64_t in, double scale) {
  std::vector<double> m(static_cast<size_t>(out * in), 0);
  for (int64_t o = 0; o < out; ++o)
    m[static_cast<size_t>(o * in + std::min(static_cast<int64_t>(std::floor(static_cast<float>(o) * static_cast<float>(scale))), in - 1))] = 1;
  return m;
}

std::vector<double> bilinear_map(int64_t out, int64_t in, bool align, double scale) {
  std::vector<double> m(static_cast<size_t>(out * in), 0);
  for (int64_t o = 0; o < out; ++o) {
    const double at = align ? static_cast<double>(o) * scale : std::max((static_cast<double>(o) + 0.5) * scale - 0.5, 0.0);
    const int64_t low = std::min(static_cast<int64_t>(at), in - 1), high = std::min(low + 1, in - 1);
    const double share = at - static_cast<double>(low);
    m[static_cast<size_t>(o * in + low)] += 1 - share;
    m[static_cast<size_t>(o * in + high)] += share;
  }
  return m;
}

int64_t plane_dim(const Dims& shape, int k) { return shape[shape.size() - 2 + static_cast<size_t>(k)]; }

// Maps of a resize from `in` to `out` planes.
template <class MakeMap>
Values resize(Lowering& l, const Dims& in, const Dims& out, bool gradient, MakeMap make) {
  V x = l.b.convert(l.t(0), Lowering::compute_dtype(l.dtype()));
  const std::vector<double> maps[2] = {make(0, plane_dim(out, 0), plane_dim(in, 0)), make(1, plane_dim(out, 1), plane_dim(in, 1))};
  const Dims& target = gradient ? in : out;
  const int64_t size[2] = {plane_dim(target, 0), plane_dim(target, 1)};
  return {map_planes(l.b, x, maps, size, gradient)};
}

Values adaptive_pool_row(Lowering& l) {
  return resize(l, l.t(0)->type.dims, l.shape(), false, [](int, int64_t out, int64_t in) { return adaptive_map(out, in); });
}

Values adaptive_pool_backward_row(Lowering& l) {
  return resize(l, l.shape(), l.t(0)->type.dims, true, [](int, int64_t out, int64_t in) { return adaptive_map(out, in); });
}

double given_scale(Lowering& l, size_t arg, int64_t out, int64_t in) {
  return l.kind(arg) == ArgKind::Double && l.real(arg) > 0 ? 1 / l.real(arg) : static_cast<double>(in) / static_cast<double>(out);
}

Values nearest_row(Lowering& l) {  // self, output_size, scales_h?, scales_w?
  return resize(l, l.t(0)->type.dims, l.shape(), false,
                [&](int k, int64_t out, int64_t in) { return nearest_map(out, in, given_scale(l, static_cast<size_t>(2 + k), out, in)); });
}

Values nearest_backward_row(Lowering& l) {  // grad, output_size, input_size, scales_h?, scales_w?
  return resize(l, l.shape(), l.t(0)->type.dims, true,
                [&](int k, int64_t out, int64_t in) { return nearest_map(out, in, given_scale(l, static_cast<size_t>(3 + k), out, in)); });
}

std::vector<double> bilinear(Lowering& l, bool align, size_t scale_arg, int64_t out, int64_t in) {
  const double scale = align ? (out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0) : given_scale(l, scale_arg, out, in);
  return bilinear_map(out, in, align, scale);
}

Values bilinear_row(Lowering& l) {  // self, output_size, align_corners, scales_h?, scales_w?
  return resize(l, l.t(0)->type.dims, l.shape(), false,
                [&](int k, int64_t out, int64_t in) { return bilinear(l, l.boolean(2), static_cast<size_t>(3 + k), out, in); });
}

Values bilinear_backward_row(Lowering& l) {  // grad, output_size, input_size, align_corners, scales_h?, scales_w?
  return resize(l, l.shape(), l.t(0)->type.dims, true,
                [&](int k, int64_t out, int64_t in) { return bilinear(l, l.boolean(3), static_cast<size_t>(4 + k), out, in); });
}

}  // namespace

std::vector<Row> pooling_rows() {
  return {
      {"aten::max_pool2d_with_indices", max_pool_row},
      {"aten::max_pool2d_with_indices_backward", max_pool_backward_row},
      {"aten::avg_pool2d", avg_pool_row},
      {"aten::avg_pool2d_backward", avg_pool_backward_row},
      {"aten::_adaptive_avg_pool2d", adaptive_pool_row},
      {"aten::_adaptive_avg_pool2d_backward", adaptive_pool_backward_row},
      {"aten::upsample_nearest2d", nearest_row},
      {"aten::upsample_nearest2d_backward", nearest_backward_row},
      {"aten::upsample_bilinear2d", bilinear_row},
      {"aten::upsample_bilinear2d_backward", bilinear_backward_row},
  };
}

}  // namespace thalweg::lazy
