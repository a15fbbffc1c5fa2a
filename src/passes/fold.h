// Constant folding.
#pragma once

#include "ir/graph.h"

namespace thalweg::passes {

// Computes ops whose operands are all constants with the interpreter, when their results have at most 64 elements; and elementwise ops of uniform constants of
// any size, whose results stay splats. Random and effectful ops stay.
bool fold(ir::Function& function, const ir::Module* module = nullptr);

}  // namespace thalweg::passes
