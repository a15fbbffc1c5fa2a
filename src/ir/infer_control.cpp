// Shape rules of control flow, tuples and tokens.
#include "ir/infer.h"

namespace thalweg::ir {
namespace {

using Types = std::optional<std::vector<Type>>;

std::vector<Type> operand_types(const OpView& op) {
  std::vector<Type> types;
  for (const Value* value : op.operands) types.push_back(value->type);
  return types;
}

Types pass_through(const OpView& op) { return operand_types(op); }

void require_arguments(const OpView& op, size_t region, const std::vector<Type>& types) {
  const Block& block = *op.regions[region];
  require(block.args.size() == types.size(), op, "region ", region, " has another number of arguments than there are values: ", block.args.size(), " and ",
          types.size());
  for (size_t i = 0; i < types.size(); ++i)
    require(block.args[i]->type == types[i], op, "region ", region, " argument ", i, " has another type than its value: ", to_string(block.args[i]->type),
            " and ", to_string(types[i]));
}

Types while_loop(const OpView& op) {
  require_regions(op, 2);
  const std::vector<Type> types = operand_types(op);
  require_arguments(op, 0, types);
  require_arguments(op, 1, types);
  const std::vector<Type> verdict = region_results(op, 0), next = region_results(op, 1);
  require(verdict.size() == 1 && verdict[0] == tensor(DType::I1), op, "the condition must return one tensor<i1>");
  require(next.size() == types.size(), op, "the body returns another number of values than it takes: ", next.size(), " and ", types.size());
  for (size_t i = 0; i < types.size(); ++i)
    require(next[i] == types[i], op, "the body changes the type of value ", i, ": ", to_string(types[i]), " and ", to_string(next[i]));
  return types;
}

// All branches return the same types.
std::vector<Type> branch_results(const OpView& op) {
  require(!op.regions.empty(), op, "at least one branch is needed");
  const std::vector<Type> types = region_results(op, 0);
  for (size_t i = 0; i < op.regions.size(); ++i) {
    require(op.regions[i]->args.empty(), op, "branches take no arguments; branch: ", i);
    require(region_results(op, i) == types, op, "branches return different types; branch: ", i);
  }
  return types;
}

Types if_else(const OpView& op) {
  require_operands(op, 1);
  require_regions(op, 2);
  require(op.type(0) == tensor(DType::I1), op, "the predicate must be tensor<i1>: ", to_string(op.type(0)));
  return branch_results(op);
}

Types case_of(const OpView& op) {
  require_operands(op, 1);
  require(op.type(0) == tensor(DType::S32), op, "the index must be tensor<i32>: ", to_string(op.type(0)));
  return branch_results(op);
}

Types make_tuple(const OpView& op) {
  Type type;
  type.kind = Type::Kind::Tuple;
  type.elements = operand_types(op);
  return {{type}};
}

Types get_tuple_element(const OpView& op) {
  require_operands(op, 1);
  const Type& type = op.type(0);
  const int64_t index = op.attrs.integer("index");
  require(type.kind == Type::Kind::Tuple && index >= 0 && index < static_cast<int64_t>(type.elements.size()), op, "no such element: ", index, " of ",
          to_string(type));
  return {{type.elements[static_cast<size_t>(index)]}};
}

Types one_token(const OpView& op) { return {{token()}}; }

Types no_results(const OpView& op) { return std::vector<Type>{}; }

}  // namespace

ShapeRule control_rule(OpCode code) {
  switch (code) {
    case OpCode::While:
      return while_loop;
    case OpCode::If:
      return if_else;
    case OpCode::Case:
      return case_of;
    case OpCode::OptimizationBarrier:
      return pass_through;
    case OpCode::Tuple:
      return make_tuple;
    case OpCode::GetTupleElement:
      return get_tuple_element;
    case OpCode::AfterAll:
    case OpCode::CreateToken:
    case OpCode::Outfeed:
      return one_token;
    case OpCode::Return:
      return no_results;
    default:
      return nullptr;
  }
}

}  // namespace thalweg::ir
