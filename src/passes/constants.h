// Reading constants.
#pragma once

#include <optional>

#include "ir/graph.h"

namespace thalweg::passes {

// The literal of a value that is a constant op's result, else null.
const ir::Literal* constant_of(const ir::Value* value);
// The literal when all its elements are one (it has one element, or is a splat), else null.
const ir::Literal* uniform_of(const ir::Value* value);
// That element as a number; nothing when there is none. Complex numbers and 64-bit integers that a double cannot hold give nothing.
std::optional<double> uniform_number(const ir::Value* value);
// A splat of `type` with the bits of element 0 of `element`; the dtypes agree.
ir::LiteralPtr splat_of(const ir::Type& type, const ir::Literal& element);
// The same tensor, as a splat when all its elements have the same bits.
ir::LiteralPtr compact(ir::Literal literal);
// True for a constant whose every element is `number`, sign of zero included.
bool is_uniform(const ir::Value* value, double number);

}  // namespace thalweg::passes
