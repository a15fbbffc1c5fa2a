// A picture of a function: its kernels, products and calls as boxes with their ops inside, joined by the values that pass between them.
#pragma once

#include <span>
#include <string>

#include "compiler/outline.h"

namespace thalweg::tools_cli {

// A self-contained SVG document. Boxes stand in layers, producers above users; a line of a box is one op, with result, operands and type. An op of no
// group stands in every box that reads it, grey and slanted when there are several, for each computes it anew.
std::string graph_svg(const ir::Function& function, std::span<const compiler::OutlineGroup> groups);

}  // namespace thalweg::tools_cli
