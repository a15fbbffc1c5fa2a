// Kernels of sort: one row a unit, ordered by a stable merge sort of positions.
#pragma once

#include <string>

#include "codegen/nest.h"

namespace thalweg::codegen {

// True for sorts with element types that kernels take and a comparator of elementwise ops over its own arguments.
bool is_sort(const ir::Op& op);
// The kernel. Args: operands, results, and positions as scratch (role Partial, no value). Merges as the interpreter does, so that even a comparator that is no
// order gives the same result.
NestCode write_sort(const ir::Op& op);

// The rows of the sorted dimension: their length and the step between neighbours.
struct SortRows {
  int64_t length = 1, stride = 1;
};
SortRows sort_rows(const ir::Op& op);
// Text of a lambda `less(i, j)`: whether element i of the row at `base` comes before element j, read from the pointers p0, p1, … of the operands; `invariant`
// gets what belongs before all rows.
std::string comparator_text(const ir::Op& op, int64_t stride, std::string& invariant);

}  // namespace thalweg::codegen
