// Kernels of cumulative windows: reduce_window whose window reaches from each element to the beginning (or to the end) of its row.
#pragma once

#include <optional>

#include "codegen/nest.h"

namespace thalweg::codegen {

// The dim of a running total, its direction and extents around it.
struct Scan {
  int64_t length = 0, outer = 1, inner = 1;
  bool from_end = false;
};
// Nothing for a window that is no running total.
std::optional<Scan> scan_of(const ir::Op& op);
// True for a reduce_window of one operand, over one dim of more than 32 elements, that is a running total of an associative op.
bool is_scan(const ir::Op& op);
// The kernel, one pass over the data. Args: operand, result, and the initial value unless it is a constant. Totals from the beginning have the bits that window
// after window would have; those to the end are summed from the end.
NestCode write_scan(const ir::Op& op);

}  // namespace thalweg::codegen
