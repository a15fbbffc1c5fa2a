// The walk that rewriting passes share: visits ops in order and replaces results by other values.
#pragma once

#include <functional>
#include <unordered_map>
#include <vector>

#include "ir/builder.h"

namespace thalweg::passes {

// One value for each result of the visited op, of the same types; empty: the op stays.
using Replacement = std::vector<ir::Value*>;
using Visit = std::function<Replacement(ir::Builder& builder, ir::Op& op)>;

// Visits every op of the block, regions before the op that owns them. The builder stands before the op and carries its location and group; operands already
// name replacements, and everything defined before the op is in place, so matching may follow operands to their ops. True when something was replaced.
bool rewrite(ir::Block& block, const Visit& visit);

// `map` applied to the operands of `op` and of everything in its regions.
using Mapping = std::unordered_map<const ir::Value*, ir::Value*>;
void replace_operands(ir::Op& op, const Mapping& map);

}  // namespace thalweg::passes
