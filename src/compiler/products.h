// Products for BLAS: finds the strided views behind a dot_general's operands, so that transposes and slices cost nothing.
#pragma once

#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "exec/program.h"
#include "ir/graph.h"

namespace thalweg::compiler {

// A dot_general as BLAS calls over the buffers of two values. References of `command` are filled in later; offsets and leading dimensions are set.
struct ProductPlan {
  const ir::Value *lhs = nullptr, *rhs = nullptr;
  exec::GemmCommand command;
};
using ProductPlans = std::unordered_map<const ir::Op*, ProductPlan>;

// Makes every product of `function` one that BLAS or a nest can do: 16-bit floats through f32, empty sums become zeros, operands whose layout BLAS
// cannot read get an explicit transpose. Returns the plans of those that go to BLAS (f32 and f64). With `gpu` BLAS takes 16-bit floats as they are.
ProductPlans plan_products(ir::Function& function, bool gpu = false);

}  // namespace thalweg::compiler
