// Shape rules of reductions, windows, sorting, map and batch norm.
#include "ir/infer.h"

namespace thalweg::ir {
namespace {

using Types = std::optional<std::vector<Type>>;

// Operands are n tensors of one shape, then n initial values of rank 0; returns n.
size_t require_reducer(const OpView& op) {
  const size_t n = op.operands.size() / 2;
  require(n >= 1 && op.operands.size() % 2 == 0, op, "inputs and as many initial values are needed; operands: ", op.operands.size());
  require_tensors(op);
  require_regions(op, 1);
  for (size_t i = 0; i < n; ++i) {
    require(op.type(i).dims == op.type(0).dims, op, "inputs differ in shape: ", to_string(op.type(0)), " and ", to_string(op.type(i)));
    require(op.type(n + i).rank() == 0, op, "initial values must have rank 0: ", to_string(op.type(n + i)));
  }
  require(op.regions[0]->args.size() == 2 * n, op, "the region needs two arguments an input; arguments: ", op.regions[0]->args.size(), ", inputs: ", n);
  return n;
}

// One result an input, of shape `dims` and of the element type that the region returns.
std::vector<Type> reducer_results(const OpView& op, size_t n, const Dims& dims) {
  const std::vector<Type> returned = region_results(op, 0);
  require(returned.size() == n, op, "the region must return one value an input; returned: ", returned.size(), ", inputs: ", n);
  std::vector<Type> results;
  for (const Type& type : returned) {
    require(type.is_tensor() && type.rank() == 0, op, "the region must return rank-0 tensors: ", to_string(type));
    results.push_back(tensor(type.dtype, dims));
  }
  return results;
}

Types reduce(const OpView& op) {
  const size_t n = require_reducer(op);
  const Dims& dims = op.attrs.ints("dimensions");
  require_dims(op, "dimensions", dims, op.type(0).rank());
  std::vector<bool> gone(op.type(0).dims.size(), false);
  for (int64_t d : dims) gone[static_cast<size_t>(d)] = true;
  Dims kept;
  for (size_t i = 0; i < gone.size(); ++i)
    if (!gone[i]) kept.push_back(op.type(0).dims[i]);
  return reducer_results(op, n, kept);
}

Dims windowed(const OpView& op, const Type& input, const Window& w) {
  const size_t rank = input.dims.size();
  for (const Dims* member : {&w.size, &w.stride, &w.base_dilation, &w.window_dilation}) {
    require(member->size() == rank, op, "window attributes need one number a dimension: ", to_string(*member), ", rank: ", rank);
    for (int64_t v : *member) require(v > 0, op, "window sizes, strides and dilations must be positive: ", to_string(*member));
  }
  Dims dims;
  for (size_t i = 0; i < rank; ++i) {
    const int64_t padded = padded_size(w.pad_low[i], dilated(input.dims[i], w.base_dilation[i]), w.pad_high[i]);
    dims.push_back(window_positions(padded, dilated(w.size[i], w.window_dilation[i]), w.stride[i]));
  }
  return dims;
}

Types reduce_window(const OpView& op) {
  const size_t n = require_reducer(op);
  return reducer_results(op, n, windowed(op, op.type(0), window_of(op.attrs, op.type(0).rank())));
}

Types select_and_scatter(const OpView& op) {
  require_operands(op, 3);
  require_tensors(op);
  require_regions(op, 2);
  const Type &operand = op.type(0), &source = op.type(1);
  const Dims positions = windowed(op, operand, window_of(op.attrs, operand.rank()));
  require(source.dims == positions, op, "source's shape is not that of the windows: ", to_string(source), ", windows: ", to_string(positions));
  require(op.type(2).rank() == 0, op, "the initial value must have rank 0: ", to_string(op.type(2)));
  const std::vector<Type> scattered = region_results(op, 1);
  require(scattered.size() == 1, op, "the scatter region must return one value; returned: ", scattered.size());
  return {{tensor(scattered[0].dtype, operand.dims)}};
}

Types sort(const OpView& op) {
  require(!op.operands.empty(), op, "at least one operand is needed");
  require_tensors(op);
  require_regions(op, 1);
  const int64_t rank = op.type(0).rank(), dim = op.attrs.integer("dimension", -1);
  require(dim >= -rank && dim < rank, op, "dimension out of range: ", dim, ", rank: ", rank);
  require(op.regions[0]->args.size() == 2 * op.operands.size(), op, "the comparator needs two arguments an operand; arguments: ", op.regions[0]->args.size());
  const std::vector<Type> verdict = region_results(op, 0);
  require(verdict.size() == 1 && verdict[0] == tensor(DType::I1), op, "the comparator must return one tensor<i1>");
  std::vector<Type> results;
  for (size_t i = 0; i < op.operands.size(); ++i) {
    require(op.type(i).dims == op.type(0).dims, op, "operands differ in shape: ", to_string(op.type(0)), " and ", to_string(op.type(i)));
    results.push_back(op.type(i));
  }
  return results;
}

Types map(const OpView& op) {
  require(!op.operands.empty(), op, "at least one operand is needed");
  require_tensors(op);
  require_regions(op, 1);
  for (const Value* value : op.operands)
    require(value->type.dims == op.type(0).dims, op, "operands differ in shape: ", to_string(op.type(0)), " and ", to_string(value->type));
  const std::vector<Type> returned = region_results(op, 0);
  require(returned.size() == 1 && returned[0].rank() == 0, op, "the region must return one rank-0 tensor");
  return {{tensor(returned[0].dtype, op.type(0).dims)}};
}

// operand 0 has feature dimension `feature_index`; operands [1, n) are vectors of that length.
int64_t require_feature_vectors(const OpView& op, size_t end) {
  const int64_t feature = op.attrs.integer("feature_index");
  require(feature >= 0 && feature < op.type(0).rank(), op, "feature_index out of range: ", feature, ", operand: ", to_string(op.type(0)));
  const int64_t length = op.type(0).dims[static_cast<size_t>(feature)];
  for (size_t i = 1; i < end; ++i)
    require(op.type(i).dims == Dims{length}, op, "expected one number a feature; features: ", length, ", given: ", to_string(op.type(i)));
  return length;
}

Types batch_norm_inference(const OpView& op) {
  require_operands(op, 5);
  require_tensors(op);
  require_feature_vectors(op, 5);
  return {{op.type(0)}};
}

Types batch_norm_training(const OpView& op) {
  require_operands(op, 3);
  require_tensors(op);
  const Type vector = tensor(op.type(1).dtype, {require_feature_vectors(op, 3)});
  return {{op.type(0), vector, vector}};
}

Types batch_norm_grad(const OpView& op) {
  require_operands(op, 5);
  require_tensors(op);
  const Type vector = tensor(op.type(1).dtype, {require_feature_vectors(op, 4)});
  require(op.type(4).dims == op.type(0).dims, op, "operand and gradient differ in shape: ", to_string(op.type(0)), " and ", to_string(op.type(4)));
  return {{op.type(0), vector, vector}};
}

}  // namespace

ShapeRule reduction_rule(OpCode code) {
  switch (code) {
    case OpCode::Reduce:
      return reduce;
    case OpCode::ReduceWindow:
      return reduce_window;
    case OpCode::SelectAndScatter:
      return select_and_scatter;
    case OpCode::Sort:
      return sort;
    case OpCode::Map:
      return map;
    case OpCode::BatchNormInference:
      return batch_norm_inference;
    case OpCode::BatchNormTraining:
      return batch_norm_training;
    case OpCode::BatchNormGrad:
      return batch_norm_grad;
    default:
      return nullptr;
  }
}

}  // namespace thalweg::ir
