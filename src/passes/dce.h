// Dead code elimination.
#pragma once

#include "ir/graph.h"

namespace thalweg::passes {

// Removes ops whose results nobody uses and that have no side effects, in regions too. Arguments stay.
bool dce(ir::Function& function, const ir::Module* module = nullptr);

}  // namespace thalweg::passes
