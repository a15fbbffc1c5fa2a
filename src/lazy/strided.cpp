// Strided reads and writes as IR. A view whose strides divide one another is a box in a mixed-radix reshape of the storage.
#include "lazy/strided.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "support/error.h"

namespace thalweg::lazy {
namespace {

using ir::Builder;
using ir::Dims;
using ir::Value;

// The view as a box of the storage reshaped to `radix`: slices [start, start + size) give its dims of size > 1 and stride > 0, slowest first.
struct Box {
  Dims radix, start, size;
  Dims dims;           // the view's dims in that order; the last box dim may be a unit dim without one
  int64_t padded = 0;  // elements that the reshaped storage has
};

std::optional<Box> find_box(const View& view, int64_t elements) {
  Box box;
  for (int i = 0; i < view.rank; ++i) {
    if (view.sizes[i] <= 1 || view.strides[i] == 0) continue;
    if (view.strides[i] < 0) return std::nullopt;
    box.dims.push_back(i);
  }
  std::stable_sort(box.dims.begin(), box.dims.end(), [&](int64_t a, int64_t b) { return view.strides[a] > view.strides[b]; });
  Dims strides;
  for (int64_t d : box.dims) {
    strides.push_back(view.strides[d]);
    box.size.push_back(view.sizes[d]);
  }
  if (strides.empty() || strides.back() != 1) {
    strides.push_back(1);
    box.size.push_back(1);
  }
  const size_t n = strides.size();
  for (size_t k = 0; k + 1 < n; ++k)
    if (strides[k] % strides[k + 1] != 0 || strides[k] == strides[k + 1]) return std::nullopt;
  box.radix.resize(n);
  box.start.resize(n);
  int64_t rest = view.offset;
  for (size_t k = 0; k < n; ++k) {
    box.start[k] = rest / strides[k];
    rest %= strides[k];
    box.radix[k] = k == 0 ? std::max(box.start[0] + box.size[0], (elements + strides[0] - 1) / strides[0]) : strides[k - 1] / strides[k];
    if (box.start[k] + box.size[k] > box.radix[k]) return std::nullopt;
  }
  box.padded = box.radix[0] * strides[0];
  return box;
}

Value* flat(Builder& b, Value* a) { return b.reshape(a, {a->type.size()}); }

// The first `count` elements of a rank-1 value, padded with zeros when there are fewer.
Value* fit_length(Builder& b, Value* a, int64_t count) {
  const int64_t have = a->type.size();
  if (have > count) return b.slice(a, {0}, {count}, {1});
  if (have < count) return b.pad(a, b.splat(ir::tensor(a->type.dtype), 0), {0}, {count - have}, {0});
  return a;
}

Value* reshape_padded(Builder& b, Value* memory, const Box& box) {
  if (memory->type.size() == box.padded) return b.reshape(memory, box.radix);
  return b.reshape(fit_length(b, flat(b, memory), box.padded), box.radix);
}

// The same bytes as elements of `dtype`; rank 1 unless nothing changes.
Value* reinterpret(Builder& b, Value* memory, ir::DType dtype) {
  const ir::DType from = memory->type.dtype;
  if (from == dtype) return memory;
  if (from == ir::DType::I1) return reinterpret(b, b.convert(memory, ir::DType::U8), dtype);
  if (dtype == ir::DType::I1) {
    Value* bytes = reinterpret(b, memory, ir::DType::U8);
    return b.compare(ir::Comparison::NE, bytes, b.splat(bytes->type, 0));
  }
  const int64_t from_size = ir::byte_size(from), size = ir::byte_size(dtype), elements = memory->type.size();
  if (from_size == size) return b.bitcast(memory, ir::tensor(dtype, memory->type.dims));
  if (from_size > size)
    return flat(b, b.bitcast(memory, ir::tensor(dtype, [&] {
                               Dims dims = memory->type.dims;
                               dims.push_back(from_size / size);
                               return dims;
                             }())));
  const int64_t group = size / from_size;
  Value* grouped = b.reshape(fit_length(b, flat(b, memory), elements / group * group), {elements / group, group});
  return b.bitcast(grouped, ir::tensor(dtype, {elements / group}));
}

// Flat positions of the view's elements, as i64 in the view's shape.
Value* positions(Builder& b, const View& view) {
  const ir::Type type = ir::tensor(ir::DType::S64, Dims(view.dims().begin(), view.dims().end()));
  Value* at = b.splat(type, static_cast<double>(view.offset));
  for (int i = 0; i < view.rank; ++i) {
    if (view.sizes[i] <= 1 || view.strides[i] == 0) continue;
    at = b.binary(ir::OpCode::Add, at, b.binary(ir::OpCode::Multiply, b.iota(type, i), b.splat(type, static_cast<double>(view.strides[i]))));
  }
  return at;
}

Dims shape_of(const View& view) { return Dims(view.dims().begin(), view.dims().end()); }

Dims with_one(Dims dims) {
  dims.push_back(1);
  return dims;
}

// Box dims in the view's own order: permutation[i] is the box dim of the i-th of the view's dims that the box has.
Dims view_order(const Box& box) {
  Dims order(box.dims.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t c) { return box.dims[a] < box.dims[c]; });
  return order;
}

Dims box_limits(const Box& box) {
  Dims limit = box.start;
  for (size_t i = 0; i < limit.size(); ++i) limit[i] += box.size[i];
  return limit;
}

Value* read_box(Builder& b, Value* memory, const View& view, const Box& box) {
  Value* sliced = b.slice(reshape_padded(b, memory, box), box.start, box_limits(box), Dims(box.start.size(), 1));
  Dims core(box.size.begin(), box.size.begin() + static_cast<int64_t>(box.dims.size()));
  Value* ordered = b.transpose(b.reshape(sliced, core), view_order(box));
  Dims kept = box.dims;
  std::sort(kept.begin(), kept.end());
  bool repeats = false;
  for (int i = 0; i < view.rank; ++i) repeats |= view.sizes[i] > 1 && view.strides[i] == 0;
  return repeats ? b.broadcast(ordered, shape_of(view), kept) : b.reshape(ordered, shape_of(view));
}

Value* write_box(Builder& b, Value* memory, const Box& box, Value* update) {
  const Dims order = view_order(box);
  Dims ordered_dims, inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    ordered_dims.push_back(box.size[order[i]]);
    inverse[order[i]] = static_cast<int64_t>(i);
  }
  Value* piece = b.reshape(b.transpose(b.reshape(update, ordered_dims), inverse), box.size);
  const ir::Type type = memory->type;
  Value* whole = reshape_padded(b, memory, box);
  if (box.size != box.radix) {
    std::vector<Value*> starts;
    for (int64_t s : box.start) starts.push_back(b.splat(ir::tensor(ir::DType::S64), static_cast<double>(s)));
    piece = b.dynamic_update_slice(whole, piece, starts);
  }
  if (type.size() == box.padded) return b.reshape(piece, type.dims);
  Value* written = fit_length(b, flat(b, piece), type.size());
  if (box.padded < type.size()) written = b.concatenate({flat(b, piece), b.slice(flat(b, memory), {box.padded}, {type.size()}, {1})}, 0);
  return b.reshape(written, type.dims);
}

}  // namespace

