// Writes the text of a nest: loops, stages, accumulators, stores.
#include "codegen/nest.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <unordered_map>

#include "codegen/contraction.h"
#include "codegen/nest_members.h"
#include "codegen/scalar_text.h"
#include "support/error.h"

namespace thalweg::codegen {
namespace {

using ir::OpCode;

constexpr int64_t kBlock = 4096;          // inner elements of a unit where the inner loop is cut
constexpr int64_t kStackBytes = 1 << 16;  // of one row-local array
constexpr int64_t kUnrolled = 4;          // turns of a loop that conditions ask for, written out
constexpr int64_t kChunk = 4096;          // elements summed before they join the outer sum

struct LoopVar {
  int atom;
  int64_t extent;
  std::string name;
  DimRole role;
  int64_t stride;  // of one step in F's row-major order
  size_t base;
  int64_t unit;
};

std::string num(int64_t n) { return std::to_string(n); }

// True when a condition in `body` asks for the variable, as where a row is put together from parts: known in each turn, it costs nothing inside of it.
bool decides(const std::string& body, const std::string& variable) {
  for (size_t at = body.find("if ("); at != std::string::npos; at = body.find("if (", at + 1)) {
    const std::string condition = body.substr(at, body.find('\n', at) - at);
    for (size_t found = condition.find(variable); found != std::string::npos; found = condition.find(variable, found + 1))
      if (const size_t end = found + variable.size(); end == condition.size() || !std::isdigit(static_cast<unsigned char>(condition[end]))) return true;
  }
  return false;
}

class Writer {
 public:
  Writer(const Nest& nest, std::vector<BaseDim>& base, const std::function<bool(const ir::Value*)>& is_buffer)
      : nest_(nest), base_(base), is_buffer_(is_buffer), members_(nest, is_buffer), roles_(nest.space.dims.size()) {}

  NestCode write();
  const std::set<std::pair<int, int64_t>>& requests() const { return space_.requests(); }

 private:
  void make_vars();
  void choose_roles();
  std::optional<Scalar> leaf(const ir::Value* value, const Index& at);
  std::optional<Scalar> member_leaf(const Member& member, const Index& at);
  size_t arg(const ir::Value* value, NestArg::Role role, int64_t bytes);
  std::string write_stage(int stage);
  void reduce_member(const Member& member, std::string& before, std::string& inner_before, std::string& inner_after, std::string& after);
  void sequential_reduce(const ir::Op& op, std::string& before, std::string& after);
  void column_member(const Member& member);
  void store_full(const Member& member);
  void store_rows(int known_from);
  std::vector<Scalar> elements(const ir::Op& op);
  std::string loops(const std::string& before, const std::string& after, bool vectorise);
  void plan_columns();
  std::string column_setup();
  std::string decode(const char* from, DimRole role);
  Index linear(DimRole role) const;
  Index inner_linear() const { return linear(DimRole::Inner); }
  bool stored(const ir::Value* value) const { return std::find(nest_.stored.begin(), nest_.stored.end(), value) != nest_.stored.end(); }

