// Kinds of ops by op code and attribute.
#include "passes/op_kinds.h"

#include <algorithm>

namespace thalweg::passes {
namespace {

using ir::OpCode;

bool any_inside(const ir::Op& op, bool (*test)(const ir::Op&)) {
  return std::any_of(op.regions.begin(), op.regions.end(),
                     [&](const auto& region) { return std::any_of(region->ops.begin(), region->ops.end(), [&](const auto& inner) { return test(*inner); }); });
}

}  // namespace

bool is_elementwise(const ir::Op& op) {
  switch (op.code) {
#define THALWEG_OP(name, text, form)
#define THALWEG_UNARY(name, text, cls, expression) case OpCode::name:
#define THALWEG_BINARY(name, text, cls, expression) case OpCode::name:
#include "ir/ops.def"
#undef THALWEG_OP
#undef THALWEG_UNARY
#undef THALWEG_BINARY
    case OpCode::Convert:
    case OpCode::Real:
    case OpCode::Imag:
    case OpCode::IsFinite:
    case OpCode::ReducePrecision:
    case OpCode::Compare:
    case OpCode::Select:
    case OpCode::Clamp:
    case OpCode::Complex:
      return true;
    default:
      return false;
  }
}

bool has_side_effects(const ir::Op& op) {
  switch (op.code) {
    case OpCode::CustomCall:
      // Checks raise errors; without a declaration a call is taken to be what it looks like, a function of its operands.
      return op.attrs.boolean("has_side_effect", false) || op.attrs.string("call_target_name", "").starts_with("thalweg.check_");
    case OpCode::Infeed:
    case OpCode::Outfeed:
    case OpCode::Send:
    case OpCode::Recv:
    case OpCode::AsyncStart:
    case OpCode::AsyncDone:
    case OpCode::AllGather:
    case OpCode::AllReduce:
    case OpCode::AllToAll:
    case OpCode::CollectiveBroadcast:
    case OpCode::CollectivePermute:
    case OpCode::CollectiveReduce:
    case OpCode::CrossReplicaSum:
    case OpCode::ReduceScatter:
    case OpCode::Call:  // the callee is not looked into
      return true;
    default:
      return any_inside(op, has_side_effects);
  }
}

bool is_repeatable(const ir::Op& op) {
  if (op.code == OpCode::Rng || op.code == OpCode::OptimizationBarrier || has_side_effects(op)) return false;
  return !any_inside(op, [](const ir::Op& inner) { return !is_repeatable(inner); });
}

}  // namespace thalweg::passes
