// Shape rules of sources and of ops that move elements.
#include <algorithm>

#include "ir/infer.h"

namespace thalweg::ir {
namespace {

using Types = std::optional<std::vector<Type>>;

bool contains(const Dims& dims, int64_t d) { return std::find(dims.begin(), dims.end(), d) != dims.end(); }

Types constant(const OpView& op) {
  require_operands(op, 0);
  const Attribute* value = op.attrs.find("value");
  require(value, op, "missing attribute: value");
  if (auto* literal = std::get_if<LiteralPtr>(&value->value)) return {{(*literal)->type}};
  return std::nullopt;  // a constant kept as text
}

Types iota(const OpView& op) {
  require_operands(op, 0);
  const Type& type = op.declared_type();
  const int64_t dim = op.attrs.integer("iota_dimension");
  require(type.is_tensor() && dim >= 0 && dim < type.rank(), op, "dimension out of range: ", dim, ", type: ", to_string(type));
  return std::nullopt;
}

Types rng(const OpView& op) {
  require_operands(op, 3);
  require_tensors(op);
  require(op.type(0).rank() == 0 && op.type(0) == op.type(1), op, "the bounds must be rank 0 of one type: ", to_string(op.type(0)), " and ",
          to_string(op.type(1)));
  const std::string& distribution = op.attrs.string("rng_distribution");
  require(distribution == "UNIFORM" || distribution == "NORMAL", op, "unknown distribution: ", distribution);
  require(op.declared_type().dtype == op.type(0).dtype, op, "result and bounds differ in element type: ", to_string(op.declared_type()), " and ",
          to_string(op.type(0)));
  return std::nullopt;
}

Types rng_bit_generator(const OpView& op) {
  require_operands(op, 1);
  require_tensors(op);
  require(op.type(0).dtype == DType::U64 && op.type(0).rank() == 1, op, "the state must be a rank-1 ui64 tensor: ", to_string(op.type(0)));
  const std::string& algorithm = op.attrs.string("rng_algorithm");
  require(algorithm == "DEFAULT" || algorithm == "THREE_FRY" || algorithm == "PHILOX", op, "unknown algorithm: ", algorithm);
  require(op.declared && op.declared->size() == 2, op, "two result types are needed: state and bits");
  require((*op.declared)[0] == op.type(0), op, "the state's type changes: ", to_string(op.type(0)), " and ", to_string((*op.declared)[0]));
  return std::nullopt;
}

Types broadcast_in_dim(const OpView& op) {
  require_operands(op, 1);
  require_tensors(op);
  const Type &from = op.type(0), &to = op.declared_type();
  const Dims& dims = op.attrs.ints("broadcast_dimensions");
  require(static_cast<int64_t>(dims.size()) == from.rank(), op, "one broadcast dimension is needed for each operand dimension: ", to_string(dims), " and ",
          to_string(from));
  require_dims(op, "broadcast_dimensions", dims, to.rank());
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t target = to.dims[static_cast<size_t>(dims[i])];
    require(from.dims[i] == 1 || from.dims[i] == target, op, "operand dimension is neither 1 nor the result's; operand: ", to_string(from), ", dimension: ", i,
            ", result: ", to_string(to));
  }
  require(from.dtype == to.dtype, op, "element types differ: ", to_string(from), " and ", to_string(to));
  checked_size(op, to.dims);
  return std::nullopt;
}

Types concatenate(const OpView& op) {
  require(!op.operands.empty(), op, "at least one operand is needed");
  require_tensors(op);
  const int64_t dim = op.attrs.integer("dimension");
  Type result = op.type(0);
  require(dim >= 0 && dim < result.rank(), op, "dimension out of range: ", dim, ", operand: ", to_string(result));
  const auto d = static_cast<size_t>(dim);
  for (size_t i = 1; i < op.operands.size(); ++i) {
    Type other = op.type(i);
    require(other.rank() == result.rank(), op, "operands differ in rank: ", to_string(op.type(0)), " and ", to_string(other));
    const int64_t length = other.dims[d];
    other.dims[d] = result.dims[d];
    require(other == result, op, "operands differ outside the concatenated dimension: ", to_string(op.type(0)), " and ", to_string(op.type(i)),
            ", dimension: ", dim);
    require(!__builtin_add_overflow(result.dims[d], length, &result.dims[d]), op, "the concatenated dimension is too long to be counted");
  }
  return {{result}};
}

void require_scalar_indices(const OpView& op, size_t first, int64_t rank) {
  require(static_cast<int64_t>(op.operands.size() - first) == rank, op, "one start index is needed for each dimension; given: ", op.operands.size() - first,
          ", rank: ", rank);
  for (size_t i = first; i < op.operands.size(); ++i)
    require(op.type(i).rank() == 0 && is_integer(op.type(i).dtype), op, "start indices must be integers of rank 0: ", to_string(op.type(i)));
}

Types dynamic_slice(const OpView& op) {
  require(!op.operands.empty(), op, "an operand is needed");
  require_tensors(op);
  Type result = op.type(0);
  require_scalar_indices(op, 1, result.rank());
  const Dims& sizes = op.attrs.ints("slice_sizes");
  require(static_cast<int64_t>(sizes.size()) == result.rank(), op, "one slice size is needed for each dimension: ", to_string(sizes), " and ",
          to_string(result));
  for (size_t i = 0; i < sizes.size(); ++i)
    require(sizes[i] >= 0 && sizes[i] <= result.dims[i], op, "slice size out of range: ", to_string(sizes), ", operand: ", to_string(op.type(0)));
  result.dims = sizes;
  return {{result}};
}

Types dynamic_update_slice(const OpView& op) {
  require(op.operands.size() >= 2, op, "an operand and an update are needed");
  require_tensors(op);
  const Type &operand = op.type(0), &update = op.type(1);
  require_scalar_indices(op, 2, operand.rank());
  require(operand.dtype == update.dtype && operand.rank() == update.rank(), op, "operand and update differ in element type or rank: ", to_string(operand),
          " and ", to_string(update));
  for (size_t i = 0; i < operand.dims.size(); ++i)
    require(update.dims[i] <= operand.dims[i], op, "the update is larger than the operand: ", to_string(update), " and ", to_string(operand));
  return {{operand}};
}

Types pad(const OpView& op) {
  require_operands(op, 2);
  require_tensors(op);
  Type result = op.type(0);
  require(op.type(1).rank() == 0 && op.type(1).dtype == result.dtype, op, "the padding value must be one element of the operand: ", to_string(op.type(1)),
          " and ", to_string(result));
  const Dims &low = op.attrs.ints("edge_padding_low"), &high = op.attrs.ints("edge_padding_high"), &interior = op.attrs.ints("interior_padding");
  const size_t rank = result.dims.size();
  require(low.size() == rank && high.size() == rank && interior.size() == rank, op, "low, high and interior need one number a dimension; rank: ", rank);
  for (size_t i = 0; i < rank; ++i) {
    require(interior[i] >= 0, op, "interior padding is negative: ", to_string(interior));
    const int64_t size = padded_size(low[i], dilated(result.dims[i], bounded_sum(interior[i], 1)), high[i]);
    require(size >= 0, op, "padding removes more than there is; dimension: ", i, ", result size: ", size);
    result.dims[i] = size;
  }
  checked_size(op, result.dims);
  return {{result}};
}

Types reshape(const OpView& op) {
  require_operands(op, 1);
  require_tensors(op);
  const Type &from = op.type(0), &to = op.declared_type();
  require(to.is_tensor() && from.dtype == to.dtype && checked_size(op, from.dims) == checked_size(op, to.dims), op,
          "operand and result differ in element type or count: ", to_string(from), " and ", to_string(to));
  return std::nullopt;
}

Types reverse(const OpView& op) {
  require_operands(op, 1);
  require_tensors(op);
  require_dims(op, "dimensions", op.attrs.ints("dimensions"), op.type(0).rank());
  return {{op.type(0)}};
}

Types slice(const OpView& op) {
  require_operands(op, 1);
  require_tensors(op);
  Type result = op.type(0);
  const Dims &start = op.attrs.ints("start_indices"), &limit = op.attrs.ints("limit_indices");
  const Dims stride = op.attrs.ints("strides", Dims(start.size(), 1));
  const size_t rank = result.dims.size();
  require(start.size() == rank && limit.size() == rank && stride.size() == rank, op, "starts, limits and strides need one number a dimension; rank: ", rank);
  for (size_t i = 0; i < rank; ++i) {
    require(start[i] >= 0 && start[i] <= limit[i] && limit[i] <= result.dims[i] && stride[i] > 0, op, "slice out of range; operand: ", to_string(op.type(0)),
            ", dimension: ", i, ", start: ", start[i], ", limit: ", limit[i], ", stride: ", stride[i]);
    result.dims[i] = (limit[i] - start[i]) / stride[i] + ((limit[i] - start[i]) % stride[i] != 0);
  }
  return {{result}};
}

Types transpose(const OpView& op) {
  require_operands(op, 1);
  require_tensors(op);
  Type result = op.type(0);
  const Dims& permutation = op.attrs.ints("permutation");
  require(static_cast<int64_t>(permutation.size()) == result.rank(), op, "the permutation needs one number a dimension: ", to_string(permutation), " and ",
          to_string(result));
  require_dims(op, "permutation", permutation, result.rank());
  for (size_t i = 0; i < permutation.size(); ++i) result.dims[i] = op.type(0).dims[static_cast<size_t>(permutation[i])];
  return {{result}};
}

// Sizes of an index tensor's dimensions without the one that holds index vectors.
Dims index_batch(const OpView& op, const Type& indices, int64_t vector_dim) {
  require(is_integer(indices.dtype), op, "indices must be integers: ", to_string(indices));
  require(vector_dim >= 0 && vector_dim <= indices.rank(), op, "index_vector_dim out of range: ", vector_dim, ", indices: ", to_string(indices));
  Dims batch = indices.dims;
  if (vector_dim < indices.rank()) batch.erase(batch.begin() + vector_dim);
  return batch;
}

int64_t index_length(const Type& indices, int64_t vector_dim) { return vector_dim < indices.rank() ? indices.dims[static_cast<size_t>(vector_dim)] : 1; }

Types gather(const OpView& op) {
  require_operands(op, 2);
  require_tensors(op);
  const Type &operand = op.type(0), &indices = op.type(1);
  const GatherDims d = gather_dims(op.attrs);
  const Dims& sizes = op.attrs.ints("slice_sizes");
  require(static_cast<int64_t>(sizes.size()) == operand.rank(), op, "one slice size is needed for each dimension: ", to_string(sizes), " and ",
          to_string(operand));
  const Dims batch = index_batch(op, indices, d.index_vector_dim);
  require_dims(op, "collapsed_slice_dims", d.collapsed_slice_dims, operand.rank());
  require_dims(op, "operand_batching_dims", d.operand_batching_dims, operand.rank());
  require_dims(op, "start_index_map", d.start_index_map, operand.rank());
  require(static_cast<int64_t>(d.start_index_map.size()) == index_length(indices, d.index_vector_dim), op,
          "start_index_map needs one number an index: ", to_string(d.start_index_map), ", indices: ", to_string(indices));
  require(d.operand_batching_dims.size() == d.start_indices_batching_dims.size(), op,
          "batching dimensions differ in number: ", to_string(d.operand_batching_dims), " and ", to_string(d.start_indices_batching_dims));
  Dims window;
  for (int64_t i = 0; i < operand.rank(); ++i) {
    const int64_t size = sizes[static_cast<size_t>(i)];
    require(size >= 0 && size <= operand.dims[static_cast<size_t>(i)], op, "slice size out of range: ", to_string(sizes), ", operand: ", to_string(operand));
    if (contains(d.collapsed_slice_dims, i) || contains(d.operand_batching_dims, i))
      require(size <= 1, op, "a collapsed or batching dimension needs slice size 1; dimension: ", i, ", size: ", size);
    else
      window.push_back(size);
  }
  require(window.size() == d.offset_dims.size(), op, "offset_dims needs one number for each kept dimension: ", to_string(d.offset_dims),
          ", kept: ", window.size());
  Type result = tensor(operand.dtype);
  result.dims.resize(window.size() + batch.size());
  require_dims(op, "offset_dims", d.offset_dims, result.rank());
  size_t w = 0, b = 0;
  for (int64_t i = 0; i < result.rank(); ++i) result.dims[static_cast<size_t>(i)] = contains(d.offset_dims, i) ? window[w++] : batch[b++];
  return {{result}};
}

void check_scatter_update(const OpView& op, const ScatterDims& d, const Type& input, const Type& indices, const Type& update) {
  const Dims batch = index_batch(op, indices, d.index_vector_dim);
  require_dims(op, "update_window_dims", d.update_window_dims, update.rank());
  require(update.rank() == static_cast<int64_t>(batch.size() + d.update_window_dims.size()), op,
          "updates' rank is not that of indices and window; updates: ", to_string(update), ", indices: ", to_string(indices),
          ", update_window_dims: ", to_string(d.update_window_dims));
  Dims window;
  for (int64_t i = 0; i < input.rank(); ++i)
    if (!contains(d.inserted_window_dims, i) && !contains(d.input_batching_dims, i)) window.push_back(input.dims[static_cast<size_t>(i)]);
  require(window.size() == d.update_window_dims.size(), op, "update_window_dims needs one number for each kept dimension: ", to_string(d.update_window_dims),
          ", kept: ", window.size());
  size_t w = 0, b = 0;
  for (int64_t i = 0; i < update.rank(); ++i) {
    const int64_t size = update.dims[static_cast<size_t>(i)];
    if (contains(d.update_window_dims, i))
      require(size <= window[w++], op, "the update window is larger than the input: ", to_string(update), " and ", to_string(input));
    else
      require(size == batch[b++], op, "updates and indices differ in shape: ", to_string(update), " and ", to_string(indices));
  }
}

Types scatter(const OpView& op) {
  const size_t n = op.operands.size() / 2;
  require(op.operands.size() % 2 == 1 && n >= 1, op, "inputs, indices and as many updates are needed; operands: ", op.operands.size());
  require_tensors(op);
  require_regions(op, 1);
  const ScatterDims d = scatter_dims(op.attrs);
  const Type& indices = op.type(n);
  require_dims(op, "inserted_window_dims", d.inserted_window_dims, op.type(0).rank());
  require_dims(op, "input_batching_dims", d.input_batching_dims, op.type(0).rank());
  require_dims(op, "scatter_dims_to_operand_dims", d.scatter_dims_to_operand_dims, op.type(0).rank());
  require(static_cast<int64_t>(d.scatter_dims_to_operand_dims.size()) == index_length(indices, d.index_vector_dim), op,
          "scatter_dims_to_operand_dims needs one number an index: ", to_string(d.scatter_dims_to_operand_dims), ", indices: ", to_string(indices));
  require(d.input_batching_dims.size() == d.scatter_indices_batching_dims.size(), op,
          "batching dimensions differ in number: ", to_string(d.input_batching_dims), " and ", to_string(d.scatter_indices_batching_dims));
  const std::vector<Type> stored = region_results(op, 0);
  require(stored.size() == n, op, "the region must return one value an input; returned: ", stored.size(), ", inputs: ", n);
  std::vector<Type> results;
  for (size_t i = 0; i < n; ++i) {
    require(op.type(i).dims == op.type(0).dims && op.type(n + 1 + i).dims == op.type(n + 1).dims, op, "inputs or updates differ in shape");
    check_scatter_update(op, d, op.type(i), indices, op.type(n + 1 + i));
    results.push_back(op.type(i));
    results.back().dtype = stored[i].dtype;
  }
  return results;
}

}  // namespace

ShapeRule movement_rule(OpCode code) {
  switch (code) {
    case OpCode::Constant:
      return constant;
    case OpCode::Iota:
      return iota;
    case OpCode::Rng:
      return rng;
    case OpCode::RngBitGenerator:
      return rng_bit_generator;
    case OpCode::BroadcastInDim:
      return broadcast_in_dim;
    case OpCode::Concatenate:
      return concatenate;
    case OpCode::DynamicSlice:
      return dynamic_slice;
    case OpCode::DynamicUpdateSlice:
      return dynamic_update_slice;
    case OpCode::Gather:
      return gather;
    case OpCode::Pad:
      return pad;
    case OpCode::Reshape:
      return reshape;
    case OpCode::Reverse:
      return reverse;
    case OpCode::Scatter:
      return scatter;
    case OpCode::Slice:
      return slice;
    case OpCode::Transpose:
      return transpose;
    default:
      return nullptr;
  }
}

}  // namespace thalweg::ir
