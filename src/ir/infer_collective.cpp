// Shape rules of ops that talk to other devices.
#include "ir/infer.h"

namespace thalweg::ir {
namespace {

using Types = std::optional<std::vector<Type>>;

std::vector<Type> operand_types(const OpView& op) {
  require(!op.operands.empty(), op, "at least one operand is needed");
  require_tensors(op);
  std::vector<Type> types;
  for (const Value* value : op.operands) types.push_back(value->type);
  return types;
}

Types same(const OpView& op) { return operand_types(op); }

Types reduced(const OpView& op) {
  require_regions(op, 1);
  std::vector<Type> types = operand_types(op);
  const std::vector<Type> returned = region_results(op, 0);
  require(returned.size() == 1, op, "the region must return one value; returned: ", returned.size());
  for (Type& type : types) type.dtype = returned[0].dtype;
  return types;
}

// The declared result, equal to operand 0 but for dimension `dim`, must be `factor` times longer or shorter with a whole factor.
Types resized(const OpView& op, const char* attribute, bool grows) {
  const std::vector<Type> types = operand_types(op);
  const int64_t dim = op.attrs.integer(attribute);
  require(op.declared && op.declared->size() == types.size(), op, "one result an operand is needed");
  for (size_t i = 0; i < types.size(); ++i) {
    const Type& to = (*op.declared)[i];
    require(dim >= 0 && dim < types[i].rank() && to.rank() == types[i].rank(), op, "dimension out of range: ", dim, ", operand: ", to_string(types[i]));
    for (int64_t k = 0; k < to.rank(); ++k) {
      const int64_t before = types[i].dims[static_cast<size_t>(k)], after = to.dims[static_cast<size_t>(k)];
      const int64_t longer = grows ? after : before, shorter = grows ? before : after;
      require(k == dim ? (shorter == 0 ? longer == 0 : longer % shorter == 0) : before == after, op,
              "result shape does not follow from the operand's: ", to_string(types[i]), " and ", to_string(to));
    }
  }
  return std::nullopt;
}

Types all_gather(const OpView& op) { return resized(op, "all_gather_dim", true); }
Types reduce_scatter(const OpView& op) { return resized(op, "scatter_dimension", false); }

Types all_to_all(const OpView& op) {
  std::vector<Type> types = operand_types(op);
  const int64_t split = op.attrs.integer("split_dimension"), concat = op.attrs.integer("concat_dimension"), count = op.attrs.integer("split_count");
  for (Type& type : types) {
    require(split >= 0 && split < type.rank() && concat >= 0 && concat < type.rank(), op, "dimension out of range: ", split, " and ", concat,
            ", operand: ", to_string(type));
    require(count > 0 && type.dims[static_cast<size_t>(split)] % count == 0, op, "the split dimension is not divisible by the count: ", to_string(type),
            ", count: ", count);
    type.dims[static_cast<size_t>(split)] /= count;
    type.dims[static_cast<size_t>(concat)] = bounded_product(type.dims[static_cast<size_t>(concat)], count);
    checked_size(op, type.dims);
  }
  return types;
}

Types identifier(const OpView& op) {
  require_operands(op, 0);
  return {{tensor(DType::U32)}};
}

}  // namespace

ShapeRule collective_rule(OpCode code) {
  switch (code) {
    case OpCode::AllReduce:
    case OpCode::CollectiveReduce:
      return reduced;
    case OpCode::CollectiveBroadcast:
    case OpCode::CollectivePermute:
    case OpCode::CrossReplicaSum:
      return same;
    case OpCode::AllGather:
      return all_gather;
    case OpCode::ReduceScatter:
      return reduce_scatter;
    case OpCode::AllToAll:
      return all_to_all;
    case OpCode::PartitionId:
    case OpCode::ReplicaId:
      return identifier;
    default:
      return nullptr;
  }
}

}  // namespace thalweg::ir
