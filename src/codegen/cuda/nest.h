// Nests as kernel bodies for GPUs: groups of threads that take a row, a block of columns or a few neighbouring elements together.
#pragma once

#include <functional>
#include <vector>

#include "codegen/nest.h"

namespace thalweg::codegen::cuda {

// The nests that compute what `nest` does, in order: more than one where a row is so long, and rows so few, that each reduction over it is better done by the
// whole GPU before anything uses it. Members of one are buffers to the next. `multiprocessors`: of the GPU.
std::vector<Nest> pieces(const Nest& nest, const std::function<bool(const ir::Value*)>& is_buffer, int multiprocessors);

// The body of a function (void* const* args, int64_t begin, int64_t end, int lane, char* shared) over units; all `lanes` threads of a group call it with the
// same units and with `shared_bytes` of shared memory of their own. Needs kGroupText before it. Reductions are put together in an order that depends on the
// shapes alone, so equal runs give equal bits. Throws NotFusable as codegen::write_nest does.
NestCode write_nest(const Nest& nest, const std::function<bool(const ir::Value*)>& is_buffer, int multiprocessors);

// Likewise the body that merges `partial` (args: partial, result, and the initial value unless it is a constant).
NestCode write_combine(const NestPartial& partial, const ir::Value* initial);

}  // namespace thalweg::codegen::cuda
