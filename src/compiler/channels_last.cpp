// Transposes from channels last, moved behind the ops that follow them.
#include "compiler/channels_last.h"

#include <algorithm>
#include <numeric>

#include "codegen/scalar_text.h"

namespace thalweg::compiler {
namespace {

using ir::Dims;
using ir::OpCode;
using ir::Value;

bool is_transpose(const Value* value) { return value->def && value->def->code == OpCode::Transpose; }

// [batch, channels, space…] from what lies in memory as [batch, space…, channels].
Dims from_last(size_t rank) {
  Dims permutation{0, static_cast<int64_t>(rank) - 1};
  for (size_t d = 2; d < rank; ++d) permutation.push_back(static_cast<int64_t>(d) - 1);
  return permutation;
}

// What lies channels last behind the value, or null.
Value* last_of(const Value* value) {
  const size_t rank = value->type.dims.size();
  if (rank < 4 || rank > 5 || !is_transpose(value) || value->def->attrs.ints("permutation") != from_last(rank)) return nullptr;
  return value->def->operand(0);
}

Dims picked(const Dims& dims, const Dims& order) {
  Dims out;
  for (int64_t d : order) out.push_back(dims[static_cast<size_t>(d)]);
  return out;
}

class Mover {
 public:
  Mover(ir::Builder& b, ir::Op& op, size_t rank) : b_(b), op_(op), order_(channels_last(rank)), back_(from_last(rank)) {}

  std::vector<Value*> elementwise() const {
    std::vector<Value*> operands;
    for (Value* operand : op_.operands) operands.push_back(operand->type.rank() == 0 ? operand : moved(operand));
    return again(std::move(operands), op_.attrs);
  }
  // Pads, slices: attributes with a number for each dim.
  std::vector<Value*> with_numbers(std::initializer_list<const char*> names) const {
    ir::Attributes attrs = op_.attrs;
    for (const char* name : names) attrs.set(name, picked(op_.attrs.ints(name), order_));
    std::vector<Value*> operands = op_.operands;
    operands[0] = moved(operands[0]);
    return again(std::move(operands), std::move(attrs));
  }
  std::vector<Value*> concatenate() const {
    ir::Attributes attrs = op_.attrs;
    attrs.set("dimension", back_[static_cast<size_t>(op_.attrs.integer("dimension"))]);
    std::vector<Value*> operands;
    for (Value* operand : op_.operands) operands.push_back(moved(operand));
    return again(std::move(operands), std::move(attrs));
  }
  std::vector<Value*> reduce() const {
    const Dims& reduced = op_.attrs.ints("dimensions");
    Dims dims, kept, kept_types;
    for (int64_t d : reduced) dims.push_back(back_[static_cast<size_t>(d)]);
    std::sort(dims.begin(), dims.end());
    for (int64_t d : order_)  // logical dims as they lie
      if (std::find(reduced.begin(), reduced.end(), d) == reduced.end())
        kept.push_back(d), kept_types.push_back(op_.operand(0)->type.dims[static_cast<size_t>(d)]);
    ir::Attributes attrs = op_.attrs;
    attrs.set("dimensions", dims);
    const size_t n = op_.results.size();
    std::vector<Value*> operands = op_.operands;
    std::vector<ir::Type> types;
    for (size_t i = 0; i < n; ++i) {
      operands[i] = moved(operands[i]);
      types.push_back(ir::tensor(op_.result(i)->type.dtype, kept_types));
    }
    std::vector<std::unique_ptr<ir::Block>> regions;
    for (const auto& region : op_.regions) regions.push_back(ir::clone(*region));
    ir::Op* made = b_.make(op_.code, std::move(operands), std::move(attrs), std::move(types), std::move(regions));
    // Kept dims back in their order.
    Dims permutation(kept.size());
    std::iota(permutation.begin(), permutation.end(), 0);
    std::sort(permutation.begin(), permutation.end(), [&](int64_t a, int64_t c) { return kept[static_cast<size_t>(a)] < kept[static_cast<size_t>(c)]; });
    std::vector<Value*> results;
    for (size_t i = 0; i < n; ++i) results.push_back(b_.transpose(made->result(i), permutation));
    return results;
  }

 private:
  // The value as it lies channels last: where it lies so, or where it is the same in any order, without a move.
  Value* moved(Value* value) const {
    if (Value* last = last_of(value)) return last;
    if (value->def && value->def->code == OpCode::Constant && value->def->attrs.literal("value")->splat) {
      auto literal = std::make_shared<ir::Literal>(*value->def->attrs.literal("value"));
      literal->type.dims = picked(value->type.dims, order_);
      return b_.constant(literal);
    }
    if (value->def && value->def->code == OpCode::BroadcastInDim) {
      Dims dims;
      for (int64_t d : value->def->attrs.ints("broadcast_dimensions")) dims.push_back(back_[static_cast<size_t>(d)]);
      if (std::is_sorted(dims.begin(), dims.end())) return b_.broadcast(value->def->operand(0), picked(value->type.dims, order_), dims);
    }
    if (value->def && value->def->code == OpCode::Iota) {
      ir::Type type = value->type;
      type.dims = picked(type.dims, order_);
      return b_.iota(type, back_[static_cast<size_t>(value->def->attrs.integer("iota_dimension"))]);
    }
    return b_.transpose(value, order_);
  }

  std::vector<Value*> again(std::vector<Value*> operands, ir::Attributes attrs) const {
    ir::Type type = op_.result()->type;
    type.dims = picked(type.dims, order_);
    return {b_.transpose(b_.make(op_.code, std::move(operands), std::move(attrs), {type})->result(), back_)};
  }

  ir::Builder& b_;
  ir::Op& op_;
  Dims order_, back_;  // memory's dims by their numbers; each dim's place in memory
};

}  // namespace

Dims channels_last(size_t rank) {
  Dims order{0};
  for (size_t d = 2; d < rank; ++d) order.push_back(static_cast<int64_t>(d));
  order.push_back(1);
  return order;
}

std::vector<Value*> keep_channels_last(ir::Builder& b, ir::Op& op) {
  if (op.operands.empty() || op.results.empty()) return {};
  if (op.code == OpCode::Transpose && is_transpose(op.operand(0))) {  // back to where it was
    const Dims total = picked(op.operand(0)->def->attrs.ints("permutation"), op.attrs.ints("permutation"));
    if (std::is_sorted(total.begin(), total.end())) return {op.operand(0)->def->operand(0)};
    return {};
  }
  const bool any = std::any_of(op.operands.begin(), op.operands.end(), [](const Value* operand) { return last_of(operand) != nullptr; });
  if (!any) return {};
  const size_t rank = op.operand(0)->type.rank() > 0 ? op.operand(0)->type.dims.size() : op.result()->type.dims.size();
  const Mover mover(b, op, rank);
  if (codegen::is_elementwise(op) && op.results.size() == 1) return mover.elementwise();
  switch (op.code) {
    case OpCode::Pad:
      return mover.with_numbers({"edge_padding_low", "edge_padding_high", "interior_padding"});
    case OpCode::Slice:
      return mover.with_numbers({"start_indices", "limit_indices", "strides"});
    case OpCode::Concatenate:
      return mover.concatenate();
    case OpCode::Reduce:
      return mover.reduce();
    default:
      return {};
  }
}

}  // namespace thalweg::compiler
