// Small edits of a function's body for the passes of this folder.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "ir/builder.h"

namespace thalweg::compiler {

// Rebuilds the body: `visit` is called for each op in order with a builder at that place; where it returns values they replace the op's results,
// where it returns nothing the op stays. Operands already name the replacements.
void rewrite(ir::Function& function, const std::function<std::vector<ir::Value*>(ir::Builder&, ir::Op&)>& visit);

// Values used inside the regions of `op` but defined outside of them, in order of first use.
std::vector<ir::Value*> captured_values(const ir::Op& op);

// A function of one op: its operands, then what its regions capture, become arguments; its results the results. `sources` gets the values that the
// arguments stand for.
std::unique_ptr<ir::Function> isolate(const ir::Op& op, std::vector<const ir::Value*>& sources);
// A region as a function: its arguments, then `captured` values.
std::unique_ptr<ir::Function> region_function(const ir::Block& region, const std::vector<ir::Value*>& captured);

}  // namespace thalweg::compiler
