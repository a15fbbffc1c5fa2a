// Values of nests for GPUs: loads and stores, several elements at once where they are neighbours, and what lanes keep from stage to stage.
#include <algorithm>

#include "codegen/cuda/nest_writer.h"
#include "codegen/scalar_text.h"

namespace thalweg::codegen::cuda {
namespace {

constexpr double kRegisters = 120;  // of a lane, for what it keeps
constexpr int kRepeatCost = 8;      // of what every stage computes again

std::string num(int64_t n) { return std::to_string(n); }

}  // namespace

// What one element costs that is computed from buffers and row reductions alone.
int NestWriter::repeat_cost(const ir::Value* value, std::unordered_map<const ir::Value*, int>& memo) const {
  value = canonical(value);
  const Member* m = members_.find(value);
  if (m ? m->kind != MemberKind::Full : is_buffer_(value)) return 1;
  if (!value->def) return 1;
  if (auto it = memo.find(value); it != memo.end()) return it->second;
  int total = cost(*value->def);
  for (const ir::Value* operand : value->def->operands) total = std::min(1000, total + repeat_cost(operand, memo));
  return memo[value] = total;
}

// True for a member that later stages compute again.
bool NestWriter::repeats(const Member& m) const { return cheap_.count(m.value) != 0; }

// Which members are cheap, and the stages that read each buffer as large as the whole space.
void NestWriter::find_uses() {
  const int64_t full = nest_.space.size();
  std::unordered_map<const ir::Value*, int> memo;
  for (const Member& m : members_.list())
    if (m.kind == MemberKind::Full && repeat_cost(m.value, memo) <= kRepeatCost) cheap_.insert(m.value);
  for (const Member& m : members_.list()) {
    if (m.kind == MemberKind::Contraction) continue;
    std::vector<const ir::Value*> todo(m.value->def->operands.begin(), m.value->def->operands.end());
    std::set<const ir::Value*> seen;
    while (!todo.empty()) {
      const ir::Value* value = canonical(todo.back());
      todo.pop_back();
      if (!seen.insert(value).second || (members_.find(value) && !cheap_.count(value))) continue;
      if (is_buffer_(value) && !members_.find(value)) {
        if (value->type.size() == full) stages_of_[value].insert(m.stage);
      } else if (value->def) {
        todo.insert(todo.end(), value->def->operands.begin(), value->def->operands.end());
      }
    }
  }
  halves_ = is_16_bit();
}

size_t NestWriter::arg(const ir::Value* value, NestArg::Role role, int64_t bytes) {
  for (size_t i = 0; i < code_.args.size(); ++i)
    if (code_.args[i].value == value && code_.args[i].role == role) return i;
  code_.args.push_back({value, role, bytes});
  return code_.args.size() - 1;
}

// True when the elements of a chunk are neighbours at `at`, the first at a multiple of the vector.
bool NestWriter::moves_as_vector(const Index& at) const {
  if (chunk_atom_ < 0 || at.constant % shape_.vector != 0) return false;
  bool moves = false;
  for (auto [atom, c] : at.terms) {
    if (atom == inner_.back().atom) {
      moves = c == 1;
    } else if (space_.atoms[static_cast<size_t>(atom)].depth >= innermost_ || c % shape_.vector != 0) {
      return false;
    }
  }
  return moves;
}

// `at` for the first element of the chunk.
Index NestWriter::chunk_index(const Index& at) const { return at + space_.var(inner_.back().atom) * -1 + space_.var(chunk_atom_); }

// True, and the registers are taken, when a lane can keep its part of a row at `registers` an element.
bool NestWriter::keeps(double registers) {
  const int64_t elements = shape_.turns * shape_.vector;
  if (!shape_.unrolled || elements > 2 * attempt_.most_kept || registers_ + registers * static_cast<double>(elements) > kRegisters) return false;
  registers_ += registers * static_cast<double>(elements);
  return true;
}

std::string NestWriter::kept(const std::string& name) const {
  if (shape_.vector == 1) return name + "[k]";
  return name + "[k * " + num(shape_.vector) + " + e]";
}

// Notes when the loop along which a large value is read neighbour by neighbour is not the innermost one.
void NestWriter::note_direction(const ir::Value* value, const Index& at) {
  if (shape_.dealing != Dealing::Elements || value->type.size() * 2 < nest_.space.size()) return;
  int along = -1;
  bool innermost = true;
  for (auto [atom, c] : at.terms) {
    if (atom == inner_.back().atom) innermost = c == 1;
    for (size_t k = 0; k + 1 < inner_.size(); ++k)
      if (inner_[k].atom == atom && c == 1 && inner_[k].extent >= 8) along = static_cast<int>(k);
  }
  if (!innermost && along >= 0 && inner_.back().extent >= 8) across_ = along;
}

Scalar NestWriter::load(const ir::Value* value, const Index& at, size_t a) {
  note_direction(value, at);
  const std::string type = scalar_type(value->type.dtype), p = "p" + num(static_cast<int64_t>(a));
  const bool vector = moves_as_vector(at) && (!emitter_->conditional() || emitter_->hoisted(at, innermost_));
  const std::string wide = "vec<" + type + ", " + num(shape_.vector) + ">";
  auto from = [&](const Index& index) { return "*(const " + wide + "*)(" + p + " + " + space_.text(index) + ")"; };
  if (at == full_ && !emitter_->conditional() && (vector || shape_.vector == 1)) {
    if (auto it = inputs_.find(value); it != inputs_.end()) return emitter_->define(type, it->second + "[k].v[e]", innermost_);
    auto uses = stages_of_.find(value);
    if (uses != stages_of_.end() && *uses->second.rbegin() > stage_ && keeps(static_cast<double>(ir::byte_size(value->type.dtype)) / 4)) {
      const std::string name = emitter_->fresh("x");
      inputs_[value] = name;
      row_arrays_ += wide + " " + name + "[" + num(shape_.turns) + "];\n";
      emitter_->statement(name + "[k] = " + from(vector ? chunk_index(at) : at) + ";", vector ? 2 : innermost_);
      return emitter_->define(type, name + "[k].v[e]", innermost_);
    }
  }
  if (!vector) return emitter_->define(type, p + "[" + space_.text(at) + "]", space_.depth(at));
  const std::string name = emitter_->fresh("x");
  if (emitter_->conditional()) {
    emitter_->statement_before(wide + " " + name + " = {};\nif (" + *emitter_->hoisted(at, innermost_) + ") " + name + " = " + from(chunk_index(at)) + ";", 2);
  } else {
    emitter_->statement("const " + wide + " " + name + " = " + from(chunk_index(at)) + ";", 2);
  }
  return emitter_->define(type, name + ".v[e]", innermost_);
}

std::optional<Scalar> NestWriter::member_leaf(const Member& m, const Index& at) {
  switch (m.kind) {
    case MemberKind::RowReduce:
    case MemberKind::Contraction: {
      auto it = scalars_.find(m.value);
      if (at != row_ || it == scalars_.end()) throw NotFusable{m.value};
      return Scalar{it->second, 1};
    }
    case MemberKind::Row:
      if (at != row_) throw NotFusable{m.value};
      return {};
    case MemberKind::ColumnReduce:
      throw NotFusable{m.value};
    case MemberKind::Full:
      break;
  }
  if (at != full_) throw NotFusable{m.value};
  if (m.stage == stage_ || repeats(m)) return {};
  // Computed by an earlier stage of this row: kept by this lane, or read back from where this lane wrote it.
  if (auto it = locals_.find(m.value); it != locals_.end()) return emitter_->define(scalar_type(m.value->type.dtype), kept(it->second), innermost_);
  return load(m.value, at, arg(m.value, NestArg::Role::Write, m.value->type.bytes()));
}

// True when the large floats that the nest reads and writes, some at least, are all of 16 bits: what is between them needs little more.
bool NestWriter::is_16_bit() const {
  bool some = false, all = true;
  auto look = [&](const ir::Value* value) {
    if (value->type.size() != nest_.space.size() || !ir::is_float(value->type.dtype)) return;
    (ir::byte_size(value->type.dtype) == 2 ? some : all) = ir::byte_size(value->type.dtype) == 2;
  };
  std::for_each(nest_.stored.begin(), nest_.stored.end(), look);
  for (const auto& [value, stages] : stages_of_) look(value);
  return some && all;
}

// 1 + erf(x), the gate of GELU, by the shorter of its formulas where results have 16 bits.
std::optional<Scalar> NestWriter::short_form(const ir::Value* value, const Index& at) {
  if (!halves_ || !value->def || value->def->code != ir::OpCode::Add || value->type.dtype != ir::DType::F32) return {};
  for (size_t side : {size_t{0}, size_t{1}}) {
    const ir::Value *function = canonical(value->def->operand(side)), *one = canonical(value->def->operand(1 - side));
    if (!function->def || function->def->code != ir::OpCode::Erf || members_.find(function) || is_buffer_(function)) continue;
    if (!one->def || one->def->code != ir::OpCode::Constant) continue;
    const ir::Literal& literal = *one->def->attrs.literal("value");
    if (!literal.splat || ir::to_double(literal, 0) != 1) continue;
    const Scalar x = emitter_->pull(function->def->operand(0), at);
    return emitter_->define("float", "s_one_plus_erf(" + x.text + ")", x.depth);
  }
  return {};
}

std::optional<Scalar> NestWriter::leaf(const ir::Value* value, const Index& at) {
  if (const Member* m = members_.find(value)) {
    std::optional<Scalar> known = member_leaf(*m, at);
    return known ? known : short_form(value, at);
  }
  if (!is_buffer_(value)) return short_form(value, at);
  const size_t a = arg(value, NestArg::Role::Read, value->type.bytes());
  if (at != full_) code_.args[a].same_index = false;
  return load(value, at, a);
}

bool NestWriter::is_stored(const ir::Value* value) const { return std::find(nest_.stored.begin(), nest_.stored.end(), value) != nest_.stored.end(); }

void NestWriter::store_full(const Member& m) {
  if (repeats(m) && !is_stored(m.value)) return;
  const Scalar x = emitter_->pull(m.value, full_);
  const std::string type = scalar_type(m.value->type.dtype);
  const bool later = members_.read_later(m) && !repeats(m);
  if (later && keeps(std::max(1.0, static_cast<double>(ir::byte_size(m.value->type.dtype)) / 4))) {
    const std::string name = "w" + num(members_.number(m.value));
    locals_[m.value] = name;
    row_arrays_ += type + " " + name + "[" + num(shape_.turns * shape_.vector) + "];\n";
    emitter_->statement(kept(name) + " = " + x.text + ";", innermost_);
    if (!is_stored(m.value)) return;
  } else if (!later && !is_stored(m.value)) {
    return;
  }
  const std::string p = "p" + num(static_cast<int64_t>(arg(m.value, NestArg::Role::Write, m.value->type.bytes())));
  if (!moves_as_vector(full_)) {
    stores_.push_back(p + "[" + space_.text(full_) + "] = " + x.text + ";");
    return;
  }
  const std::string name = emitter_->fresh("y"), wide = "vec<" + type + ", " + num(shape_.vector) + ">";
  emitter_->statement(wide + " " + name + ";", 2);
  stores_.push_back(name + ".v[e] = " + x.text + ";");
  chunk_stores_ += "*(" + wide + "*)(" + p + " + " + space_.text(chunk_index(full_)) + ") = " + name + ";\n";
}

void NestWriter::store_rows(int known_from) {
  for (const Member& m : members_.list()) {
    if (!(m.kind == MemberKind::Row && m.stage == known_from) && !(m.gives_rows() && m.stage + 1 == known_from)) continue;
    if (!is_stored(m.value) || (m.gives_rows() && shape_.parts > 1 && shape_.dealing == Dealing::Rows)) continue;
    const Scalar x = emitter_->pull(m.value, row_);
    const size_t a = arg(m.value, NestArg::Role::Write, m.value->type.bytes());
    code_.args[a].same_index = false;
    std::string once;
    if (shape_.columns > 1) once = lane_column() + " == 0";
    if (shape_.dealing == Dealing::Rows && shape_.parts > 1) once += std::string(once.empty() ? "" : " && ") + "part == 0";
    if (shape_.blocks > 1) once += std::string(once.empty() ? "" : " && ") + "block == 0";
    emitter_->statement((once.empty() ? "" : "if (" + once + ") ") + "p" + num(static_cast<int64_t>(a)) + "[" + space_.text(row_) + "] = " + x.text + ";", 1);
  }
}

}  // namespace thalweg::codegen::cuda
