// Common subexpression elimination.
#pragma once

#include "ir/graph.h"

namespace thalweg::passes {

// Replaces an op by an earlier equal one of the same block and the same Op::group (constants and iotas: of any group), so that what the backward pass
// recomputes on purpose stays recomputed. Operands of commutative ops may be in either order. Ops with side effects and random ops are never merged.
bool cse(ir::Function& function, const ir::Module* module = nullptr);

}  // namespace thalweg::passes
