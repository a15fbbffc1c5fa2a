// Records the operations of lazy::rows() instead of running them.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "aten/torch_headers.h"

namespace thalweg::aten {

// Records self.copy_(source), both on the device, sizes equal. False (and nothing done) when it cannot be traced: high ranks, dtypes without lowering.
bool trace_copy(const at::Tensor& self, const at::Tensor& source);

// Traced calls by operation name ("aten::add"), since the last clear.
std::map<std::string, int64_t> traced_counts();
void clear_traced_counts();

}  // namespace thalweg::aten
