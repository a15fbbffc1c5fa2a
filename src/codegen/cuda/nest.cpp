// From nests to kernel bodies: cutting into pieces, the attempts at a text, merging of partial results.
#include "codegen/cuda/nest.h"

#include <algorithm>
#include <unordered_set>

#include "codegen/cuda/nest_writer.h"
#include "codegen/scalar_text.h"

namespace thalweg::codegen::cuda {
namespace {

constexpr int64_t kMostStatements = 3000;  // of a loop body written out
constexpr int64_t kNarrow = (int64_t{1} << 31) - 1;

std::string num(int64_t n) { return std::to_string(n); }

using IsBuffer = std::function<bool(const ir::Value*)>;

// The values of `members` that something in `users` reads.
std::unordered_set<const ir::Value*> read_by(const std::vector<const ir::Value*>& users, const IsBuffer& is_buffer) {
  std::unordered_set<const ir::Value*> seen, inside(users.begin(), users.end());
  std::vector<const ir::Value*> todo;
  for (const ir::Value* user : users) todo.insert(todo.end(), user->def->operands.begin(), user->def->operands.end());
  while (!todo.empty()) {
    const ir::Value* value = canonical(todo.back());
    todo.pop_back();
    if (!seen.insert(value).second || inside.count(value) || is_buffer(value) || !value->def) continue;
    todo.insert(todo.end(), value->def->operands.begin(), value->def->operands.end());
  }
  return seen;
}

// The nest of `members` alone; what others of `nest` read becomes visible.
Nest part_of(const Nest& nest, const std::vector<const ir::Value*>& members, NestSpace space, const IsBuffer& is_buffer) {
  std::vector<const ir::Value*> others;
  for (const ir::Value* value : nest.members)
    if (std::find(members.begin(), members.end(), value) == members.end()) others.push_back(value);
  const auto read = read_by(others, is_buffer);
  Nest part{std::move(space), members, {}};
  for (const ir::Value* value : members)
    if (read.count(value) || std::find(nest.stored.begin(), nest.stored.end(), value) != nest.stored.end()) part.stored.push_back(value);
  return part;
}

// Rows so few and long that the stages over them are kernels of their own.
bool is_cut(const Nest& nest, const NestMembers& members, int multiprocessors) {
  const int64_t rows = nest.space.size(DimRole::Row), inner = nest.space.size(DimRole::Inner);
  if (members.columns() || members.contraction() || !members.reduces() || !wants_parts(rows, inner, multiprocessors)) return false;
  return rows < multiprocessors / 2 || inner > 32 * 1024;
}

}  // namespace

std::vector<Nest> pieces(const Nest& nest, const IsBuffer& is_buffer, int multiprocessors) {
  if (nest.space.flexible) return {nest};
  const NestMembers members(nest, is_buffer);
  if (!is_cut(nest, members, multiprocessors)) return {nest};
  std::vector<const ir::Value*> first, rows, full, rest;
  bool reduces = false;
  for (const Member& m : members.list()) {
    if (m.stage == 0) {
      first.push_back(m.value);
      continue;
    }
    rest.push_back(m.value);
    reduces |= m.gives_rows();
    (m.kind == MemberKind::Row ? rows : full).push_back(m.value);
  }
  if (rest.empty()) return {nest};
  std::vector<Nest> out = {part_of(nest, first, nest.space, is_buffer)};
  if (reduces) {
    for (Nest& piece : pieces(part_of(nest, rest, nest.space, is_buffer), is_buffer, multiprocessors)) out.push_back(std::move(piece));
    return out;
  }
  if (!rows.empty()) out.push_back(part_of(nest, rows, flexible_space(nest.space.size(DimRole::Row)), is_buffer));
  if (!full.empty()) out.push_back(part_of(nest, full, flexible_space(nest.space.size()), is_buffer));
  return out;
}

NestCode write_nest(const Nest& nest, const IsBuffer& is_buffer, int multiprocessors) {
  std::vector<BaseDim> base;
  for (auto [extent, role] : nest.space.dims) base.push_back({extent, {}});
  Attempt attempt;
  attempt.wide = nest.space.size() > kNarrow;
  while (true) {
    NestWriter writer(nest, base, is_buffer, multiprocessors, attempt);
    NestCode code = writer.write();
    bool changed = false;
    for (auto [dim, block] : writer.space().requests()) changed |= add_split(base[static_cast<size_t>(dim)], block);
    if (changed) continue;
    if (!attempt.wide && writer.space().widest() > kNarrow) {
      attempt.wide = true;
    } else if (attempt.most_kept > 1 && writer.unrolled_statements() > kMostStatements) {
      attempt.most_kept /= 2;
    } else if (attempt.across != writer.across()) {
      attempt.across = writer.across();
    } else {
      return code;
    }
  }
}

NestCode write_combine(const NestPartial& partial, const ir::Value* initial) {
  NestCode code;
  const Reducer& reducer = partial.reducer;
  const int64_t size = partial.result->type.size();
  const std::string wide = reducer.memory_type(), type = scalar_type(partial.result->type.dtype);
  code.args = {{partial.result, NestArg::Role::Partial, 0, false}, {partial.result, NestArg::Role::Write, partial.result->type.bytes(), false}};
  std::string first, declare;
  if (initial->def && initial->def->code == ir::OpCode::Constant) {
    first = literal_text(*initial->def->attrs.literal("value"), 0);
  } else {
    code.args.push_back({initial, NestArg::Role::Read, initial->type.bytes(), false});
    declare = "const " + type + "* const p2 = (const " + type + "*)args[2];\n", first = "*p2";
  }
  if (reducer.memory_dtype() != reducer.dtype) first = "s_convert<float>(" + first + ")";
  // Neighbouring lanes take neighbouring columns; those of a column take turns over the parts.
  int columns = 1, aside = 1;
  while (columns < 32 && columns < size) columns *= 2;
  while (columns * aside < 256 && aside < partial.parts) aside *= 2;
  code.lanes = columns * aside;
  code.shared_bytes = static_cast<int>(code.lanes * ir::byte_size(reducer.memory_dtype()));
  code.units = (size + columns - 1) / columns;
  code.unit_cost = static_cast<double>(partial.parts * columns);
  const std::string barrier = "group_barrier<" + num(code.lanes) + ">();\n";
  code.body = "const " + wide + "* const p0 = (const " + wide + "*)args[0];\n" + type + "* const p1 = (" + type + "*)args[1];\n" + declare + wide +
              "* const all = (" + wide + "*)shared;\nconst int column = lane % " + num(columns) + ", aside = lane / " + num(columns) +
              ";\nfor (int64_t u = begin; u < end; ++u) {\nconst int64_t i = u * " + num(columns) + " + column;\n" + wide +
              " sum = " + reducer.identity(false) + ";\nif (i < " + num(size) + ") {\n#pragma unroll 8\nfor (int64_t part = aside; part < " +
              num(partial.parts) + "; part += " + num(aside) + ") { " + reducer.merge("sum", "p0[part * " + num(size) + " + i]", false) + " }\n}\n";
  if (aside > 1)
    code.body += barrier + "all[lane] = sum;\nfor (int half = " + num(aside / 2) + "; half > 0; half /= 2) {\n" + barrier + "if (aside < half) {\n" +
                 reducer.merge("sum", "all[lane + half * " + num(columns) + "]", false) + "\nall[lane] = sum;\n}\n}\n";
  code.body += "if (aside == 0 && i < " + num(size) + ") {\n" + wide + " total = " + first + ";\n" + reducer.merge("total", "sum", false) +
               "\np1[i] = " + reducer.result("total", false) + ";\n}\n}\n";
  return code;
}

}  // namespace thalweg::codegen::cuda
