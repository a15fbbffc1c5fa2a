// What kind of op an op is, for passes: elementwise, with side effects, repeatable.
#pragma once

#include "ir/graph.h"

namespace thalweg::passes {

// True when element i of the one result depends on element i of the operands alone (select and clamp may also have rank-0 operands).
bool is_elementwise(const ir::Op& op);
// True for an op that must stay although nobody uses its results: it writes somewhere, checks something, talks to another device; or holds such an op.
bool has_side_effects(const ir::Op& op);
// False when two runs on the same operands may give two results (rng), or when the op has side effects.
bool is_repeatable(const ir::Op& op);

}  // namespace thalweg::passes
