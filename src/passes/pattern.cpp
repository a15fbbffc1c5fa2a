// Forms that patterns share.
#include "passes/pattern.h"

#include <algorithm>
#include <cmath>

#include "passes/constants.h"

namespace thalweg::passes {
namespace {

using ir::Dims;
using ir::Op;
using ir::OpCode;
using ir::Value;

void collect(const ir::Block& block, std::unordered_map<const Value*, std::vector<const Op*>>& readers, const Op* owner) {
  for (const auto& op : block.ops) {
    const Op* reader = owner ? owner : op.get();
    for (const Value* operand : op->operands) readers[operand].push_back(reader);
    for (const auto& region : op->regions) collect(*region, readers, reader);
  }
}

Dims without_ones(const Dims& dims) {
  Dims out;
  std::copy_if(dims.begin(), dims.end(), std::back_inserter(out), [](int64_t d) { return d != 1; });
  return out;
}

}  // namespace

Users::Users(const ir::Block& block) { collect(block, readers_, nullptr); }

bool Users::closed(const std::vector<const Op*>& inside) const {
  std::vector<const Value*> todo;
  for (size_t i = 0; i + 1 < inside.size(); ++i)
    for (const auto& result : inside[i]->results) todo.push_back(result.get());
  while (!todo.empty()) {
    auto readers = readers_.find(todo.back());
    todo.pop_back();
    if (readers == readers_.end()) continue;
    for (const Op* reader : readers->second) {
      if (gone_.count(reader) || std::find(inside.begin(), inside.end(), reader) != inside.end()) continue;
      if (reader->code != OpCode::Reshape) return false;
      todo.push_back(reader->results[0].get());
    }
  }
  return true;
}

void Users::replaced(const std::vector<const Op*>& inside, const Value* now, const std::vector<const Op*>& made) {
  gone_.insert(inside.begin(), inside.end());
  if (auto readers = readers_.find(inside.back()->results[0].get()); readers != readers_.end()) {
    std::vector<const Op*> list = readers->second;
    readers_[now] = std::move(list);
  }
  for (const Op* op : made)
    for (const Value* operand : op->operands) readers_[operand].push_back(op);
}

Value* Match::bare(Value* value) {
  while (value->def && value->def->code == OpCode::Reshape && without_ones(value->type.dims) == without_ones(value->def->operand(0)->type.dims))
    value = value->def->operand(0);
  return value;
}

const Op* Match::take(Value* value, OpCode code) {
  value = bare(value);
  if (!value->def || value->def->code != code) return nullptr;
  add(*value->def);
  return value->def;
}

Value* Match::repeated(Value* value, const Dims& dims) {
  const Op* broadcast = take(value, OpCode::BroadcastInDim);
  if (!broadcast || broadcast->result()->type != value->type) return nullptr;
  const Dims &from = broadcast->operand(0)->type.dims, &to = value->type.dims, &places = broadcast->attrs.ints("broadcast_dimensions");
  std::vector<bool> kept(to.size(), false);
  for (size_t i = 0; i < places.size(); ++i)
    if (from[i] != 1) kept[static_cast<size_t>(places[i])] = true;
  for (size_t d = 0; d < to.size(); ++d) {
    const bool along = std::find(dims.begin(), dims.end(), static_cast<int64_t>(d)) != dims.end();
    if (to[d] != 1 && kept[d] == along) return nullptr;
  }
  return bare(broadcast->operand(0));
}

Match::Scaled Match::scaled(Value* value) {
  Value* x = bare(value);
  if (!x->def || (x->def->code != OpCode::Multiply && x->def->code != OpCode::Divide)) return {x, 1};
  const Op& op = *x->def;
  for (size_t side : {size_t{1}, size_t{0}}) {
    const auto number = uniform_number(op.operand(side));
    if (!number || (op.code == OpCode::Divide && (side == 0 || *number == 0))) continue;
    add(op);
    return {bare(op.operand(1 - side)), op.code == OpCode::Divide ? 1 / *number : *number};
  }
  return {x, 1};
}

Match::Reduction Match::reduction(Value* value, OpCode combine, double identity) {
  value = bare(value);
  if (!value->def || value->def->code != OpCode::Reduce || value->def->results.size() != 1) return {};
  const Op& op = *value->def;
  const ir::Block& body = *op.regions[0];
  const auto start = uniform_number(op.operand(1));
  if (body.ops.size() != 2 || body.ops[0]->code != combine || body.ops[1]->operand(0) != body.ops[0]->result() || !start || *start != identity) return {};
  const Value *left = body.ops[0]->operand(0), *right = body.ops[0]->operand(1);
  if (left == right || left->block != op.regions[0].get() || right->block != op.regions[0].get()) return {};
  add(op);
  return {op.operand(0), op.attrs.ints("dimensions")};
}

Match::Reduction Match::mean(Value* value) {
  const Scaled sum = scaled(value);
  Reduction reduced = reduction(sum.x, OpCode::Add, 0);
  if (!reduced.x) return {};
  const auto count = static_cast<double>(reduced.x->type.size()) / static_cast<double>(std::max<int64_t>(1, sum.x->type.size()));
  return about(sum.factor * count, 1) ? reduced : Reduction{};
}

std::optional<Match::Scaled> Match::plus_constant(Value* value) {
  const Op* sum = take(value, OpCode::Add);
  if (!sum) return {};
  for (size_t side : {size_t{1}, size_t{0}})
    if (const auto number = uniform_number(sum->operand(side))) return Scaled{bare(sum->operand(1 - side)), *number};
  return {};
}

Match::Factors Match::factors(Value* value, const Value* stop) {
  if (value == stop) return {{value}, 1};
  if (const auto number = uniform_number(value)) return {{}, *number};
  if (!value->def || value->def->code != OpCode::Multiply) return {{value}, 1};
  add(*value->def);
  Factors all = factors(value->def->operand(0), stop), more = factors(value->def->operand(1), stop);
  all.values.insert(all.values.end(), more.values.begin(), more.values.end());
  all.number *= more.number;
  return all;
}

std::vector<const Op*> Match::with_root(const Op& root) const {
  std::vector<const Op*> all;
  std::copy_if(ops_.begin(), ops_.end(), std::back_inserter(all), [&](const Op* op) { return op != &root; });
  all.push_back(&root);
  return all;
}

bool about(double a, double b) { return std::abs(a - b) <= 1e-6 * std::max(std::abs(a), std::abs(b)); }

}  // namespace thalweg::passes
