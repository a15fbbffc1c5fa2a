// Identities: ops that do nothing, undo each other, or have a simpler form.
#pragma once

#include "ir/graph.h"

namespace thalweg::passes {

// One walk over the function, operands first. Every rule keeps results bit for bit (NaN payloads aside): x + 0 stays for floats because of -0, but x - 0, x * 1
// and x / 2^k become x, x and x * 2^-k.
bool canonicalize(ir::Function& function, const ir::Module* module = nullptr);

}  // namespace thalweg::passes
