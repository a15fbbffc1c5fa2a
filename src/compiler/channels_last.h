// Images and volumes whose channels lie last in memory stay so through the ops between convolutions.
#pragma once

#include <vector>

#include "ir/builder.h"

namespace thalweg::compiler {

// The order in which dims [batch, channels, space…] lie in memory with channels last: 0, 2, …, 1.
ir::Dims channels_last(size_t rank);

// To be called for each op of a function in order. When an operand is a transpose from channels last and the op is elementwise or one that moves, pads, joins
// or reduces, gives the op's results as transposes of the same op over what lies channels last; else nothing. Other operands are transposed for it.
std::vector<ir::Value*> keep_channels_last(ir::Builder& b, ir::Op& op);

}  // namespace thalweg::compiler
