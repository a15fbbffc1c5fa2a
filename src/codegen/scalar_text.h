// Scalars as C++ text: type names, literals, and the expressions of ops.def.
#pragma once

#include <span>
#include <string>

#include "ir/graph.h"

namespace thalweg::codegen {

// The C++ type of one element in kernels, e.g. "float", "bf16_t", "bool". Throws Error(Unsupported) for types that kernels do not take.
std::string scalar_type(ir::DType dtype);
// True when kernels can hold this element type.
bool has_scalar_type(ir::DType dtype);
// Element `i` of the literal, as an expression of exactly its type and bits.
std::string literal_text(const ir::Literal& literal, int64_t i);

// The expression of an elementwise op over operands that are already scalars, whose texts are `operands`; `op` gives code, attributes and types.
// Empty when `op` is not elementwise.
std::string elementwise_text(const ir::Op& op, std::span<const std::string> operands);
bool is_elementwise(const ir::Op& op);
// Rough cost of one result element: 1 for an addition, about 10 for a transcendental function.
int cost(const ir::Op& op);

}  // namespace thalweg::codegen
