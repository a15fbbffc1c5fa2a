// Loops of nests for GPUs: variables, units, stages.
#include "codegen/cuda/nest_writer.h"

#include <algorithm>

#include "codegen/scalar_text.h"
#include "support/error.h"

namespace thalweg::codegen::cuda {
namespace {

std::string num(int64_t n) { return std::to_string(n); }

}  // namespace

NestWriter::NestWriter(const Nest& nest, const std::vector<BaseDim>& base, const IsBuffer& is_buffer, int multiprocessors, const Attempt& attempt)
    : nest_(nest),
      base_(base),
      is_buffer_(is_buffer),
      multiprocessors_(multiprocessors),
      integer_(attempt.wide ? "int64_t" : "int"),
      unsigned_(attempt.wide ? "uint64_t" : "unsigned"),
      attempt_(attempt),
      members_(nest, is_buffer) {
  find_uses();
}

NestWork NestWriter::measure() const {
  NestWork work;
  work.elements = nest_.space.flexible;
  work.most_kept = attempt_.most_kept;
  work.rows = nest_.space.size(DimRole::Row), work.batches = nest_.space.size(DimRole::Batch);
  work.inner = work.elements ? nest_.space.size() : nest_.space.size(DimRole::Inner);
  work.inner_loops = 0;
  for (size_t d = 0; d < base_.size(); ++d) {
    if (!work.elements && nest_.space.dims[d].second != DimRole::Inner) continue;
    work.inner_loops += base_[d].splits.size() + 1;
    work.last = base_[d].splits.empty() ? base_[d].extent : *base_[d].splits.begin();
  }
  work.element_bytes = 16, work.accumulator_bytes = 4;
  auto moved = [&](const ir::Value* value) {
    if (value->type.size() * 2 >= nest_.space.size())
      work.element_bytes = std::min<int>(work.element_bytes, static_cast<int>(ir::byte_size(value->type.dtype)));
  };
  std::for_each(nest_.stored.begin(), nest_.stored.end(), moved);
  for (const auto& [value, stages] : stages_of_) moved(value);
  for (const Member& m : members_.list()) {
    const bool simple = (m.gives_rows() || m.kind == MemberKind::ColumnReduce) && simple_reducer(*m.value->def).has_value();
    if (m.gives_rows()) work.simple_rows &= simple;
    if (m.kind == MemberKind::ColumnReduce) {
      work.simple_columns &= simple;
      work.accumulator_bytes = std::max<int>(work.accumulator_bytes, static_cast<int>(ir::byte_size(m.value->type.dtype)));
    }
    const double registers = std::max(1.0, static_cast<double>(ir::byte_size(m.value->type.dtype)) / 4);
    if (m.kind == MemberKind::ColumnReduce || (m.kind == MemberKind::Full && !repeats(m) && members_.read_later(m))) work.registers += registers;
  }
  for (const auto& [value, stages] : stages_of_)
    if (stages.size() > 1) work.registers += static_cast<double>(ir::byte_size(value->type.dtype)) / 4;
  return work;
}

void NestWriter::make_vars() {
  int64_t stride = 1;
  int nested_depth = 1;
  if (shape_.nested)
    for (size_t d = 0; d < base_.size(); ++d) nested_depth += nest_.space.dims[d].second == DimRole::Inner ? static_cast<int>(base_[d].splits.size()) + 1 : 0;
  if (shape_.nested) innermost_ = std::max(nested_depth, 2);
  bool innermost = true;
  for (size_t d = base_.size(); d-- > 0;) {
    std::vector<int64_t> cuts(base_[d].splits.begin(), base_[d].splits.end());  // ascending: innermost first
    cuts.push_back(base_[d].extent);
    int64_t unit = 1;
    for (int64_t cut : cuts) {
      LoopVar var{0, cut / unit, "v" + num(static_cast<int64_t>(vars_.size())), nest_.space.dims[d].second, stride * unit, d, unit};
      int depth = 1;
      if (is_inner(var)) depth = shape_.nested ? nested_depth-- : innermost ? innermost_ : 2;
      var.atom = space_.add_atom({var.name, 0, var.extent - 1, depth, static_cast<int>(d), unit});
      if (is_inner(var) && innermost && shape_.vector > 1) chunk_atom_ = space_.add_atom({var.name + "b", 0, var.extent - shape_.vector, 2, -1, 1});
      if (is_inner(var)) innermost = false;
      vars_.push_back(var);
      unit = cut;
    }
    stride *= base_[d].extent;
  }
  std::reverse(vars_.begin(), vars_.end());
  for (const LoopVar& var : vars_) {
    full_ = full_ + space_.var(var.atom) * var.stride;
    if (is_inner(var)) inner_.push_back(var);
  }
  row_ = linear(DimRole::Row);
}

Index NestWriter::linear(DimRole role) const {
  Index index;
  int64_t stride = 1;
  for (size_t k = vars_.size(); k-- > 0;) {
    if (vars_[k].role != role) continue;
    index = index + space_.var(vars_[k].atom) * stride;
    stride *= vars_[k].extent;
  }
  return index;
}

std::string NestWriter::decode(const std::string& from, DimRole role) const {
  std::vector<const LoopVar*> list;
  for (const LoopVar& var : vars_)
    if (var.role == role && !is_inner(var)) list.push_back(&var);
  std::string text;
  int64_t stride = 1;
  for (size_t k = list.size(); k-- > 0;) {
    std::string value = from;
    if (stride > 1) value = "(" + unsigned_ + ")" + value + " / " + num(stride) + "u";
    if (k > 0) value = "(" + unsigned_ + ")(" + value + ") % " + num(list[k]->extent) + "u";
    text += "const " + integer_ + " " + list[k]->name + " = (" + integer_ + ")(" + value + ");\n";
    stride *= list[k]->extent;
  }
  return text;
}

// The inner variables from the chunk `c` of the row.
std::string NestWriter::chunk_decode() const {
  std::string text;
  int64_t stride = 1;
  for (size_t k = inner_.size(); k-- > 0;) {
    const bool last = k + 1 == inner_.size(), wide = last && shape_.vector > 1;
    const int64_t extent = last ? inner_[k].extent / shape_.vector : inner_[k].extent;
    std::string value = "c";
    if (stride > 1) value = "(" + unsigned_ + ")" + value + " / " + num(stride) + "u";
    if (k > 0) value = "(" + unsigned_ + ")(" + value + ") % " + num(extent) + "u";
    text += "const " + integer_ + " " + inner_[k].name + (wide ? "b" : "") + " = (" + integer_ + ")(" + value + ")" + (wide ? " * " + num(shape_.vector) : "") +
            ";\n";
    stride *= extent;
  }
  return text;
}

// Where a loop of the elements read goes another way than the innermost one, the threads of a warp take a patch of both: `patch_` along that loop, and as many
// chunks as are left.
std::string NestWriter::patch_decode() const {
  const LoopVar& along = inner_[static_cast<size_t>(attempt_.across)];
  const int64_t chunks = inner_.back().extent / shape_.vector, aside = 32 / patch_, rows = (along.extent + patch_ - 1) / patch_,
                columns = (chunks + aside - 1) / aside;
  const std::string type = "const " + integer_ + " ", as = "(" + unsigned_ + ")";
  std::string text = type + "in_patch = c % 32, patch = (" + integer_ + ")(" + as + "c / 32u);\n" + type + along.name + " = (" + integer_ + ")(" + as +
                     "patch % " + num(rows) + "u) * " + num(patch_) + " + in_patch % " + num(patch_) + ", chunk = (" + integer_ + ")(" + as + "patch / " +
                     num(rows) + "u % " + num(columns) + "u) * " + num(aside) + " + in_patch / " + num(patch_) + ";\n";
  text += type + inner_.back().name + (shape_.vector > 1 ? "b" : "") + " = chunk * " + num(shape_.vector) + ";\n";
  int64_t stride = rows * columns;
  for (size_t k = inner_.size() - 1; k-- > 0;) {
    if (static_cast<int>(k) == attempt_.across) continue;
    text += type + inner_[k].name + " = (" + integer_ + ")(" + as + "patch / " + num(stride) + "u % " + num(inner_[k].extent) + "u);\n";
    stride *= inner_[k].extent;
  }
  return text;
}

int64_t NestWriter::patch_units() const {
  int64_t units = 32;
  for (size_t k = 0; k < inner_.size(); ++k) {
    const bool last = k + 1 == inner_.size();
    const int64_t extent = last ? inner_[k].extent / shape_.vector : inner_[k].extent;
    const int64_t patch = static_cast<int>(k) == attempt_.across ? patch_ : last ? 32 / patch_ : 1;
    units *= (extent + patch - 1) / patch;
  }
  return units;
}

// One chunk: what its elements share, then each element, then the stores of vectors.
std::string NestWriter::guarded_chunk(const std::string& body) const {
  if (shape_.dealing == Dealing::Elements) {
    if (attempt_.across < 0) return body;
    const LoopVar& along = inner_[static_cast<size_t>(attempt_.across)];
    return "if (" + along.name + " < " + num(along.extent) + " && chunk < " + num(inner_.back().extent / shape_.vector) + ") {\n" + body + "}\n";
  }
  const bool aligned =
      shape_.chunks % (shape_.dealing == Dealing::Columns ? int64_t{shape_.columns} * shape_.turns * shape_.blocks : shape_.lanes * shape_.turns) == 0;
  return aligned ? body : "if (c < " + num(shape_.chunks) + ") {\n" + body + "}\n";
}

std::string NestWriter::loops() {
  if (shape_.nested) {
    std::string text;
    for (size_t k = inner_.size(); k-- > 0;) {
      text = emitter_->take(2 + static_cast<int>(k)) + text;
      text = "for (" + integer_ + " " + inner_[k].name + " = 0; " + inner_[k].name + " < " + num(inner_[k].extent) + "; ++" + inner_[k].name + ") {\n" + text +
             "}\n";
    }
    if (inner_.empty()) text = "{\n" + emitter_->take(2) + "}\n";
    return text;
  }
  const std::string each = emitter_->take(3), shared = emitter_->take(2);
  std::string body = (attempt_.across < 0 ? chunk_decode() : "") + shared;
  if (shape_.vector > 1) {
    const std::string& v = inner_.back().name;
    body += "#pragma unroll\nfor (int e = 0; e < " + num(shape_.vector) + "; ++e) {\nconst " + integer_ + " " + v + " = " + v + "b + e;\n" + each + "}\n";
  } else {
    body += "{\nconstexpr int e = 0;\n" + each + "}\n";
  }
  body += std::exchange(chunk_stores_, {});
  const int64_t statements = std::count(each.begin(), each.end(), ';') * shape_.vector + std::count(shared.begin(), shared.end(), ';');
  unrolled_statements_ = std::max(unrolled_statements_, statements * (shape_.unrolled ? shape_.turns : 1));
  return repeated(body);
}

// The loop of a lane over its chunks.
std::string NestWriter::repeated(const std::string& body) const {
  if (shape_.dealing == Dealing::Elements)
    return "const " + integer_ + " c = (" + integer_ + ")u;\n" + (attempt_.across < 0 ? "" : patch_decode()) + guarded_chunk(body);
  const std::string lane = lane_column(), lanes = num(shape_.columns), chunks = num(shape_.chunks);
  if (shape_.ordered) {
    const std::string low = "(" + integer_ + ")((int64_t)" + chunks + " * " + lane + " / " + lanes + ")",
                      high = "(" + integer_ + ")((int64_t)" + chunks + " * (" + lane + " + 1) / " + lanes + ")";
    return "for (" + integer_ + " c = " + low + ", last = " + high + "; c < last; ++c) {\n" + body + "}\n";
  }
  if (shape_.dealing == Dealing::Rows && shape_.parts > 1) {
    const std::string parts = num(shape_.parts);
    return "for (" + integer_ + " c = (" + integer_ + ")((int64_t)" + chunks + " * part / " + parts + ") + lane, last = (" + integer_ + ")((int64_t)" + chunks +
           " * (part + 1) / " + parts + "); c < last; c += " + lanes + ") {\n" + body + "}\n";
  }
  if (shape_.turns == 1 && shape_.blocks == 1) return "{\nconstexpr int k = 0;\nconst " + integer_ + " c = " + lane + ";\n" + guarded_chunk(body) + "}\n";
  const std::string first = shape_.blocks > 1 ? "(block * " + num(shape_.turns) + " + k) * " + lanes : "k * " + lanes;
  return std::string(shape_.unrolled ? "#pragma unroll\n" : "#pragma unroll 4\n") + "for (int k = 0; k < " + num(shape_.turns) + "; ++k) {\nconst " + integer_ +
         " c = " + first + " + " + lane + ";\n" + guarded_chunk(body) + "}\n";
}

std::string NestWriter::write_stage(int stage) {
  stage_ = stage;
  std::string before, after;
  bool any = false;
  for (const Member& m : members_.list()) {
    if (m.stage != stage || m.kind == MemberKind::Row || (repeats(m) && !is_stored(m.value))) continue;
    any = true;
    if (m.kind == MemberKind::Full) {
      store_full(m);
    } else if (m.kind == MemberKind::ColumnReduce) {
      column_member(m);
    } else {
      reduce_member(m, before, after);
    }
  }
  // Stores come last: a result may lie where an argument does, whose element is then read before it is overwritten.
  for (const std::string& store : stores_) emitter_->statement(store, innermost_);
  stores_.clear();
  if (!any) return {};
  std::string text = emitter_->flush(1) + before;
  text += loops() + after;
  for (const Fold& f : std::exchange(folds_, {})) text += finish_fold(f);
  return text;
}

std::string NestWriter::pointers() const {
  std::string text;
  for (size_t i = 0; i < code_.args.size(); ++i) {
    const NestArg& a = code_.args[i];
    std::string type = scalar_type(a.value->type.dtype);
    if (a.role == NestArg::Role::Partial) type = simple_reducer(*a.value->def)->memory_type();
    if (a.role == NestArg::Role::Read) type = "const " + type;
    text += type + "* const p" + num(static_cast<int64_t>(i)) + " = (" + type + "*)args[" + num(static_cast<int64_t>(i)) + "];\n";
  }
  return text;
}

// What a unit is: a row, a part of one, or a block of columns of a range of rows.
std::string NestWriter::unit_head() const {
  const std::string declare = "const " + integer_ + " ";
  if (shape_.dealing == Dealing::Elements) return {};
  if (shape_.dealing == Dealing::Rows) {
    if (shape_.parts == 1) return declare + "row = (" + integer_ + ")u;\n" + decode("row", DimRole::Row);
    return declare + "part = (" + integer_ + ")(u % " + num(shape_.parts) + "), row = (" + integer_ + ")(u / " + num(shape_.parts) + ");\n" +
           decode("row", DimRole::Row);
  }
  const std::string blocks = num(shape_.blocks), parts = num(shape_.parts);
  return declare + "block = (" + integer_ + ")(u % " + blocks + "), part = (" + integer_ + ")(u / " + blocks + " % " + parts + "), batch = (" + integer_ +
         ")(u / " + blocks + " / " + parts + ");\nconst int column = lane % " + num(shape_.columns) + ", aside = lane / " + num(shape_.columns) + ";\n" +
         decode("batch", DimRole::Batch);
}

// What is not read and written once an element at its own place.
void NestWriter::limit_args() {
  if (members_.stages() > 1 || members_.columns() || members_.reduces())
    for (NestArg& a : code_.args) a.same_index = false;
}

NestCode NestWriter::write() {
  shape_ = choose_shape(measure(), members_, multiprocessors_);
  make_vars();
  if (attempt_.across >= 0) patch_ = std::clamp<int64_t>(32 / measure().element_bytes, 4, 16);
  emitter_.emplace(space_, [this](const ir::Value* v, const Index& at) { return leaf(v, at); }, innermost_ + 1);
  if (shape_.vector > 1) emitter_->hoist();
  std::string setup = members_.columns() ? column_setup() : "";
  store_rows(0);
  std::string row = emitter_->flush(1);
  for (int stage = 0; stage < members_.stages(); ++stage) {
    row += write_stage(stage);
    store_rows(stage + 1);
    row += emitter_->flush(1);
  }
  row = row_arrays_ + row;
  // With one use of shared memory a row the next row's must wait for it; of several each waits for another one's barrier.
  if (slots_ == 1) row += "group_barrier<" + num(shape_.columns) + ">();\n";
  std::string unit = unit_head();
  if (members_.columns()) {
    const std::string rows = num(nest_.space.size(DimRole::Row)), parts = num(shape_.parts);
    unit += setup + "for (" + integer_ + " row = (" + integer_ + ")((int64_t)" + rows + " * part / " + parts + ") + aside, end_row = (" + integer_ +
            ")((int64_t)" + rows + " * (part + 1) / " + parts + "); row < end_row; row += " + num(shape_.rows_aside()) + ") {\n" + decode("row", DimRole::Row) +
            row + "}\n" + column_end();
    code_.units = nest_.space.size(DimRole::Batch) * shape_.parts * shape_.blocks;
  } else {
    unit += row;
    code_.units = shape_.dealing == Dealing::Elements ? (attempt_.across < 0 ? shape_.chunks : patch_units()) : nest_.space.size(DimRole::Row) * shape_.parts;
  }
  const std::string invariant = emitter_->flush(0);
  code_.body = pointers() + invariant + "for (int64_t u = begin; u < end; ++u) {\n" + unit + "}\n";
  code_.divisions = space_.divisions();
  code_.lanes = shape_.lanes;
  code_.shared_bytes = static_cast<int>(shared_);
  const double statements = static_cast<double>(std::count(row.begin(), row.end(), ';'));
  code_.unit_cost = static_cast<double>(nest_.space.size()) / static_cast<double>(std::max<int64_t>(1, code_.units)) * std::max(1.0, statements / 2);
  limit_args();
  return std::move(code_);
}

}  // namespace thalweg::codegen::cuda