  const Nest& nest_;
  std::vector<BaseDim>& base_;
  const std::function<bool(const ir::Value*)>& is_buffer_;
  NestMembers members_;
  std::vector<std::vector<DimRole>> roles_;  // per base dim and its variables, outermost first
  IndexSpace space_;
  std::vector<LoopVar> vars_, inner_;
  std::optional<Emitter> emitter_;
  std::unordered_map<const ir::Value*, std::string> scalars_;  // of finished row reductions
  std::unordered_map<const ir::Value*, std::string> locals_;   // row-local arrays
  std::string arrays_;
  std::vector<std::string> stores_;  // of the stage being written
  std::set<const ir::Op*> done_;     // ops of several results that are written once
  Index full_, row_;
  int stage_ = 0, innermost_ = 2;
  bool blocked_ = false;
  int64_t parts_ = 1, blocks_ = 1, block_ = 0, batches_ = 1;
  NestCode code_;
};

// Elementwise nests loop over their last variables; of others the roles are given.
void Writer::choose_roles() {
  std::vector<std::pair<size_t, int64_t>> extents;  // (base, extent) outermost first
  for (size_t d = 0; d < base_.size(); ++d) {
    int64_t whole = base_[d].extent;
    roles_[d].clear();
    for (auto s = base_[d].splits.rbegin(); s != base_[d].splits.rend(); ++s)
      extents.emplace_back(d, whole / *s), whole = *s, roles_[d].push_back(nest_.space.dims[d].second);
    extents.emplace_back(d, whole), roles_[d].push_back(nest_.space.dims[d].second);
  }
  if (!nest_.space.flexible) return;
  int64_t inside = 1, outside = nest_.space.size();
  for (size_t k = roles_[0].size(); k-- > 0;) {
    const int64_t extent = extents[k].second;
    bool first = k + 1 == roles_[0].size();
    if (!first && (inside >= 512 || outside / extent < 16)) break;
    roles_[0][k] = DimRole::Inner;
    inside *= extent, outside /= extent;
  }
}

void Writer::make_vars() {
  choose_roles();
  int64_t stride = 1;
  int inner_count = 0;
  for (const auto& roles : roles_) inner_count += static_cast<int>(std::count(roles.begin(), roles.end(), DimRole::Inner));
  int depth = 1 + std::max(inner_count, 1);
  innermost_ = depth;
  for (size_t d = base_.size(); d-- > 0;) {
    std::vector<int64_t> cuts(base_[d].splits.begin(), base_[d].splits.end());  // ascending: innermost first
    cuts.push_back(base_[d].extent);
    int64_t unit = 1;
    for (size_t c = 0; c < cuts.size(); ++c) {
      DimRole role = roles_[d][cuts.size() - 1 - c];
      LoopVar var{0, cuts[c] / unit, "v" + num(static_cast<int64_t>(vars_.size())), role, stride * unit, d, unit};
      const int var_depth = role == DimRole::Inner ? depth-- : 1;
      var.atom = space_.add_atom({var.name, 0, var.extent - 1, var_depth, static_cast<int>(d), unit});
      vars_.push_back(var);
      unit = cuts[c];
    }
    stride *= base_[d].extent;
  }
  std::reverse(vars_.begin(), vars_.end());
  for (const LoopVar& var : vars_) {
    full_ = full_ + space_.var(var.atom) * var.stride;
    if (var.role == DimRole::Inner) inner_.push_back(var);
  }
  if (inner_.empty()) {
    LoopVar var{space_.add_atom({"v_", 0, 0, 2, -1, 1}), 1, "v_", DimRole::Inner, 0, 0, 1};
    inner_.push_back(var);
  }
  row_ = linear(DimRole::Row);
}

Index Writer::linear(DimRole role) const {
  Index index;
  int64_t stride = 1;
  for (size_t k = vars_.size(); k-- > 0;) {
    if (vars_[k].role != role) continue;
    index = index + space_.var(vars_[k].atom) * stride;
    stride *= vars_[k].extent;
  }
  return index;
}

size_t Writer::arg(const ir::Value* value, NestArg::Role role, int64_t bytes) {
  for (size_t i = 0; i < code_.args.size(); ++i)
    if (code_.args[i].value == value && code_.args[i].role == role) return i;
  code_.args.push_back({value, role, bytes});
  return code_.args.size() - 1;
}

std::optional<Scalar> Writer::member_leaf(const Member& m, const Index& at) {
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
  if (m.stage == stage_) return {};
  // Computed by an earlier stage of this row: kept in a row-local array, or read back from its buffer.
  const std::string type = scalar_type(m.value->type.dtype);
  if (auto it = locals_.find(m.value); it != locals_.end()) return emitter_->define(type, it->second + "[" + space_.text(inner_linear()) + "]", innermost_);
  size_t a = arg(m.value, NestArg::Role::Write, m.value->type.bytes());
  return emitter_->define(type, "p" + num(static_cast<int64_t>(a)) + "[" + space_.text(at) + "]", innermost_);
}

std::optional<Scalar> Writer::leaf(const ir::Value* value, const Index& at) {
  if (const Member* m = members_.find(value)) return member_leaf(*m, at);
  if (!is_buffer_(value)) return {};
  size_t a = arg(value, NestArg::Role::Read, value->type.bytes());
  if (at != full_) code_.args[a].same_index = false;
  return emitter_->define(scalar_type(value->type.dtype), "p" + num(static_cast<int64_t>(a)) + "[" + space_.text(at) + "]", space_.depth(at));
}

std::vector<Scalar> Writer::elements(const ir::Op& op) {
  if (op.code == OpCode::Reduce) {
    std::vector<Scalar> out;
    for (size_t i = 0; i < op.results.size(); ++i) out.push_back(emitter_->pull(op.operand(i), full_));
    return out;
  }
  std::vector<Index> inner(base_.size() - 1);
  for (const LoopVar& var : vars_)
    if (var.base > 0) inner[var.base - 1] = inner[var.base - 1] + space_.var(var.atom) * var.unit;
  return contraction_elements(*emitter_, op, row_, inner);
}

void Writer::reduce_member(const Member& m, std::string& before, std::string& inner_before, std::string& inner_after, std::string& after) {
  const ir::Op& op = *m.value->def;
  std::optional<Reducer> reducer = simple_reducer(op);
  if (!reducer) {
    if (done_.insert(&op).second) sequential_reduce(op, before, after);
    return;
  }
  const std::string name = emitter_->fresh("a"), local = emitter_->fresh("a"), type = reducer->register_type();
  before += type + " " + name + " = " + reducer->identity(true) + ";\n";
  inner_before += type + " " + local + " = " + reducer->identity(true) + ";\n";
  Scalar x = elements(op)[0];
  emitter_->statement(reducer->accumulate(local, x.text, true), innermost_);
  inner_after += reducer->merge(name, local, true) + "\n";
  const std::string value_type = scalar_type(m.value->type.dtype), result = emitter_->fresh("r");
  std::string total = reducer->result(name, true);
  if (op.code == OpCode::Reduce || op.code == OpCode::ReduceWindow) {
    Scalar init = emitter_->pull(op.operand(op.results.size()), Index());
    std::string acc = emitter_->fresh("a");
    const std::string wide = reducer->memory_type();
    std::string first = reducer->memory_dtype() != reducer->dtype ? "s_convert<float>(" + init.text + ")" : init.text;
    std::string second = reducer->memory_dtype() != reducer->dtype ? "s_convert<float>(" + total + ")" : total;
    after += wide + " " + acc + " = " + first + ";\n" + reducer->merge(acc, second, false) + "\n";
    total = reducer->memory_dtype() != reducer->dtype ? "s_convert<" + value_type + ">(" + acc + ")" : acc;
  }
  after += "const " + value_type + " " + result + " = " + total + ";\n";
  scalars_[m.value] = result;
}

// A region of any form: elements one after the other.
void Writer::sequential_reduce(const ir::Op& op, std::string& before, std::string& after) {
  const size_t n = op.results.size();
  std::vector<Scalar> args;
  for (size_t i = 0; i < n; ++i) {
    const std::string name = emitter_->fresh("a");
    before += scalar_type(op.result(i)->type.dtype) + " " + name + " = " + emitter_->pull(op.operand(n + i), Index()).text + ";\n";
    args.push_back({name, innermost_});
    scalars_[op.result(i)] = name;
  }
  for (Scalar& x : elements(op)) args.push_back({x.text, innermost_});
  std::vector<Scalar> results = emitter_->apply(*op.regions[0], args), kept;
  for (size_t i = 0; i < n; ++i) kept.push_back(emitter_->define(scalar_type(op.result(i)->type.dtype), results[i].text, innermost_));
  for (size_t i = 0; i < n; ++i) emitter_->statement(args[i].text + " = " + kept[i].text + ";", innermost_);
  (void)after;
}

void Writer::column_member(const Member& m) {
  const ir::Op& op = *m.value->def;
  std::optional<Reducer> reducer = simple_reducer(op);
  const std::string at = "[" + space_.text(linear(DimRole::Batch) * nest_.space.size(DimRole::Inner) + inner_linear()) + "]";
  if (reducer) {
    Scalar x = elements(op)[0];
    std::string q = "q" + num(members_.number(m.value));
    emitter_->statement(reducer->accumulate(q + at, x.text, false), innermost_);
    return;
  }
  if (!done_.insert(&op).second) return;
  std::vector<Scalar> args;
  std::vector<std::string> places;
  for (const auto& result : op.results) {
    places.push_back("q" + num(members_.number(result.get())) + at);
    args.push_back(emitter_->define(scalar_type(result->type.dtype), places.back(), innermost_));
  }
  for (Scalar& x : elements(op)) args.push_back({x.text, innermost_});
  std::vector<Scalar> results = emitter_->apply(*op.regions[0], args);
  for (size_t i = 0; i < places.size(); ++i) emitter_->statement(places[i] + " = " + results[i].text + ";", innermost_);
}

void Writer::store_full(const Member& m) {
  Scalar x = emitter_->pull(m.value, full_);
  if (members_.read_later(m)) {
    const int64_t bytes = nest_.space.size(DimRole::Inner) * ir::byte_size(m.value->type.dtype);
    if (bytes <= kStackBytes && !blocked_) {
      std::string name = "w" + num(members_.number(m.value));
      locals_[m.value] = name;
      arrays_ += "alignas(64) " + scalar_type(m.value->type.dtype) + " " + name + "[" + num(nest_.space.size(DimRole::Inner)) + "];\n";
      emitter_->statement(name + "[" + space_.text(inner_linear()) + "] = " + x.text + ";", innermost_);
      if (!stored(m.value)) return;
    }
  } else if (!stored(m.value)) {
    return;
  }
  size_t a = arg(m.value, NestArg::Role::Write, m.value->type.bytes());
  stores_.push_back("p" + num(static_cast<int64_t>(a)) + "[" + space_.text(full_) + "] = " + x.text + ";");
}

void Writer::store_rows(int known_from) {
  for (const Member& m : members_.list()) {
    if (!(m.kind == MemberKind::Row && m.stage == known_from) && !(m.gives_rows() && m.stage + 1 == known_from)) continue;
    if (!stored(m.value)) continue;
    Scalar x = emitter_->pull(m.value, row_);
    size_t a = arg(m.value, NestArg::Role::Write, m.value->type.bytes());
    code_.args[a].same_index = false;
    emitter_->statement("p" + num(static_cast<int64_t>(a)) + "[" + space_.text(row_) + "] = " + x.text + ";", 1);
  }
}

std::string Writer::loops(const std::string& before, const std::string& after, bool vectorise) {
  std::string text;
  for (size_t k = inner_.size(); k-- > 0;) {
    const LoopVar& var = inner_[k];
    const bool last = k + 1 == inner_.size();
    const std::string body = emitter_->take(2 + static_cast<int>(k)) + text;
    std::string low = "0", high = num(var.extent), open, close;
    if (last && blocked_) low = "low", high = "high";
    if (last && !before.empty() && var.extent > 2 * kChunk) {
      open = "for (int64_t chunk = 0; chunk < " + high + "; chunk += " + num(kChunk) + ") {\nconst int64_t stop = chunk + " + num(kChunk) + " < " + high +
             " ? chunk + " + num(kChunk) + " : " + high + ";\n";
      close = "}\n";
      low = "chunk", high = "stop";
    }
    std::string loop = "for (int64_t " + var.name + " = " + low + "; " + var.name + " < " + high + "; ++" + var.name + ") {\n" + body + "}\n";
    if (var.extent == 1 && !(last && blocked_)) loop = "{\n" + body + "}\n";
    if (!last && var.extent <= kUnrolled && decides(body, var.name)) {
      loop.clear();
      for (int64_t i = 0; i < var.extent; ++i) loop += "{\nconst int64_t " + var.name + " = " + num(i) + ";\n" + body + "}\n";
    }
    // Short rows that do not fill whole vectors are masked instead of finished one by one.
    const bool masked = var.extent < 512 && var.extent % 32 != 0;
    if (last && vectorise && var.extent >= 4)
      loop = std::string("#pragma clang loop vectorize(assume_safety)") + (masked ? " vectorize_predicate(enable)" : "") + "\n" + loop;
    text = last ? open + before + loop + after + close : loop;
  }
  return text;
}

std::string Writer::write_stage(int stage) {
  stage_ = stage;
  std::string before, inner_before, inner_after, after;
  bool vectorise = true, any = false;
  for (const Member& m : members_.list()) {
    if (m.stage != stage || m.kind == MemberKind::Row) continue;
    any = true;
    switch (m.kind) {
      case MemberKind::Full:
        store_full(m);
        break;
      case MemberKind::ColumnReduce:
        vectorise &= simple_reducer(*m.value->def).has_value();
        column_member(m);
        break;
      default:
        vectorise &= simple_reducer(*m.value->def).has_value();
        reduce_member(m, before, inner_before, inner_after, after);
    }
  }
  // Stores come last: a result may lie where an argument does, whose element is then read before it is overwritten.
  for (const std::string& store : stores_) emitter_->statement(store, innermost_);
  stores_.clear();
  if (!any) return {};
  std::string head = emitter_->flush(1) + before, body = loops(inner_before, inner_after, vectorise);
  return head + body + after;
}

void Writer::plan_columns() {
  const int64_t rows = nest_.space.size(DimRole::Row), inner = nest_.space.size(DimRole::Inner);
  batches_ = nest_.space.has(DimRole::Batch) ? nest_.space.size(DimRole::Batch) : 1;
  const int64_t work = rows * inner;
  if (inner_.size() == 1 && !members_.reduces() && inner_[0].extent > kBlock / 2) blocked_ = true, block_ = 1024;
  if (blocked_) blocks_ = (inner_[0].extent + block_ - 1) / block_;
  bool simple = true;
  for (const Member& m : members_.list())
    if (m.kind == MemberKind::ColumnReduce) simple &= simple_reducer(*m.value->def).has_value();
  if (!simple) return;
  if (batches_ * blocks_ >= 32) return;
  parts_ = std::clamp<int64_t>(work / 16384, 1, std::max<int64_t>(1, std::min<int64_t>(64, rows / 8)));
}

// Declares and fills the accumulators of one unit.
std::string Writer::column_setup() {
  std::string text;
  const std::string offset = space_.text(linear(DimRole::Batch) * nest_.space.size(DimRole::Inner));
  const std::string low = blocked_ ? "low" : "0", high = blocked_ ? "high" : num(nest_.space.size(DimRole::Inner));
  for (const Member& m : members_.list()) {
    if (m.kind != MemberKind::ColumnReduce) continue;
    const ir::Op& op = *m.value->def;
    std::optional<Reducer> reducer = simple_reducer(op);
    const std::string q = "q" + num(members_.number(m.value));
    const bool partial = reducer && (parts_ > 1 || reducer->memory_dtype() != reducer->dtype);
    const std::string type = reducer ? reducer->memory_type() : scalar_type(m.value->type.dtype);
    const int64_t bytes = partial ? parts_ * m.value->type.size() * ir::byte_size(reducer->memory_dtype()) : m.value->type.bytes();
    size_t a = arg(m.value, partial ? NestArg::Role::Partial : NestArg::Role::Write, bytes);
    code_.args[a].same_index = false;
    if (partial) code_.partials.push_back({m.value, *reducer, parts_, a});
    std::string first = partial ? reducer->identity(false) : emitter_->pull(op.operand(op.results.size() + m.value->index), Index()).text;
    text += type + "* const " + q + " = p" + num(static_cast<int64_t>(a)) + (partial ? " + part * " + num(m.value->type.size()) : "") + ";\n";
    text += "for (int64_t i = " + low + "; i < " + high + "; ++i) " + q + "[" + offset + " + i] = " + first + ";\n";
  }
  return text;
}

std::string Writer::decode(const char* from, DimRole role) {
  std::vector<const LoopVar*> list;
  for (const LoopVar& var : vars_)
    if (var.role == role) list.push_back(&var);
  std::string text;
  int64_t stride = 1;
  for (size_t k = list.size(); k-- > 0;) {
    std::string value = from;
    if (stride > 1) value = "(" + value + " / " + num(stride) + ")";
    if (k > 0) value += " % " + num(list[k]->extent);
    text += "const int64_t " + list[k]->name + " = " + value + ";\n";
    stride *= list[k]->extent;
  }
  return text;
}

NestCode Writer::write() {
  make_vars();
  emitter_.emplace(space_, [this](const ir::Value* v, const Index& at) { return leaf(v, at); }, innermost_ + 1);
  const int64_t rows = nest_.space.flexible ? 0 : nest_.space.size(DimRole::Row);
  int64_t outer = 1, inner_size = 1;
  for (const LoopVar& var : vars_)
    if (var.role != DimRole::Inner) outer *= var.extent;
  for (const LoopVar& var : inner_) inner_size *= var.extent;
  if (members_.columns()) plan_columns();
  if (!members_.columns() && !members_.reduces() && inner_.size() == 1 && inner_[0].extent > 2 * kBlock) {
    blocked_ = true, block_ = kBlock, blocks_ = (inner_[0].extent + block_ - 1) / block_;
  }
  std::string setup = members_.columns() ? column_setup() : "";
  store_rows(0);
  std::string row = emitter_->flush(1);
  for (int stage = 0; stage < members_.stages(); ++stage) {
    row += write_stage(stage);
    store_rows(stage + 1);
    row += emitter_->flush(1);
  }
  std::string invariant = emitter_->flush(0), text;
  for (size_t i = 0; i < code_.args.size(); ++i) {
    const NestArg& a = code_.args[i];
    std::string type = scalar_type(a.value->type.dtype);
    if (a.role == NestArg::Role::Partial) type = simple_reducer(*a.value->def)->memory_type();
    text += (a.role == NestArg::Role::Read ? "const " : "") + type + "* const p" + num(static_cast<int64_t>(i)) + " = (" +
            (a.role == NestArg::Role::Read ? "const " : "") + type + "*)args[" + num(static_cast<int64_t>(i)) + "];\n";
  }
  std::string unit;
  if (blocked_) {
    const std::string extent = num(inner_[0].extent), size = num(block_);
    unit += "const int64_t low = u % " + num(blocks_) + " * " + size + ", high = low + " + size + " < " + extent + " ? low + " + size + " : " + extent + ";\n";
  }
  const std::string over = blocks_ > 1 ? "(u / " + num(blocks_) + ")" : "u";
  if (members_.columns()) {
    unit += "const int64_t part = " + over + " % " + num(parts_) + ", batch = " + over + " / " + num(parts_) + ";\n" + decode("batch", DimRole::Batch) + setup;
    unit += "for (int64_t r = " + num(rows) + " * part / " + num(parts_) + "; r < " + num(rows) + " * (part + 1) / " + num(parts_) + "; ++r) {\n" +
            decode("r", DimRole::Row) + row + "}\n";
    code_.units = batches_ * parts_ * blocks_;
  } else {
    unit += decode(over.c_str(), DimRole::Row) + row;
    code_.units = outer * blocks_;
  }
  code_.body = text + invariant + arrays_ + "for (int64_t u = begin; u < end; ++u) {\n" + unit + "}\n";
  code_.divisions = space_.divisions();
  const double statements = static_cast<double>(std::count(row.begin(), row.end(), ';'));
  code_.unit_cost =
      static_cast<double>(outer) * static_cast<double>(inner_size) / static_cast<double>(std::max<int64_t>(1, code_.units)) * std::max(1.0, statements / 2);
  if (members_.stages() > 1 || members_.columns() || members_.reduces())
    for (NestArg& a : code_.args) a.same_index = false;
  return std::move(code_);
}

}  // namespace

NestCode write_nest(const Nest& nest, const std::function<bool(const ir::Value*)>& is_buffer) {
  std::vector<BaseDim> base;
  for (auto [extent, role] : nest.space.dims) base.push_back({extent, {}});
  while (true) {
    Writer writer(nest, base, is_buffer);
    NestCode code = writer.write();
    bool changed = false;
    for (auto [dim, block] : writer.requests()) changed |= add_split(base[dim], block);
    if (!changed) return code;
  }
}

NestCode write_combine(const NestPartial& partial, const ir::Value* initial) {
  NestCode code;
  const Reducer& reducer = partial.reducer;
  const int64_t size = partial.result->type.size(), width = 256;
  const std::string wide = reducer.memory_type(), type = scalar_type(partial.result->type.dtype);
  code.args = {{partial.result, NestArg::Role::Partial, 0, false}, {partial.result, NestArg::Role::Write, partial.result->type.bytes(), false}};
  std::string first, declare;
  if (initial->def && initial->def->code == OpCode::Constant) {
    first = literal_text(*initial->def->attrs.literal("value"), 0);
  } else {
    code.args.push_back({initial, NestArg::Role::Read, initial->type.bytes(), false});
    declare = "const " + type + "* const p2 = (const " + type + "*)args[2];\n", first = "*p2";
  }
  if (reducer.memory_dtype() != reducer.dtype) first = "s_convert<float>(" + first + ")";
  code.units = (size + width - 1) / width;
  code.unit_cost = static_cast<double>(partial.parts * width);
  code.body = "const " + wide + "* const p0 = (const " + wide + "*)args[0];\n" + type + "* const p1 = (" + type + "*)args[1];\n" + declare + wide + " sum[" +
              num(width) + "];\nfor (int64_t u = begin; u < end; ++u) {\nconst int64_t low = u * " + num(width) + ", n = " + num(size) + " - low < " +
              num(width) + " ? " + num(size) + " - low : " + num(width) + ";\nfor (int64_t i = 0; i < n; ++i) sum[i] = " + first +
              ";\nfor (int64_t part = 0; part < " + num(partial.parts) + "; ++part) {\nconst " + wide + "* const row = p0 + part * " + num(size) +
              " + low;\n#pragma clang loop vectorize(assume_safety)\nfor (int64_t i = 0; i < n; ++i) { " + reducer.merge("sum[i]", "row[i]", false) +
              " }\n}\n#pragma clang loop vectorize(assume_safety)\nfor (int64_t i = 0; i < n; ++i) p1[low + i] = " + reducer.result("sum[i]", false) + ";\n}\n";
  return code;
}

}  // namespace thalweg::codegen
