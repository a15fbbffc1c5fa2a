// Checks that a program keeps the rules of its ops.
#pragma once

#include "ir/graph.h"

namespace thalweg::ir {

// Throws Error(Verify) naming the op, the rule and the values, with the op's location when it has one. Checked: every operand is defined before its use and
// visible there, every op's shape rule (types with dynamic or quantized parts are skipped), one return at the end of each region, callees exist with fitting
// types and do not call themselves.
void verify(const Module& module);
// Without a module, calls are an error.
void verify(const Function& function, const Module* module = nullptr);

}  // namespace thalweg::ir
