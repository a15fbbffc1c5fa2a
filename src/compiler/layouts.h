// Moves transposes to where they cost nothing: into the products around elementwise ops.
#pragma once

#include "ir/graph.h"

namespace thalweg::compiler {

// A transposed product becomes the product of the swapped operands, also behind scaling and reshaped batches; elementwise ops of transposed values are computed
// before the transpose, which a product then reads through. Values stay the same.
void settle_layouts(ir::Function& function);

}  // namespace thalweg::compiler
