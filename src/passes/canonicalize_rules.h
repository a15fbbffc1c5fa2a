// The rules of canonicalize() by family: each gives replacements for one op, or nothing.
#pragma once

#include "passes/rewriter.h"

namespace thalweg::passes {

Replacement simplify_elementwise(ir::Builder& builder, ir::Op& op);
Replacement simplify_movement(ir::Builder& builder, ir::Op& op);
// slice, pad, concatenate, dynamic_slice, reduce over nothing.
Replacement simplify_pieces(ir::Builder& builder, ir::Op& op);
// Several reshapes and transposes in a row.
Replacement simplify_chain(ir::Builder& builder, ir::Op& op);
// dot_general of transposes.
Replacement simplify_product(ir::Builder& builder, ir::Op& op);

// The op that makes `value` when it is one of `code`, else null.
inline const ir::Op* made_by(const ir::Value* value, ir::OpCode code) { return value->def && value->def->code == code ? value->def : nullptr; }

}  // namespace thalweg::passes
