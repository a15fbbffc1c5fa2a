// Rows that make or rearrange elements: concatenation, padding, flips, triangles, ranges, gradients of views.
#include <algorithm>

#include "lazy/emit.h"
#include "lazy/rows.h"

namespace thalweg::lazy {
namespace {

using namespace emit;

Values cat_row(Lowering& l) {  // tensors, dim
  Values parts;
  for (V part : l.list(0)) {
    if (part->type.rank() == 1 && part->type.size() == 0 && l.shape().size() != 1) continue;  // PyTorch skips old-style empty tensors
    parts.push_back(l.fit(part, l.dtype(), part->type.dims));
  }
  return {l.b.concatenate(parts, positive(l.integer(1), static_cast<int64_t>(l.shape().size())))};
}

Values stack_row(Lowering& l) {
  Values parts;
  const int64_t dim = positive(l.integer(1), static_cast<int64_t>(l.shape().size()));
  for (V part : l.list(0)) {
    Dims shape = part->type.dims;
    shape.insert(shape.begin() + dim, 1);
    parts.push_back(l.b.reshape(l.fit(part, l.dtype(), part->type.dims), shape));
  }
  return {l.b.concatenate(parts, dim)};
}

Values constant_pad(Lowering& l) {  // self, pad (last dim first), value
  V x = l.t(0);
  const Dims pad = l.ints(1);
  Dims low(x->type.dims.size(), 0), high = low;
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    low[low.size() - 1 - i] = pad[2 * i];
    high[high.size() - 1 - i] = pad[2 * i + 1];
  }
  return {l.b.pad(x, l.number(2, x->type.dtype), low, high, Dims(low.size(), 0))};
}

Values flip_row(Lowering& l) {
  const Dims dims = l.ints(1);
  return {dims.empty() ? l.t(0) : l.b.reverse(l.t(0), normal_dims(dims, l.t(0)->type.rank()))};
}

Values roll_row(Lowering& l) {  // self, shifts, dims
  Builder& b = l.b;
  V x = l.t(0);
  Dims shifts = l.ints(1), dims = l.ints(2);
  const Dims shape = x->type.dims;
  if (dims.empty()) {
    x = b.reshape(x, {x->type.size()});
    dims = {0};
  }
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t d = positive(dims[i], x->type.rank()), n = x->type.dims[static_cast<size_t>(d)];
    if (n == 0) continue;
    const int64_t cut = ((-shifts[i] % n) + n) % n;
    Dims start(x->type.dims.size(), 0), limit = x->type.dims, ones(start.size(), 1);
    start[static_cast<size_t>(d)] = cut;
    V tail = b.slice(x, start, limit, ones);
    start[static_cast<size_t>(d)] = 0;
    limit[static_cast<size_t>(d)] = cut;
    x = b.concatenate({tail, b.slice(x, start, limit, ones)}, d);
  }
  return {b.reshape(x, shape)};
}

// Elements on or below (tril) / on or above (triu) the diagonal.
template <bool lower>
Values triangle(Lowering& l) {
  Builder& b = l.b;
  V x = l.t(0);
  const int64_t rank = x->type.rank();
  const ir::Type index = ir::tensor(DType::S64, x->type.dims);
  V offset = sub(b, b.iota(index, rank - 1), b.iota(index, rank - 2));
  V keep = b.compare(lower ? Comparison::LE : Comparison::GE, offset, like(b, offset, static_cast<double>(l.integer(1))));
  return {b.select(keep, x, like(b, x, 0))};
}

Values repeat_row(Lowering& l) {
  Builder& b = l.b;
  const Dims repeats = l.ints(1);
  V x = l.t(0);
  Dims padded(repeats.size() - x->type.dims.size(), 1);
  padded.insert(padded.end(), x->type.dims.begin(), x->type.dims.end());
  Dims split, kept;
  for (size_t i = 0; i < repeats.size(); ++i) {
    split.push_back(repeats[i]);
    kept.push_back(static_cast<int64_t>(split.size()));
    split.push_back(padded[i]);
  }
  return {b.reshape(b.broadcast(b.reshape(x, padded), split, kept), l.shape())};
}

