// Constant folding: a function of the one op, run by the interpreter.
#include "passes/fold.h"

#include <algorithm>

#include "interp/interpreter.h"
#include "passes/constants.h"
#include "passes/op_kinds.h"
#include "passes/rewriter.h"
#include "support/error.h"

namespace thalweg::passes {
namespace {

using ir::Op;
using ir::OpCode;
using ir::Value;

constexpr int64_t kMostElements = 64;
constexpr int64_t kMostOperandElements = 4096;

bool is_foldable(const Op& op) {
  if (op.operands.empty() || op.results.empty() || !is_repeatable(op)) return false;
  if (op.code == OpCode::CustomCall || op.code == OpCode::Composite || op.code == OpCode::Call || op.code == OpCode::While ||
      op.code == OpCode::RngBitGenerator)
    return false;
  for (const Value* operand : op.operands)
    if (!operand->type.is_tensor() || !constant_of(operand)) return false;
  return std::all_of(op.results.begin(), op.results.end(), [](const auto& r) { return r->type.is_tensor(); });
}

// True when no region of `op` uses values from outside of it.
bool is_closed(const Op& op) {
  for (const auto& region : op.regions) {
    for (const auto& inner : region->ops) {
      if (!inner->regions.empty()) return false;
      for (const Value* operand : inner->operands) {
        bool own = operand->block == region.get() ||
                   (operand->def && std::any_of(region->ops.begin(), region->ops.end(), [&](const auto& other) { return other.get() == operand->def; }));
        if (!own) return false;
      }
    }
  }
  return true;
}

// A copy of a region that is_closed().
std::unique_ptr<ir::Block> copy_region(const ir::Block& region) {
  auto copy = std::make_unique<ir::Block>();
  Mapping map;
  for (const auto& arg : region.args) map[arg.get()] = copy->add_arg(arg->type);
  ir::Builder builder(*copy);
  for (const auto& op : region.ops) {
    std::vector<Value*> operands;
    for (Value* operand : op->operands) operands.push_back(map.at(operand));
    std::vector<ir::Type> types;
    for (const auto& result : op->results) types.push_back(result->type);
    Op* made = builder.make(op->code, std::move(operands), op->attrs, std::move(types));
    for (size_t i = 0; i < made->results.size(); ++i) map[op->result(i)] = made->result(i);
  }
  return copy;
}

// The op alone in a function of its operands, with the given operand and result shapes.
std::vector<ir::Literal> evaluate(const Op& op, const std::vector<ir::Literal>& inputs, const std::vector<ir::Type>& results) {
  ir::Function function;
  function.name = "fold";
  std::vector<Value*> args;
  for (const ir::Literal& input : inputs) args.push_back(function.body.add_arg(input.type));
  std::vector<std::unique_ptr<ir::Block>> regions;
  for (const auto& region : op.regions) regions.push_back(copy_region(*region));
  ir::Builder builder(function.body);
  Op* made = builder.make(op.code, args, op.attrs, results, std::move(regions));
  std::vector<Value*> values;
  for (const auto& result : made->results) values.push_back(result.get());
  builder.ret(values);
  return interp::run(function, inputs);
}

// One element in, one element out, repeated.
Replacement fold_uniform(ir::Builder& builder, const Op& op) {
  std::vector<ir::Literal> inputs;
  for (const Value* operand : op.operands) {
    const ir::Literal* literal = uniform_of(operand);
    if (!literal) return {};
    ir::Literal one(ir::tensor(operand->type.dtype));
    std::copy_n(literal->data.begin(), one.data.size(), one.data.begin());
    inputs.push_back(std::move(one));
  }
  const ir::Type& type = op.result()->type;
  auto values = evaluate(op, inputs, {ir::tensor(type.dtype)});
  return {builder.constant(splat_of(type, values.at(0)))};
}

Replacement fold_small(ir::Builder& builder, const Op& op) {
  for (const auto& result : op.results)
    if (result->type.size() > kMostElements) return {};
  std::vector<ir::Literal> inputs;
  for (const Value* operand : op.operands) {
    if (operand->type.size() > kMostOperandElements) return {};
    inputs.push_back(*constant_of(operand));
  }
  std::vector<ir::Type> types;
  for (const auto& result : op.results) types.push_back(result->type);
  Replacement values;
  for (ir::Literal& literal : evaluate(op, inputs, types)) values.push_back(builder.constant(compact(std::move(literal))));
  return values;
}

}  // namespace

bool fold(ir::Function& function, const ir::Module*) {
  return rewrite(function.body, [](ir::Builder& builder, Op& op) -> Replacement {
    if (!is_foldable(op) || !is_closed(op)) return {};
    try {
      if (is_elementwise(op)) {
        if (Replacement values = fold_uniform(builder, op); !values.empty()) return values;
      }
      return fold_small(builder, op);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::Unsupported) return {};  // ops that are only parsed
      throw;
    }
  });
}

}  // namespace thalweg::passes