Value* strided_read(Builder& b, Value* memory, const View& view) {
  if (view.count() == 0 || memory->type.size() == 0) return b.splat(ir::tensor(view.dtype, shape_of(view)), 0);
  memory = reinterpret(b, memory, view.dtype);
  if (auto box = find_box(view, memory->type.size())) return read_box(b, memory, view, *box);
  ir::GatherDims dims;
  dims.collapsed_slice_dims = {0};
  dims.start_index_map = {0};
  dims.index_vector_dim = view.rank;
  Value* at = positions(b, view);
  return b.gather(flat(b, memory), b.reshape(at, with_one(shape_of(view))), dims, {1});
}

Value* strided_write(Builder& b, Value* memory, const View& window, Value* update) {
  if (window.count() == 0) return memory;
  // Along repeated dims every element writes to the same place: one is enough.
  View view = window;
  Dims limit = update->type.dims;
  for (int i = 0; i < view.rank; ++i)
    if (view.strides[i] == 0) view.sizes[i] = limit[static_cast<size_t>(i)] = 1;
  if (limit != update->type.dims) update = b.slice(update, Dims(limit.size(), 0), limit, Dims(limit.size(), 1));
  const ir::Type type = memory->type;
  Value* content = reinterpret(b, memory, view.dtype);
  Value* written;
  if (auto box = find_box(view, content->type.size())) {
    written = write_box(b, content, *box, update);
  } else {
    ir::ScatterDims dims;
    dims.inserted_window_dims = {0};
    dims.scatter_dims_to_operand_dims = {0};
    dims.index_vector_dim = view.rank;
    const Dims shape = content->type.dims;
    written = b.scatter(flat(b, content), b.reshape(positions(b, view), with_one(shape_of(view))), update, dims,
                        [](Builder&, Value*, Value* value) { return value; });
    written = b.reshape(written, shape);
  }
  written = reinterpret(b, written, type.dtype);
  if (written->type.size() < type.size())  // a tail shorter than one element of the view's dtype
    written = b.concatenate({flat(b, written), b.slice(flat(b, memory), {written->type.size()}, {type.size()}, {1})}, 0);
  return b.reshape(written, type.dims);
}

}  // namespace thalweg::lazy
