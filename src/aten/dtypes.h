// Element types: PyTorch's beside the IR's.
#pragma once

#include <optional>

#include "aten/torch_headers.h"
#include "ir/dtype.h"

namespace thalweg::aten {

// The IR's dtype for a PyTorch one; nothing for those that the IR has not (quantized ones, bits).
std::optional<ir::DType> ir_dtype(c10::ScalarType type);
// The same, raising TypeError for a dtype that a device tensor cannot have.
ir::DType require_ir_dtype(c10::ScalarType type);
// PyTorch's dtype for one that came from ir_dtype().
c10::ScalarType scalar_type(ir::DType dtype);
// True for dtypes whose operations are traced; the others take the fallback.
bool is_traced(c10::ScalarType type);

}  // namespace thalweg::aten
