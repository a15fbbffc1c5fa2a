// Tries the families of rules in turn.
#include "passes/canonicalize.h"

#include "passes/canonicalize_rules.h"

namespace thalweg::passes {

bool canonicalize(ir::Function& function, const ir::Module*) {
  return rewrite(function.body, [](ir::Builder& builder, ir::Op& op) -> Replacement {
    for (const ir::Value* operand : op.operands)
      if (!operand->type.is_tensor()) return {};
    for (auto rules : {simplify_elementwise, simplify_movement, simplify_chain, simplify_pieces, simplify_product})
      if (Replacement values = rules(builder, op); !values.empty()) return values;
    return {};
  });
}

}  // namespace thalweg::passes
