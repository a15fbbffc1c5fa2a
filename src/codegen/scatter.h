// Kernels of scatter, select_and_scatter and small updates of large tensors: updates in the order of the indices, so results never depend on threads.
#pragma once

#include "codegen/nest.h"

namespace thalweg::codegen {

// True for the ops of this file with element types that kernels take.
bool is_scatter(const ir::Op& op);
// The kernel of a scatter whose results already hold the operands' elements. Args: indices, updates, results.
NestCode write_scatter(const ir::Op& op);
// True for a dynamic_update_slice that is small beside its operand, an argument: worth writing into a copy, which a donated argument makes needless.
bool is_small_update(const ir::Op& op);
// Its kernel, whose result already holds the operand's elements. Args: update, starts, result.
NestCode write_small_update(const ir::Op& op);
// The kernel of a select_and_scatter. Args: operand, source, result; and the initial value unless it is a constant.
NestCode write_select_and_scatter(const ir::Op& op);

}  // namespace thalweg::codegen