// arange.start_out(start, end, step, *, out): computed from run-time numbers where they are.
Values arange_row(Lowering& l) {
  const DType dtype = ir::is_float(l.dtype()) ? Lowering::compute_dtype(l.dtype()) : DType::S64;
  const ir::Type type = ir::tensor(dtype, l.shape());
  V at = mul(l.b, l.b.iota(type, 0), l.b.broadcast_to(l.number(2, dtype), l.shape()));
  return {add(l.b, at, l.b.broadcast_to(l.number(0, dtype), l.shape()))};
}

Values eye_row(Lowering& l) {
  const ir::Type index = ir::tensor(DType::S64, l.shape());
  return {l.b.compare(Comparison::EQ, l.b.iota(index, 0), l.b.iota(index, 1))};
}

// A zero tensor of the result's shape with the gradient put in a window.
V in_window(Lowering& l, V grad, const Dims& low, const Dims& interior) {
  const Dims shape = l.shape();
  Dims high(shape.size());
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t n = grad->type.dims[i];
    high[i] = shape[i] - low[i] - (n == 0 ? 0 : (n - 1) * (interior[i] + 1) + 1);
  }
  return l.b.pad(grad, l.b.splat(ir::tensor(grad->type.dtype), 0), low, high, interior);
}

Values slice_backward(Lowering& l) {  // grad, input_sizes, dim, start, end, step
  const int64_t rank = static_cast<int64_t>(l.shape().size());
  const size_t dim = static_cast<size_t>(positive(l.integer(2), rank));
  const int64_t n = l.shape()[dim];
  const int64_t start = std::clamp<int64_t>(positive(l.integer(3), n), 0, n);
  Dims low(l.shape().size(), 0), interior(l.shape().size(), 0);
  low[dim] = start;
  interior[dim] = l.integer(5) - 1;
  return {in_window(l, l.t(0), low, interior)};
}

Values select_backward(Lowering& l) {  // grad, input_sizes, dim, index
  const int64_t rank = static_cast<int64_t>(l.shape().size());
  const size_t dim = static_cast<size_t>(positive(l.integer(2), rank));
  Dims low(l.shape().size(), 0), shape = l.t(0)->type.dims;
  shape.insert(shape.begin() + static_cast<int64_t>(dim), 1);
  low[dim] = positive(l.integer(3), l.shape()[dim]);
  return {in_window(l, l.b.reshape(l.t(0), shape), low, Dims(low.size(), 0))};
}

Values linspace_row(Lowering& l) {  // start, end, steps
  Builder& b = l.b;
  const DType dtype = Lowering::compute_dtype(l.dtype());
  const int64_t n = l.integer(2);
  const ir::Type type = ir::tensor(dtype, l.shape());
  V start = b.broadcast_to(l.number(0, dtype), l.shape()), end = b.broadcast_to(l.number(1, dtype), l.shape());
  V step = n > 1 ? div(b, sub(b, end, start), static_cast<double>(n - 1)) : like(b, start, 0);
  V at = b.iota(type, 0);
  V back = sub(b, like(b, at, static_cast<double>(n - 1)), at);
  V low = add(b, start, mul(b, step, at)), high = sub(b, end, mul(b, step, back));
  const int64_t middle = n / 2;
  return {b.select(b.compare(Comparison::LT, at, like(b, at, static_cast<double>(middle))), low, high)};
}

}  // namespace

std::vector<Row> shape_rows() {
  return {
      {"aten::cat", cat_row},
      {"aten::stack", stack_row},
      {"aten::constant_pad_nd", constant_pad},
      {"aten::flip", flip_row},
      {"aten::roll", roll_row},
      {"aten::tril", triangle<true>},
      {"aten::triu", triangle<false>},
      {"aten::repeat", repeat_row},
      {"aten::arange.start_out", arange_row},
      {"aten::eye.m_out", eye_row},
      {"aten::linspace.out", linspace_row},
      {"aten::slice_backward", slice_backward},
      {"aten::select_backward", select_backward},
  };
}

}  // namespace thalweg::lazy
