// Kernels of scatter and select_and_scatter: updates in the order of the indices, so results never depend on threads.
#pragma once

#include "codegen/nest.h"

namespace thalweg::codegen {

// True for the ops of this file with element types that kernels take.
bool is_scatter(const ir::Op& op);
// The kernel of a scatter whose results already hold the operands' elements. Args: indices, updates, results.
NestCode write_scatter(const ir::Op& op);
// The kernel of a select_and_scatter. Args: operand, source, result; and the initial value unless it is a constant.
NestCode write_select_and_scatter(const ir::Op& op);

}  // namespace thalweg::codegen
