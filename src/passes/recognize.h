// Composites in plain programs.
#pragma once

#include "ir/graph.h"

namespace thalweg::passes {

// Replaces what other frameworks wrote out in plain ops by the composite of decompose.h that means it: softmax and log_softmax over one dim, layer_norm with
// its weight and bias, gelu in its erf, erfc and tanh forms, and, of these softmaxes, attention (one head dim order after another, scaled, without a mask).
// Works on simplified functions. Results agree within rounding. Only what nothing outside of the pattern reads is replaced: a training step whose backward pass
// reads the powers or the normalised input keeps them, since a composite would compute them twice. For backends with kernels for these names.
bool recognize(ir::Function& function, const ir::Module* module = nullptr);

}  // namespace thalweg::passes
