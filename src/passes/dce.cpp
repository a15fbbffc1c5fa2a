// Dead code elimination: one sweep from the end.
#include "passes/dce.h"

#include <algorithm>
#include <unordered_set>

#include "passes/op_kinds.h"

namespace thalweg::passes {
namespace {

using Used = std::unordered_set<const ir::Value*>;

// Removes the dead ops of `block`; what its live ops use is added to `used`.
bool sweep(ir::Block& block, Used& used) {
  bool changed = false;
  for (size_t i = block.ops.size(); i-- > 0;) {
    ir::Op& op = *block.ops[i];
    bool live = i + 1 == block.ops.size() || has_side_effects(op) ||
                std::any_of(op.results.begin(), op.results.end(), [&](const auto& r) { return used.contains(r.get()); });
    if (!live) {
      block.ops[i].reset();
      changed = true;
      continue;
    }
    for (auto& region : op.regions) changed |= sweep(*region, used);
    used.insert(op.operands.begin(), op.operands.end());
  }
  std::erase(block.ops, nullptr);
  return changed;
}

}  // namespace

bool dce(ir::Function& function, const ir::Module*) {
  Used used;
  return sweep(function.body, used);
}

}  // namespace thalweg::passes
