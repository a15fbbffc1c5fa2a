// Edits of function bodies.
#include "compiler/rewrite.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace thalweg::compiler {
namespace {

using ir::Op;
using ir::Value;
using Mapping = std::unordered_map<const Value*, Value*>;

void replace_in_block(ir::Block& block, const Mapping& map);

void replace_operands(Op& op, const Mapping& map) {
  for (Value*& operand : op.operands)
    if (auto it = map.find(operand); it != map.end()) operand = it->second;
  for (auto& region : op.regions) replace_in_block(*region, map);
}

void replace_in_block(ir::Block& block, const Mapping& map) {
  for (auto& op : block.ops) replace_operands(*op, map);
}

void collect(const ir::Block& block, std::unordered_set<const Value*>& inside, std::vector<Value*>& outside) {
  for (const auto& arg : block.args) inside.insert(arg.get());
  for (const auto& op : block.ops) {
    for (Value* operand : op->operands)
      if (!inside.count(operand) && std::find(outside.begin(), outside.end(), operand) == outside.end()) outside.push_back(operand);
    for (const auto& region : op->regions) collect(*region, inside, outside);
    for (const auto& result : op->results) inside.insert(result.get());
  }
}

}  // namespace

void rewrite(ir::Function& function, const std::function<std::vector<Value*>(ir::Builder&, Op&)>& visit) {
  std::vector<std::unique_ptr<Op>> old = std::move(function.body.ops);
  function.body.ops.clear();
  ir::Builder builder(function.body);
  Mapping map;
  std::vector<std::unique_ptr<Op>> replaced;
  for (auto& op : old) {
    replace_operands(*op, map);
    builder.location = op->location;
    builder.group = op->group;
    std::vector<Value*> values = visit(builder, *op);
    if (values.empty()) {
      function.body.ops.push_back(std::move(op));
      continue;
    }
    for (size_t i = 0; i < values.size(); ++i) map[op->result(i)] = values[i];
    replaced.push_back(std::move(op));
  }
}

std::vector<Value*> captured_values(const Op& op) {
  std::unordered_set<const Value*> inside;
  std::vector<Value*> outside;
  for (const auto& region : op.regions) collect(*region, inside, outside);
  return outside;
}

std::unique_ptr<ir::Function> isolate(const Op& op, std::vector<const Value*>& sources) {
  auto function = std::make_unique<ir::Function>();
  function->name = "main";
  Mapping map;
  std::vector<Value*> operands;
  for (Value* operand : op.operands) {
    operands.push_back(function->body.add_arg(operand->type));
    sources.push_back(operand);
  }
  for (Value* value : captured_values(op)) {
    map[value] = function->body.add_arg(value->type);
    sources.push_back(value);
  }
  std::vector<std::unique_ptr<ir::Block>> regions;
  for (const auto& region : op.regions) {
    regions.push_back(ir::clone(*region));
    replace_in_block(*regions.back(), map);
  }
  std::vector<ir::Type> types;
  for (const auto& result : op.results) types.push_back(result->type);
  ir::Builder builder(function->body);
  Op* copy = builder.make(op.code, std::move(operands), op.attrs, std::move(types), std::move(regions));
  std::vector<Value*> results;
  for (const auto& result : copy->results) results.push_back(result.get());
  builder.ret(std::move(results));
  return function;
}

std::unique_ptr<ir::Function> region_function(const ir::Block& region, const std::vector<Value*>& captured) {
  auto function = std::make_unique<ir::Function>();
  function->name = "main";
  std::unique_ptr<ir::Block> copy = ir::clone(region);
  function->body = std::move(*copy);
  Mapping map;
  for (Value* value : captured) map[value] = function->body.add_arg(value->type);
  replace_in_block(function->body, map);
  for (auto& arg : function->body.args) arg->block = &function->body;
  return function;
}

}  // namespace thalweg::compiler
