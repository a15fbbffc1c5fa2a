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

// Where the elements of a value lie in the buffer of `base`: in elements, one stride for each dim (of dims of 1: any).
struct StridedView {
  const ir::Value* base = nullptr;
  int64_t offset = 0;
  ir::Dims strides;
};
// Follows moving ops from `value` to the value that they move; nothing when a dim has no stride there.
std::optional<StridedView> strided_view(const ir::Value* value);

}  // namespace thalweg::compiler
