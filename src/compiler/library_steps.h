// Steps of ops that a library computes whole: Fourier transforms, Cholesky factors, triangular systems.
#pragma once

#include "compiler/steps.h"

namespace thalweg::compiler {

// Appends the step of `op` and returns true, or returns false when the op is none of these or has element types that the libraries do not take.
bool add_library_step(const ir::Op& op, std::vector<Step>& steps);

}  // namespace thalweg::compiler
