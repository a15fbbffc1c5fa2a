// Sources, and ops that move elements.
#include <algorithm>

#include "interp/indexing.h"
#include "interp/machine.h"
#include "ir/dimension_numbers.h"

namespace thalweg::interp {
namespace {

using ir::Dims;
using ir::Literal;
using ir::OpCode;

bool contains(const Dims& dims, int64_t d) { return std::find(dims.begin(), dims.end(), d) != dims.end(); }
int64_t at(const Dims& dims, int64_t i) { return dims[static_cast<size_t>(i)]; }

std::vector<Literal> constant(const Call& call) {
  const ir::Attribute* value = call.attrs().find("value");
  if (!value || !std::holds_alternative<ir::LiteralPtr>(value->value)) unsupported(call.op);
  return one(*std::get<ir::LiteralPtr>(value->value));
}

std::vector<Literal> iota(const Call& call) {
  Literal out(call.type());
  const auto dim = static_cast<size_t>(call.attrs().integer("iota_dimension"));
  for_each_index(out.type.dims, [&](const Dims& index, int64_t i) { ir::store_int(out.type.dtype, element(out, i), index[dim]); });
  return one(std::move(out));
}

// Every element of the result from the operand's element at source(index).
template <class Source>
std::vector<Literal> gather_from(const Call& call, const Source& source) {
  const Literal& in = call.in(0);
  const Dims strides = strides_of(in.type.dims);
  Literal out(call.type());
  for_each_index(out.type.dims, [&](const Dims& index, int64_t i) { copy_element(out, i, in, offset_of(source(index), strides)); });
  return one(std::move(out));
}

std::vector<Literal> broadcast_in_dim(const Call& call) {
  const Dims& dims = call.attrs().ints("broadcast_dimensions");
  const Dims& from = call.in(0).type.dims;
  Dims source(from.size());
  return gather_from(call, [&](const Dims& index) {
    for (size_t i = 0; i < from.size(); ++i) source[i] = from[i] == 1 ? 0 : at(index, dims[i]);
    return source;
  });
}

std::vector<Literal> reshape(const Call& call) {
  Literal out = call.in(0);
  out.type = call.type();
  return one(std::move(out));
}

std::vector<Literal> reverse(const Call& call) {
  const Dims& dims = call.attrs().ints("dimensions");
  const Dims& sizes = call.type().dims;
  return gather_from(call, [&](const Dims& index) {
    Dims source = index;
    for (int64_t d : dims) source[static_cast<size_t>(d)] = at(sizes, d) - 1 - at(index, d);
    return source;
  });
}

std::vector<Literal> slice(const Call& call) {
  const Dims &start = call.attrs().ints("start_indices"), &stride = call.attrs().ints("strides");
  return gather_from(call, [&](const Dims& index) {
    Dims source = index;
    for (size_t i = 0; i < source.size(); ++i) source[i] = start[i] + index[i] * stride[i];
    return source;
  });
}

std::vector<Literal> transpose(const Call& call) {
  const Dims& permutation = call.attrs().ints("permutation");
  Dims source(permutation.size());
  return gather_from(call, [&](const Dims& index) {
    for (size_t i = 0; i < permutation.size(); ++i) source[static_cast<size_t>(permutation[i])] = index[i];
    return source;
  });
}

std::vector<Literal> concatenate(const Call& call) {
  const auto dim = static_cast<size_t>(call.attrs().integer("dimension"));
  Literal out(call.type());
  const Dims strides = strides_of(out.type.dims);
  int64_t start = 0;
  for (size_t k = 0; k < call.operands.size(); ++k) {
    const Literal& in = call.in(k);
    for_each_index(in.type.dims, [&](const Dims& index, int64_t i) { copy_element(out, offset_of(index, strides) + start * strides[dim], in, i); });
    start += in.type.dims[dim];
  }
  return one(std::move(out));
}

std::vector<Literal> pad(const Call& call) {
  const Dims &low = call.attrs().ints("edge_padding_low"), &interior = call.attrs().ints("interior_padding");
  Literal out(call.type());
  for (int64_t i = 0; i < out.type.size(); ++i) copy_element(out, i, call.in(1), 0);
  const Dims strides = strides_of(out.type.dims);
  for_each_index(call.in(0).type.dims, [&](const Dims& index, int64_t i) {
    Dims to = index;
    for (size_t d = 0; d < to.size(); ++d) to[d] = low[d] + index[d] * (interior[d] + 1);
    if (is_inside(to, out.type.dims)) copy_element(out, offset_of(to, strides), call.in(0), i);
  });
  return one(std::move(out));
}

// Start indices from rank-0 operands on, clamped so that `sizes` fit in `dims`.
Dims clamped_starts(const Call& call, size_t first, const Dims& dims, const Dims& sizes) {
  Dims starts(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) {
    int64_t start = to_int(call.in(first + i), 0);
    if (dtype_class(call.in(first + i).type.dtype) == ir::DTypeClass::Unsigned && start < 0) start = dims[i];  // beyond int64
    starts[i] = std::clamp<int64_t>(start, 0, dims[i] - sizes[i]);
  }
  return starts;
}

std::vector<Literal> dynamic_slice(const Call& call) {
  const Dims starts = clamped_starts(call, 1, call.in(0).type.dims, call.type().dims);
  return gather_from(call, [&](const Dims& index) {
    Dims source = index;
    for (size_t i = 0; i < source.size(); ++i) source[i] += starts[i];
    return source;
  });
}

std::vector<Literal> dynamic_update_slice(const Call& call) {
  const Literal& update = call.in(1);
  Literal out = call.in(0);
  const Dims starts = clamped_starts(call, 2, out.type.dims, update.type.dims);
  const Dims strides = strides_of(out.type.dims);
  for_each_index(update.type.dims, [&](const Dims& index, int64_t i) { copy_element(out, offset_of(index, strides) + offset_of(starts, strides), update, i); });
  return one(std::move(out));
}

// Number `k` of the index vector that belongs to `batch`, a position in the index tensor without its vector dimension.
int64_t index_at(const Literal& indices, const Dims& batch, int64_t vector_dim, int64_t k) {
  Dims position = batch;
  if (vector_dim < indices.type.rank()) position.insert(position.begin() + vector_dim, k);
  const int64_t offset = offset_of(position, strides_of(indices.type.dims));
  const int64_t value = to_int(indices, offset);
  const bool beyond = dtype_class(indices.type.dtype) == ir::DTypeClass::Unsigned && value < 0;
  return beyond ? std::numeric_limits<int64_t>::max() / 2 : value;
}

// The part of `index` along `dims`, or along all others.
Dims along(const Dims& index, const Dims& dims, bool others) {
  Dims out;
  for (int64_t i = 0; i < static_cast<int64_t>(index.size()); ++i)
    if (contains(dims, i) != others) out.push_back(at(index, i));
  return out;
}

// `window`, one number for each dimension kept, spread over the operand's dimensions; dropped ones are 0.
Dims spread(const Dims& window, int64_t rank, const Dims& dropped, const Dims& also_dropped) {
  Dims full(static_cast<size_t>(rank), 0);
  size_t next = 0;
  for (int64_t i = 0; i < rank; ++i)
    if (!contains(dropped, i) && !contains(also_dropped, i)) full[static_cast<size_t>(i)] = window[next++];
  return full;
}

// Adds to `position` the numbers of `batch` at the batching dimensions of the indices (which do not count the vector dimension).
void add_batching(Dims& position, const Dims& batch, const Dims& operand_dims, const Dims& index_dims, int64_t vector_dim) {
  for (size_t i = 0; i < operand_dims.size(); ++i) {
    const int64_t d = index_dims[i] < vector_dim ? index_dims[i] : index_dims[i] - 1;
    position[static_cast<size_t>(operand_dims[i])] += at(batch, d);
  }
}

std::vector<Literal> gather(const Call& call) {
  const ir::GatherDims d = ir::gather_dims(call.attrs());
  const Dims& sizes = call.attrs().ints("slice_sizes");
  const Literal& indices = call.in(1);
  const Dims& dims = call.in(0).type.dims;
  return gather_from(call, [&](const Dims& index) {
    const Dims batch = along(index, d.offset_dims, true);
    Dims position(dims.size(), 0);
    for (size_t k = 0; k < d.start_index_map.size(); ++k) {
      const auto to = static_cast<size_t>(d.start_index_map[k]);
      position[to] = std::clamp<int64_t>(index_at(indices, batch, d.index_vector_dim, static_cast<int64_t>(k)), 0, dims[to] - sizes[to]);
    }
    add_batching(position, batch, d.operand_batching_dims, d.start_indices_batching_dims, d.index_vector_dim);
    const Dims offset = spread(along(index, d.offset_dims, false), static_cast<int64_t>(dims.size()), d.collapsed_slice_dims, d.operand_batching_dims);
    for (size_t i = 0; i < position.size(); ++i) position[i] += offset[i];
    return position;
  });
}

// Updates that fall outside the input are dropped; the others are stored one after the other in the order of the update tensor.
std::vector<Literal> scatter(const Call& call) {
  const ir::ScatterDims d = ir::scatter_dims(call.attrs());
  const size_t n = call.operands.size() / 2;
  const Literal& indices = call.in(n);
  const Dims& dims = call.in(0).type.dims;
  const Dims strides = strides_of(dims);
  std::vector<Literal> out;
  for (size_t k = 0; k < n; ++k) {
    out.push_back(call.in(k));
    out.back().type = call.type(k);
  }
  const Reducer reducer(call.machine, call.region());
  for_each_index(call.in(n + 1).type.dims, [&](const Dims& index, int64_t i) {
    const Dims batch = along(index, d.update_window_dims, true);
    Dims position(dims.size(), 0);
    for (size_t k = 0; k < d.scatter_dims_to_operand_dims.size(); ++k)
      position[static_cast<size_t>(d.scatter_dims_to_operand_dims[k])] = index_at(indices, batch, d.index_vector_dim, static_cast<int64_t>(k));
    add_batching(position, batch, d.input_batching_dims, d.scatter_indices_batching_dims, d.index_vector_dim);
    const Dims offset = spread(along(index, d.update_window_dims, false), static_cast<int64_t>(dims.size()), d.inserted_window_dims, d.input_batching_dims);
    for (size_t k = 0; k < position.size(); ++k) position[k] += offset[k];
    if (!is_inside(position, dims)) return;
    const int64_t to = offset_of(position, strides);
    if (n == 1) {
      Literal old(ir::tensor(out[0].type.dtype));
      copy_element(old, 0, out[0], to);
      reducer.apply(old, element(call.in(2), i));
      copy_element(out[0], to, old, 0);
      return;
    }
    std::vector<Literal> args;
    for (size_t k = 0; k < 2 * n; ++k) {
      const Literal& from = k < n ? out[k] : call.in(k + 1);
      args.emplace_back(ir::tensor(from.type.dtype));
      copy_element(args.back(), 0, from, k < n ? to : i);
    }
    const std::vector<Literal> stored = call.machine.run(call.region(), std::move(args));
    for (size_t k = 0; k < n; ++k) copy_element(out[k], to, stored[k], 0);
  });
  return out;
}

}  // namespace

OpFn movement_function(OpCode code) {
  switch (code) {
    case OpCode::Constant:
      return constant;
    case OpCode::Iota:
      return iota;
    case OpCode::BroadcastInDim:
      return broadcast_in_dim;
    case OpCode::Reshape:
      return reshape;
    case OpCode::Reverse:
      return reverse;
    case OpCode::Slice:
      return slice;
    case OpCode::Transpose:
      return transpose;
    case OpCode::Concatenate:
      return concatenate;
    case OpCode::Pad:
      return pad;
    case OpCode::DynamicSlice:
      return dynamic_slice;
    case OpCode::DynamicUpdateSlice:
      return dynamic_update_slice;
    case OpCode::Gather:
      return gather;
    case OpCode::Scatter:
      return scatter;
    default:
      return nullptr;
  }
}

}  // namespace thalweg::interp
