// Rules for dot_general.
#include <algorithm>

#include "ir/dimension_numbers.h"
#include "passes/canonicalize_rules.h"

namespace thalweg::passes {
namespace {

using ir::Builder;
using ir::Dims;
using ir::Op;
using ir::OpCode;
using ir::Value;

// Reads `operand` before its transpose where the dims that are neither batch nor contracted keep their order; true when it did.
bool read_through(Value*& operand, Dims& batch, Dims& contract) {
  const Op* transpose = made_by(operand, OpCode::Transpose);
  if (!transpose) return false;
  const Dims& permutation = transpose->attrs.ints("permutation");
  Dims free;
  for (int64_t d = 0; d < static_cast<int64_t>(permutation.size()); ++d)
    if (std::find(batch.begin(), batch.end(), d) == batch.end() && std::find(contract.begin(), contract.end(), d) == contract.end())
      free.push_back(permutation[static_cast<size_t>(d)]);
  if (!std::is_sorted(free.begin(), free.end())) return false;
  for (int64_t& d : batch) d = permutation[static_cast<size_t>(d)];
  for (int64_t& d : contract) d = permutation[static_cast<size_t>(d)];
  operand = transpose->operand(0);
  return true;
}

}  // namespace

Replacement simplify_product(Builder& b, Op& op) {
  if (op.code != OpCode::DotGeneral) return {};
  ir::DotDims dims = ir::dot_dims(op.attrs);
  Value *lhs = op.operand(0), *rhs = op.operand(1);
  bool left = read_through(lhs, dims.lhs_batch, dims.lhs_contract), right = read_through(rhs, dims.rhs_batch, dims.rhs_contract);
  if (!left && !right) return {};
  ir::Attributes attrs = op.attrs;
  ir::set_dot_dims(attrs, dims);
  return {b.make(OpCode::DotGeneral, {lhs, rhs}, std::move(attrs), {op.result()->type})->result()};
}

}  // namespace thalweg::passes
