// Rebuilds a block op by op; replaced ops are dropped at the end, when nothing can name them any more.
#include "passes/rewriter.h"

#include "support/error.h"

namespace thalweg::passes {
namespace {

using ir::Op;
using ir::Value;

bool rewrite_block(ir::Block& block, const Visit& visit, Mapping& map) {
  std::vector<std::unique_ptr<Op>> old = std::move(block.ops), replaced;
  block.ops.clear();
  block.ops.reserve(old.size());
  ir::Builder builder(block);
  bool changed = false;
  for (auto& op : old) {
    for (Value*& operand : op->operands)
      if (auto found = map.find(operand); found != map.end()) operand = found->second;
    for (auto& region : op->regions) changed |= rewrite_block(*region, visit, map);
    builder.location = op->location;
    builder.group = op->group;
    Replacement values = visit(builder, *op);
    if (values.empty()) {
      block.ops.push_back(std::move(op));
      continue;
    }
    changed = true;
    THALWEG_ASSERT(values.size() == op->results.size(), ir::name(op->code));
    for (size_t i = 0; i < values.size(); ++i) {
      THALWEG_ASSERT(values[i]->type == op->result(i)->type, ir::name(op->code), ": ", to_string(op->result(i)->type), " became ", to_string(values[i]->type));
      map[op->result(i)] = values[i];
    }
    replaced.push_back(std::move(op));
  }
  for (auto& op : replaced)
    for (auto& result : op->results) map.erase(result.get());
  return changed;
}

}  // namespace

bool rewrite(ir::Block& block, const Visit& visit) {
  Mapping map;
  return rewrite_block(block, visit, map);
}

void replace_operands(Op& op, const Mapping& map) {
  for (Value*& operand : op.operands)
    if (auto found = map.find(operand); found != map.end()) operand = found->second;
  for (auto& region : op.regions)
    for (auto& inner : region->ops) replace_operands(*inner, map);
}

}  // namespace thalweg::passes
