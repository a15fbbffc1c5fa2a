// Convolutions as products.
#pragma once

#include "ir/graph.h"

namespace thalweg::passes {

// Turns convolutions whose windows never overlap (one element, one window, or steps as long as the window: a Vision Transformer's patches and the gradient of
// their weights) into dot_general of a reshaped input. The elements of a sum come in the kernel's own order. Grouped ones stay.
bool disjoint_convolutions(ir::Function& function, const ir::Module* module = nullptr);

// The same for every other large convolution of floats too: each window is copied out of the (padded) input by gather with indices that are known, so that a
// library's product does the work. For backends without a convolution of their own; costs memory for the windows.
bool unfold_convolutions(ir::Function& function, const ir::Module* module = nullptr);

}  // namespace thalweg::passes
