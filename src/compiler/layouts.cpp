// Transposes around products.
#include "compiler/layouts.h"

#include <algorithm>
#include <unordered_map>

#include "codegen/scalar_text.h"
#include "compiler/rewrite.h"
#include "ir/dimension_numbers.h"

namespace thalweg::compiler {
namespace {

using ir::Dims;
using ir::OpCode;
using ir::Value;
using Uses = std::unordered_map<const Value*, int>;

Uses count_uses(const ir::Block& block) {
  Uses uses;
  for (const auto& op : block.ops) {
    for (const Value* operand : op->operands) ++uses[operand];
    for (const Value* value : captured_values(*op)) uses[value] += 2;
  }
  return uses;
}

// Swaps the last two dims and leaves the others.
bool is_swap(const Dims& permutation) {
  const int64_t n = static_cast<int64_t>(permutation.size());
  for (int64_t i = 0; i + 2 < n; ++i)
    if (permutation[static_cast<size_t>(i)] != i) return false;
  return n >= 2 && permutation[static_cast<size_t>(n - 2)] == n - 1 && permutation[static_cast<size_t>(n - 1)] == n - 2;
}

Dims permuted(const Dims& dims, const Dims& permutation) {
  Dims out;
  for (int64_t p : permutation) out.push_back(dims[static_cast<size_t>(p)]);
  return out;
}

// One value everywhere: rebuilds it in another shape, or gives null.
Value* uniform(ir::Builder& b, const Value* value, const Dims& dims) {
  if (!value->def || value->type.rank() == 0) return nullptr;
  if (value->def->code == OpCode::Constant && value->def->attrs.literal("value")->splat) {
    auto literal = std::make_shared<ir::Literal>(*value->def->attrs.literal("value"));
    literal->type.dims = dims;
    return b.constant(literal);
  }
  if (value->def->code == OpCode::BroadcastInDim && value->def->operand(0)->type.size() == 1)
    return b.broadcast(b.reshape(value->def->operand(0), {}), dims, {});
  return nullptr;
}

// Elementwise with operands and result of one shape (rank-0 operands of select and clamp aside).
bool is_plain_elementwise(const ir::Op& op) { return op.results.size() == 1 && op.result()->type.rank() > 0 && codegen::is_elementwise(op); }

ir::Op* rebuilt(ir::Builder& b, const ir::Op& op, std::vector<Value*> operands, const Dims& dims) {
  ir::Type type = op.result()->type;
  type.dims = dims;
  return b.make(op.code, std::move(operands), op.attrs, {type});
}

class Hoister {
 public:
  explicit Hoister(Uses uses) : uses_(std::move(uses)) {}

  // `value` with its last two dims swapped, computed from a product with swapped operands; null when it does not come from one alone.
  Value* swapped(ir::Builder& b, Value* value) const {
    auto it = uses_.find(value);
    if (!value->def || it == uses_.end() || it->second != 1) return nullptr;
    const ir::Op& op = *value->def;
    Dims dims = value->type.dims;
    if (dims.size() < 2) return nullptr;
    std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
    if (op.code == OpCode::DotGeneral) return swapped_product(b, op);
    if (op.code == OpCode::Reshape) {
      const Dims& from = op.operand(0)->type.dims;
      if (from.size() < 2 || from[from.size() - 1] != dims[dims.size() - 2] || from[from.size() - 2] != dims[dims.size() - 1]) return nullptr;
      Value* inner = swapped(b, op.operand(0));
      return inner ? b.reshape(inner, dims) : nullptr;
    }
    if (!is_plain_elementwise(op)) return nullptr;
    // One operand from a product, the others one value everywhere.
    size_t varying = op.operands.size();
    for (size_t i = 0; i < op.operands.size(); ++i) {
      if (op.operand(i)->type.rank() == 0 || is_uniform(op.operand(i))) continue;
      if (varying != op.operands.size()) return nullptr;
      varying = i;
    }
    if (varying == op.operands.size()) return nullptr;
    Value* inner = swapped(b, op.operand(varying));
    if (!inner) return nullptr;
    std::vector<Value*> operands;
    for (size_t i = 0; i < op.operands.size(); ++i)
      operands.push_back(i == varying ? inner : op.operand(i)->type.rank() == 0 ? op.operand(i) : uniform(b, op.operand(i), dims));
    return rebuilt(b, op, operands, dims)->result();
  }

 private:
  static bool is_uniform(const Value* value) {
    if (!value->def) return false;
    if (value->def->code == OpCode::Constant) return value->def->attrs.literal("value")->splat;
    return value->def->code == OpCode::BroadcastInDim && value->def->operand(0)->type.size() == 1;
  }

  static Value* swapped_product(ir::Builder& b, const ir::Op& op) {
    const ir::DotDims d = ir::dot_dims(op.attrs);
    const size_t free_left = op.operand(0)->type.dims.size() - d.lhs_batch.size() - d.lhs_contract.size();
    const size_t free_right = op.operand(1)->type.dims.size() - d.rhs_batch.size() - d.rhs_contract.size();
    if (free_left != 1 || free_right != 1) return nullptr;
    return b.dot(op.operand(1), op.operand(0), {d.rhs_batch, d.lhs_batch, d.rhs_contract, d.lhs_contract}, op.result()->type.dtype);
  }

  Uses uses_;
};

// op(transpose(x), uniform, …) → transpose(op(x, uniform, …)).
std::vector<Value*> sink(ir::Builder& b, ir::Op& op) {
  if (!is_plain_elementwise(op)) return {};
  const Dims* permutation = nullptr;
  for (Value* operand : op.operands) {
    if (!operand->def || operand->def->code != OpCode::Transpose) continue;
    const Dims& p = operand->def->attrs.ints("permutation");
    if (permutation && p != *permutation) return {};
    permutation = &p;
  }
  if (!permutation) return {};
  const Dims keep = *permutation;
  Dims inverse(keep.size());
  for (size_t i = 0; i < keep.size(); ++i) inverse[static_cast<size_t>(keep[i])] = static_cast<int64_t>(i);
  const Dims dims = permuted(op.result()->type.dims, inverse);
  std::vector<Value*> operands;
  for (Value* operand : op.operands) {
    Value* moved = operand;
    if (operand->def && operand->def->code == OpCode::Transpose) {
      moved = operand->def->operand(0);
    } else if (operand->type.rank() > 0) {
      moved = uniform(b, operand, dims);
    }
    if (!moved) return {};
    operands.push_back(moved);
  }
  return {b.transpose(rebuilt(b, op, operands, dims)->result(), keep)};
}

}  // namespace

void settle_layouts(ir::Function& function) {
  Hoister hoister(count_uses(function.body));
  rewrite(function, [&](ir::Builder& b, ir::Op& op) -> std::vector<Value*> {
    if (op.code != OpCode::Transpose || !is_swap(op.attrs.ints("permutation"))) return {};
    Value* value = hoister.swapped(b, op.operand(0));
    return value ? std::vector<Value*>{value} : std::vector<Value*>{};
  });
  rewrite(function, sink);
}

}  // namespace thalweg::compiler
