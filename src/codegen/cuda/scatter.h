// Scatters on GPUs: updates are sorted by place, so that all of one place are put together in their order, whatever the threads do.
#pragma once

#include <vector>

#include "codegen/nest.h"

namespace thalweg::codegen::cuda {

// The texts of a scatter whose results already hold the operands' elements, to be run in order. Args of each: indices, updates, results, temporaries, or part
// of these. Sums of long runs of equal places are put together from parts of runs, by shape alone.
std::vector<NestCode> write_scatter(const ir::Op& op);

// The text of a select_and_scatter, with the args of its kernel on the CPU: a thread an element, which looks for the windows that choose it.
NestCode write_select_and_scatter(const ir::Op& op);

}  // namespace thalweg::codegen::cuda
