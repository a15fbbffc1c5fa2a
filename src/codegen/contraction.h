// Elements of products, convolutions and windows, for the nest that reduces over their inner loops.
#pragma once

#include <vector>

#include "codegen/expression.h"
#include "codegen/reducer.h"

namespace thalweg::codegen {

// One element to be reduced for each of the op's results: element `out` (row-major) of the result at position `inner` of the reduced loops.
std::vector<Scalar> contraction_elements(Emitter& emitter, const ir::Op& op, const Index& out, const std::vector<Index>& inner);
// How the elements are reduced; nothing for a window with a region of another form.
std::optional<Reducer> contraction_reducer(const ir::Op& op);

}  // namespace thalweg::codegen
