// Calls replaced by the bodies of their callees.
#pragma once

#include "ir/graph.h"

namespace thalweg::passes {

// Inlines every `call` and every composite that names a decomposition of `module` (except thalweg's own composites, which decompose() knows), however deep.
// Throws Error(Verify) when there is a callee that does not exist, or a call without a module.
bool inline_calls(ir::Function& function, const ir::Module* module);

}  // namespace thalweg::passes
