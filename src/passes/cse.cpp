// Common subexpressions by hash and full comparison.
#include "passes/cse.h"

#include <algorithm>
#include <cstring>

#include "passes/op_kinds.h"
#include "passes/rewriter.h"

namespace thalweg::passes {
namespace {

using ir::Op;
using ir::OpCode;
using ir::Value;

struct Hash {
  size_t state = 0x9e3779b97f4a7c15u;
  void add(size_t word) {
    state = (state ^ word) * 0xff51afd7ed558ccdu;
    state ^= state >> 32;
  }
  void add(std::string_view text) { add(std::hash<std::string_view>()(text)); }
  void add(const ir::Literal& literal) {
    add(static_cast<size_t>(literal.type.dtype));
    size_t bytes = std::min<size_t>(literal.data.size(), 64);  // equal literals have equal beginnings; the comparison decides
    add(std::string_view(reinterpret_cast<const char*>(literal.data.data()), bytes));
  }
};

// Kinds that the hash leaves out are told apart by the comparison.
void add_attributes(Hash& hash, const ir::Attributes& attrs) {
  for (const auto& [name, attribute] : attrs) {
    hash.add(name);
    hash.add(attribute.value.index());
    if (auto* integer = std::get_if<int64_t>(&attribute.value)) hash.add(static_cast<size_t>(*integer));
    if (auto* dims = std::get_if<ir::Dims>(&attribute.value))
      for (int64_t d : *dims) hash.add(static_cast<size_t>(d));
    if (auto* text = std::get_if<std::string>(&attribute.value)) hash.add(*text);
    if (auto* word = std::get_if<ir::EnumWord>(&attribute.value)) hash.add(word->word);
    if (auto* literal = std::get_if<ir::LiteralPtr>(&attribute.value)) hash.add(**literal);
  }
}

bool is_commutative(OpCode code) {
  return code == OpCode::Add || code == OpCode::Multiply || code == OpCode::Maximum || code == OpCode::Minimum || code == OpCode::And || code == OpCode::Or ||
         code == OpCode::Xor;
}

size_t hash_of(const Op& op) {
  Hash hash;
  hash.add(static_cast<size_t>(op.code));
  std::vector<size_t> operands;
  for (const Value* operand : op.operands) operands.push_back(reinterpret_cast<size_t>(operand));
  if (is_commutative(op.code)) std::sort(operands.begin(), operands.end());
  for (size_t operand : operands) hash.add(operand);
  for (const auto& result : op.results) {
    hash.add(static_cast<size_t>(result->type.dtype));
    for (int64_t d : result->type.dims) hash.add(static_cast<size_t>(d));
  }
  add_attributes(hash, op.attrs);
  for (const auto& region : op.regions) hash.add(region->ops.size());
  return hash.state;
}

using Correspondence = std::unordered_map<const Value*, const Value*>;

bool same_op(const Op& a, const Op& b, Correspondence& inner);

bool same_region(const ir::Block& a, const ir::Block& b, Correspondence& inner) {
  if (a.args.size() != b.args.size() || a.ops.size() != b.ops.size()) return false;
  for (size_t i = 0; i < a.args.size(); ++i) {
    if (a.args[i]->type != b.args[i]->type) return false;
    inner[a.args[i].get()] = b.args[i].get();
  }
  for (size_t i = 0; i < a.ops.size(); ++i)
    if (!same_op(*a.ops[i], *b.ops[i], inner)) return false;
  return true;
}

bool same_op(const Op& a, const Op& b, Correspondence& inner) {
  if (a.code != b.code || a.operands.size() != b.operands.size() || a.results.size() != b.results.size() || a.regions.size() != b.regions.size()) return false;
  auto same = [&](const Value* x, const Value* y) {
    auto found = inner.find(x);
    return (found == inner.end() ? x : found->second) == y;
  };
  bool equal = true;
  for (size_t i = 0; i < a.operands.size(); ++i) equal = equal && same(a.operands[i], b.operands[i]);
  if (!equal && !(is_commutative(a.code) && same(a.operands[0], b.operands[1]) && same(a.operands[1], b.operands[0]))) return false;
  if (!(a.attrs == b.attrs)) return false;
  for (size_t i = 0; i < a.results.size(); ++i) {
    if (a.results[i]->type != b.results[i]->type) return false;
    inner[a.results[i].get()] = b.results[i].get();
  }
  for (size_t i = 0; i < a.regions.size(); ++i)
    if (!same_region(*a.regions[i], *b.regions[i], inner)) return false;
  return true;
}

// The results of `earlier` wherever those of an equal `op` are used.
class Merger {
 public:
  Replacement visit(const ir::Block& block, Op& op) {
    if (op.results.empty() || !is_repeatable(op)) return {};
    bool any_group = op.code == OpCode::Constant || op.code == OpCode::Iota;
    auto& same_hash = seen_[&block][hash_of(op)];
    for (Op* earlier : same_hash) {
      Correspondence inner;
      if ((any_group || earlier->group == op.group) && same_op(*earlier, op, inner)) {
        Replacement values;
        for (const auto& result : earlier->results) values.push_back(result.get());
        return values;
      }
    }
    same_hash.push_back(&op);
    return {};
  }

 private:
  std::unordered_map<const ir::Block*, std::unordered_map<size_t, std::vector<Op*>>> seen_;
};

}  // namespace

bool cse(ir::Function& function, const ir::Module*) {
  Merger merger;
  return rewrite(function.body, [&](ir::Builder& builder, Op& op) { return merger.visit(builder.block(), op); });
}

}  // namespace thalweg::passes
