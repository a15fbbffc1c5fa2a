// The slow way for ops without a kernel: one op on the reference interpreter.
#pragma once

#include "compiler/heavy.h"

namespace thalweg::compiler {

// Appends a step that runs `op` on the interpreter; listed among the executable's opaque calls as "interpreter:NAME". Throws Error(Unsupported) when the
// interpreter cannot run it either.
void add_interpreted(const ir::Op& op, const HeavyContext& context, std::vector<Step>& steps);

}  // namespace thalweg::compiler
