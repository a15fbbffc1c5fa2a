// Rows that read or write by index: embedding, gather, scatter, index, sort.
#include <algorithm>

#include "lazy/emit.h"
#include "lazy/rows.h"

namespace thalweg::lazy {
namespace {

using namespace emit;

Dims with_one(Dims dims) {
  dims.push_back(1);
  return dims;
}

// Whole slices of `table` along `dim` chosen by `indices` (any shape, checked, non-negative i64): dims before `dim`, index dims, dims after.
V take(Builder& b, V table, V indices, int64_t dim) {
  const int64_t rank = table->type.rank(), index_rank = indices->type.rank();
  ir::GatherDims dims;
  Dims sizes = table->type.dims;
  sizes[static_cast<size_t>(dim)] = 1;
  for (int64_t d = 0; d < rank; ++d)
    if (d != dim) dims.offset_dims.push_back(d < dim ? d : d + index_rank - 1);
  dims.collapsed_slice_dims = {dim};
  dims.start_index_map = {dim};
  dims.index_vector_dim = index_rank;
  return b.gather(table, b.reshape(indices, with_one(indices->type.dims)), dims, sizes);
}

// Adds whole slices into `base` along `dim`, the reverse of take().
V put_add(Builder& b, V base, V indices, V updates, int64_t dim) {
  const int64_t rank = base->type.rank(), index_rank = indices->type.rank();
  ir::ScatterDims dims;
  for (int64_t d = 0; d < rank; ++d)
    if (d != dim) dims.update_window_dims.push_back(d < dim ? d : d + index_rank - 1);
  dims.inserted_window_dims = {dim};
  dims.scatter_dims_to_operand_dims = {dim};
  dims.index_vector_dim = index_rank;
  return b.scatter(base, b.reshape(indices, with_one(indices->type.dims)), updates, dims, [](Builder& r, V a, V c) { return r.binary(OpCode::Add, a, c); });
}

Values embedding_row(Lowering& l) {  // weight, indices, padding_idx, scale_grad_by_freq, sparse
  V weight = l.t(0), indices = l.t(1);
  check_index(l, indices, 0, weight->type.dims[0], "index");
  return {take(l.b, weight, l.b.convert(indices, DType::S64), 0)};
}

Values embedding_dense_backward(Lowering& l) {  // grad, indices, num_weights, padding_idx, scale_grad_by_freq
  Builder& b = l.b;
  const DType dtype = Lowering::compute_dtype(l.dtype());
  V grad = b.convert(l.t(0), dtype), indices = b.convert(l.t(1), DType::S64);
  const int64_t padding = l.integer(3), width = l.shape()[1], n = indices->type.size();
  V rows = b.reshape(grad, {n, width});
  V flat = b.reshape(indices, {n});
  if (padding >= 0) {
    V keep = b.broadcast(b.compare(Comparison::NE, flat, like(b, flat, static_cast<double>(padding))), {n, width}, {0});
    rows = b.select(keep, rows, like(b, rows, 0));
  }
  if (l.boolean(4)) {
    V counts = put_add(b, b.splat(ir::tensor(dtype, {l.shape()[0]}), 0), flat, b.splat(ir::tensor(dtype, {n}), 1), 0);
    rows = div(b, rows, b.broadcast(take(b, counts, flat, 0), {n, width}, {0}));
  }
  return {put_add(b, b.splat(ir::tensor(dtype, l.shape()), 0), flat, rows, 0)};
}

Values index_select_row(Lowering& l) {  // self, dim, index
  V x = l.t(0);
  const int64_t dim = positive(l.integer(1), x->type.rank());
  V index = l.b.convert(l.t(2), DType::S64);
  check_index(l, l.t(2), 0, x->type.dims[static_cast<size_t>(dim)], "index");
  return {take(l.b, x, l.b.reshape(index, {index->type.size()}), dim)};
}

Values index_add_row(Lowering& l) {  // self, dim, index, source, alpha
  Builder& b = l.b;
  V x = l.in(0);
  const int64_t dim = positive(l.integer(1), x->type.rank());
  check_index(l, l.t(2), 0, x->type.dims[static_cast<size_t>(dim)], "index");
  V index = b.reshape(b.convert(l.t(2), DType::S64), {l.t(2)->type.size()});
  V source = b.convert(l.t(3), x->type.dtype);
  if (l.has(4)) source = mul(b, source, b.broadcast_to(l.number(4, x->type.dtype), source->type.dims));
  return {put_add(b, x, index, source, dim)};
}

// Full coordinates [index shape…, rank]: `index` along `dim`, the element's own position in the other dims.
V coordinates(Builder& b, V index, int64_t dim) {
  const ir::Type type = ir::tensor(DType::S64, index->type.dims);
  Values parts;
  for (int64_t d = 0; d < index->type.rank(); ++d) parts.push_back(b.reshape(d == dim ? index : b.iota(type, d), with_one(index->type.dims)));
  return b.concatenate(parts, index->type.rank());
}

Values gather_row(Lowering& l) {  // self, dim, index
  Builder& b = l.b;
  V x = l.t(0), index = b.convert(l.t(2), DType::S64);
  if (x->type.rank() == 0) return {b.broadcast_to(x, l.shape())};
  const int64_t dim = positive(l.integer(1), x->type.rank());
  check_index(l, l.t(2), 0, x->type.dims[static_cast<size_t>(dim)], "index");
  ir::GatherDims dims;
  dims.collapsed_slice_dims = all_dims(x->type.rank());
  dims.start_index_map = all_dims(x->type.rank());
  dims.index_vector_dim = x->type.rank();
  return {b.gather(x, coordinates(b, index, dim), dims, Dims(x->type.dims.size(), 1))};
}

enum class Combine { Set, Add };

V scatter_elements(Lowering& l, V x, int64_t dim, V index, V updates, Combine how) {
  Builder& b = l.b;
  dim = positive(dim, x->type.rank());
  check_index(l, index, 0, x->type.dims[static_cast<size_t>(dim)], "index");
  ir::ScatterDims dims;
  dims.inserted_window_dims = all_dims(x->type.rank());
  dims.scatter_dims_to_operand_dims = all_dims(x->type.rank());
  dims.index_vector_dim = x->type.rank();
  if (updates->type.dims != index->type.dims) {
    Dims start(updates->type.dims.size(), 0);
    updates = b.slice(updates, start, index->type.dims, Dims(start.size(), 1));
  }
  return b.scatter(x, coordinates(b, b.convert(index, DType::S64), dim), updates, dims,
                   [how](Builder& r, V a, V c) { return how == Combine::Add ? r.binary(OpCode::Add, a, c) : c; });
}

template <Combine how>
Values scatter_row(Lowering& l) {  // self, dim, index, src
  V x = how == Combine::Add ? l.in(0) : l.as(0, l.dtype());
  if (x->type.rank() == 0 || l.t(2)->type.size() == 0) return {x};
  return {scatter_elements(l, x, l.integer(1), l.t(2), l.b.convert(l.t(3), x->type.dtype), how)};
}

Values scatter_value(Lowering& l) {  // self, dim, index, value
  V x = l.as(0, l.dtype()), index = l.t(2);
  if (x->type.rank() == 0 || index->type.size() == 0) return {x};
  return {scatter_elements(l, x, l.integer(1), index, l.b.broadcast_to(l.number(3, x->type.dtype), index->type.dims), Combine::Set)};
}

// The integer indices of index / index_put: the dims they replace, their joint shape, and where it stands in the result.
struct Advanced {
  Dims dims;     // indexed dims of self
  Values index;  // wrapped, broadcast to `shape`
  Dims shape;
  int64_t place;  // first result dim of `shape`
};

Advanced advanced(Lowering& l, V x, const Values& list) {
  Builder& b = l.b;
  Advanced a;
  Values given;
  for (size_t i = 0; i < list.size(); ++i) {
    if (!list[i]) continue;
    THALWEG_CHECK(list[i]->type.dtype != DType::I1 && list[i]->type.dtype != DType::U8, Unsupported, "mask index in a traced program");
    a.dims.push_back(static_cast<int64_t>(i));
    given.push_back(list[i]);
    Dims& s = a.shape;
    const Dims& t = list[i]->type.dims;
    while (s.size() < t.size()) s.insert(s.begin(), 1);
    for (size_t k = 0; k < t.size(); ++k) {
      int64_t& have = s[s.size() - t.size() + k];
      if (have == 1) have = t[k];
    }
  }
  const bool together = a.dims.empty() || a.dims.back() - a.dims.front() + 1 == static_cast<int64_t>(a.dims.size());
  a.place = together && !a.dims.empty() ? a.dims.front() : 0;
  for (size_t i = 0; i < given.size(); ++i) {
    const int64_t size = x->type.dims[static_cast<size_t>(a.dims[i])];
    check_index(l, given[i], -size, size, "index");
    a.index.push_back(b.broadcast_to(wrap_index(b, given[i], size), a.shape));
  }
  return a;
}

V stacked(Builder& b, const Advanced& a) {
  Values parts;
  for (V index : a.index) parts.push_back(b.reshape(index, with_one(a.shape)));
  return b.concatenate(parts, static_cast<int64_t>(a.shape.size()));
}

// Result dims that come from self's own dims: all but a.shape's.
Dims window_dims(const Advanced& a, int64_t rank) {
  Dims out;
  const int64_t index_rank = static_cast<int64_t>(a.shape.size()), plain = rank - static_cast<int64_t>(a.dims.size());
  for (int64_t d = 0; d < plain + index_rank; ++d)
    if (d < a.place || d >= a.place + index_rank) out.push_back(d);
  return out;
}

Values index_row(Lowering& l) {  // self, indices
  V x = l.t(0);
  const Advanced a = advanced(l, x, l.list(1));
  if (a.dims.empty()) return {x};
  ir::GatherDims dims;
  dims.offset_dims = window_dims(a, x->type.rank());
  dims.collapsed_slice_dims = a.dims;
  dims.start_index_map = a.dims;
  dims.index_vector_dim = static_cast<int64_t>(a.shape.size());
  Dims sizes = x->type.dims;
  for (int64_t d : a.dims) sizes[static_cast<size_t>(d)] = 1;
  return {l.b.gather(x, stacked(l.b, a), dims, sizes)};
}

Values index_put_row(Lowering& l) {  // self, indices, values, accumulate
  Builder& b = l.b;
  const bool accumulate = l.boolean(3);
  V x = accumulate ? l.in(0) : l.as(0, l.dtype());
  const Advanced a = advanced(l, x, l.list(1));
  ir::ScatterDims dims;
  dims.update_window_dims = window_dims(a, x->type.rank());
  dims.inserted_window_dims = a.dims;
  dims.scatter_dims_to_operand_dims = a.dims;
  dims.index_vector_dim = static_cast<int64_t>(a.shape.size());
  Dims shape;
  size_t plain = 0;
  const Dims own = other_dims(x->type.rank(), a.dims);
  for (int64_t d = 0; d < static_cast<int64_t>(own.size() + a.shape.size()); ++d) {
    const bool indexed = d >= a.place && d < a.place + static_cast<int64_t>(a.shape.size());
    shape.push_back(indexed ? a.shape[static_cast<size_t>(d - a.place)] : x->type.dims[static_cast<size_t>(own[plain++])]);
  }
  V updates = b.broadcast_to(b.convert(l.t(2), x->type.dtype), shape);
  return {
      b.scatter(x, stacked(b, a), updates, dims, [accumulate](Builder& r, V old, V fresh) { return accumulate ? r.binary(OpCode::Add, old, fresh) : fresh; })};
}

// Sorted values and positions along `dim`; NaN counts as greatest, equal elements keep their order.
Values sorted(Lowering& l, V x, int64_t dim, bool descending) {
  Builder& b = l.b;
  V positions = b.iota(ir::tensor(DType::S64, x->type.dims), dim);
  return b.sort({x, positions}, dim, true, [&](Builder& r, Values v) -> V {
    V first = descending ? v[1] : v[0], second = descending ? v[0] : v[1];
    V less = r.compare(Comparison::LT, first, second);
    if (!ir::is_float(x->type.dtype)) return less;
    V first_nan = r.compare(Comparison::NE, first, first), second_nan = r.compare(Comparison::NE, second, second);
    return r.binary(OpCode::Or, less, r.binary(OpCode::And, second_nan, r.unary(OpCode::Not, first_nan)));
  });
}

Values sort_row(Lowering& l) {  // self, dim, descending
  V x = l.t(0);
  if (x->type.rank() == 0) return {x, l.b.splat(ir::tensor(DType::S64), 0)};
  return sorted(l, x, positive(l.integer(1), x->type.rank()), l.boolean(2));
}

Values sort_stable_row(Lowering& l) {  // self, stable, dim, descending
  V x = l.t(0);
  if (x->type.rank() == 0) return {x, l.b.splat(ir::tensor(DType::S64), 0)};
  return sorted(l, x, positive(l.integer(2), x->type.rank()), l.boolean(3));
}

Values topk_row(Lowering& l) {  // self, k, dim, largest, sorted
  V x = l.t(0);
  if (x->type.rank() == 0) return {x, l.b.splat(ir::tensor(DType::S64), 0)};
  const int64_t dim = positive(l.integer(2), x->type.rank());
  Values both = sorted(l, x, dim, l.boolean(3));
  Dims start(x->type.dims.size(), 0), limit = x->type.dims;
  limit[static_cast<size_t>(dim)] = l.integer(1);
  for (V& v : both) v = l.b.slice(v, start, limit, Dims(start.size(), 1));
  return both;
}

}  // namespace

std::vector<Row> index_rows() {
  return {
      {"aten::embedding", embedding_row},
      {"aten::embedding_dense_backward", embedding_dense_backward},
      {"aten::index_select", index_select_row},
      {"aten::index_add", index_add_row},
      {"aten::gather", gather_row},
      {"aten::scatter.src", scatter_row<Combine::Set>},
      {"aten::scatter.value", scatter_value},
      {"aten::scatter_add", scatter_row<Combine::Add>},
      {"aten::index.Tensor", index_row, kNoMaskLists},
      {"aten::index_put", index_put_row, kNoMaskLists},
      {"aten::sort", sort_row},
      {"aten::sort.stable", sort_stable_row},
      {"aten::topk", topk_row},
  };
}

}  // namespace thalweg::lazy
