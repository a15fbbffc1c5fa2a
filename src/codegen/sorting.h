// Kernels of sort: one row a unit, ordered by a stable merge sort of positions.
#pragma once

#include "codegen/nest.h"

namespace thalweg::codegen {

// True for sorts with element types that kernels take and a comparator of elementwise ops over its own arguments.
bool is_sort(const ir::Op& op);
// The kernel. Args: operands, results, and positions as scratch (role Partial, no value). Merges as the interpreter does, so that even a comparator that is no
// order gives the same result.
NestCode write_sort(const ir::Op& op);

}  // namespace thalweg::codegen
