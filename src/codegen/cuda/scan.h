// Running totals on GPUs: a group of threads goes along each row, or a thread along each column where there are enough of them.
#pragma once

#include "codegen/nest.h"

namespace thalweg::codegen::cuda {

// The text of a running total, see codegen::is_scan(), with the args of its kernel on the CPU. Sums are put together in an order that the shape decides.
NestCode write_scan(const ir::Op& op, int multiprocessors);

}  // namespace thalweg::codegen::cuda
