// Kinds and stages of a nest's members.
#include "codegen/nest_members.h"

#include <set>

#include "codegen/contraction.h"

namespace thalweg::codegen {

using ir::OpCode;

NestMembers::NestMembers(const Nest& nest, const std::function<bool(const ir::Value*)>& is_buffer) : is_buffer_(is_buffer) {
  for (const ir::Value* value : nest.members) contraction_ |= !is_pullable(*value->def) && value->def->code != OpCode::Reduce;
  const int64_t full = nest.space.size(), rows = nest.space.size(DimRole::Row);
  std::unordered_map<const ir::Value*, int> memo;
  for (const ir::Value* value : nest.members) {
    Member m{value, MemberKind::Full};
    const ir::Op& op = *value->def;
    if (is_pullable(op)) {
      if (value->type.size() == full && !contraction_) {
        m.kind = MemberKind::Full;
      } else if (value->type.size() == rows && !nest.space.has(DimRole::Batch)) {
        m.kind = MemberKind::Row;
      } else {
        throw NotFusable{value};
      }
    } else if (op.code == OpCode::Reduce) {
      m.kind = is_row_reduce(op) ? MemberKind::RowReduce : MemberKind::ColumnReduce;
      if (!(reduce_space(op).dims == nest.space.dims)) throw NotFusable{value};
    } else {
      m.kind = MemberKind::Contraction;
    }
    for (const ir::Value* operand : op.operands) m.stage = std::max(m.stage, ready_stage(operand, memo));
    reduces_ |= m.gives_rows();
    columns_ |= m.kind == MemberKind::ColumnReduce;
    if (m.kind != MemberKind::Row) stages_ = std::max(stages_, m.stage + 1);
    by_value_[value] = list_.size();
    list_.push_back(m);
    memo.clear();
  }
}

// The stage from which `value` can be computed: after the loops of the row reductions it depends on.
int NestMembers::ready_stage(const ir::Value* value, std::unordered_map<const ir::Value*, int>& memo) const {
  value = canonical(value);
  if (const Member* m = find(value)) return m->gives_rows() ? m->stage + 1 : m->stage;
  if (is_buffer_(value) || !value->def) return 0;
  auto [it, fresh] = memo.try_emplace(value, 0);
  if (!fresh) return it->second;
  int stage = 0;
  for (const ir::Value* operand : value->def->operands) stage = std::max(stage, ready_stage(operand, memo));
  return memo[value] = stage;
}

bool NestMembers::read_later(const Member& m) const {
  for (const Member& user : list_) {
    if (user.stage <= m.stage && user.kind != MemberKind::Row) continue;
    std::vector<const ir::Value*> todo(user.value->def->operands.begin(), user.value->def->operands.end());
    std::set<const ir::Value*> seen;
    while (!todo.empty()) {
      const ir::Value* value = canonical(todo.back());
      todo.pop_back();
      if (value == m.value) return true;
      if (find(value) || is_buffer_(value) || !value->def || !seen.insert(value).second) continue;
      todo.insert(todo.end(), value->def->operands.begin(), value->def->operands.end());
    }
  }
  return false;
}

std::optional<Reducer> simple_reducer(const ir::Op& op) {
  if (op.code != OpCode::Reduce) return contraction_reducer(op);
  if (op.results.size() != 1) return {};
  return reducer_of(*op.regions[0]);
}

}  // namespace thalweg::codegen
