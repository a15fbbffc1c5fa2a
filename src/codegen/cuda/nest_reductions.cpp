// Reductions of nests for GPUs: what a lane puts together, and how the lanes of a group do.
#include <algorithm>

#include "codegen/contraction.h"
#include "codegen/cuda/nest_writer.h"
#include "codegen/scalar_text.h"

namespace thalweg::codegen::cuda {
namespace {

std::string num(int64_t n) { return std::to_string(n); }

// "s_convert<float>(x)" where the sum is kept wider than the value.
std::string widened(const Reducer& reducer, const std::string& x) { return reducer.memory_dtype() != reducer.dtype ? "s_convert<float>(" + x + ")" : x; }

}  // namespace

std::vector<Scalar> NestWriter::elements(const ir::Op& op) {
  if (op.code == ir::OpCode::Reduce) {
    std::vector<Scalar> out;
    for (size_t i = 0; i < op.results.size(); ++i) out.push_back(emitter_->pull(op.operand(i), full_));
    return out;
  }
  std::vector<Index> inner(base_.size() - 1);
  for (const LoopVar& var : vars_)
    if (var.base > 0) inner[var.base - 1] = inner[var.base - 1] + space_.var(var.atom) * var.unit;
  return contraction_elements(*emitter_, op, row_, inner);
}

// Room for one value of each of the row's warps.
std::string NestWriter::shared_slot(int64_t bytes) {
  if (shape_.columns <= 32) return "shared";
  const std::string slot = "shared + " + num(shared_);
  shared_ += (shape_.columns / 32 * bytes + 15) / 16 * 16;
  ++slots_;
  return slot;
}

void NestWriter::reduce_member(const Member& m, std::string& before, std::string& after) {
  const ir::Op& op = *m.value->def;
  const std::optional<Reducer> reducer = simple_reducer(op);
  if (!reducer) {
    if (done_.insert(&op).second) fold(op, before);
    return;
  }
  const std::string name = emitter_->fresh("a"), type = reducer->memory_type();
  before += type + " " + name + " = " + reducer->identity(false) + ";\n";
  const Scalar x = elements(op)[0];
  emitter_->statement(reducer->accumulate(name, x.text, false), innermost_);
  if (shape_.columns > 1)
    after += name + " = across<" + num(shape_.columns) + ">(" + name + ", " + lane_column() + ", " + shared_slot(ir::byte_size(reducer->memory_dtype())) +
             ", [](const " + type + "& x, const " + type + "& y) { " + type + " z = x; " + reducer->merge("z", "y", false) + " return z; });\n";
  if (shape_.dealing == Dealing::Rows && shape_.parts > 1) {  // other groups have the rest of the row
    const int64_t rows = m.value->type.size();
    const size_t a = arg(m.value, NestArg::Role::Partial, shape_.parts * rows * ir::byte_size(reducer->memory_dtype()));
    code_.partials.push_back({m.value, *reducer, shape_.parts, a});
    after += "if (lane == 0) p" + num(static_cast<int64_t>(a)) + "[(int64_t)part * " + num(rows) + " + row] = " + name + ";\n";
    return;
  }
  const std::string value_type = scalar_type(m.value->type.dtype), result = emitter_->fresh("r");
  if (op.code == ir::OpCode::Reduce || op.code == ir::OpCode::ReduceWindow) {
    const Scalar init = emitter_->pull(op.operand(op.results.size()), Index());
    const std::string sum = emitter_->fresh("a");
    after += type + " " + sum + " = " + widened(*reducer, init.text) + ";\n" + reducer->merge(sum, name, false) + "\n";
    after += "const " + value_type + " " + result + " = " + reducer->result(sum, false) + ";\n";
  } else {
    after += "const " + value_type + " " + result + " = " + reducer->result(name, false) + ";\n";
  }
  scalars_[m.value] = result;
}

// A region of any form: each lane goes over neighbouring elements in order, beginning with the first one instead of the initial value.
void NestWriter::fold(const ir::Op& op, std::string& before) {
  const size_t n = op.results.size();
  Fold f{&op, emitter_->fresh("Fold"), emitter_->fresh("f")};
  before += "struct " + f.type + " { ";
  std::vector<Scalar> args;
  for (size_t i = 0; i < n; ++i) {
    before += scalar_type(op.result(i)->type.dtype) + " x" + num(static_cast<int64_t>(i)) + "; ";
    args.push_back({f.state + ".x" + num(static_cast<int64_t>(i)), innermost_});
  }
  before += "bool any; } " + f.state + " = {};\n";
  const std::vector<Scalar> xs = elements(op);
  args.insert(args.end(), xs.begin(), xs.end());
  std::vector<Scalar> results = emitter_->apply(*op.regions[0], args), next;
  for (size_t i = 0; i < n; ++i)
    next.push_back(emitter_->define(scalar_type(op.result(i)->type.dtype), f.state + ".any ? " + results[i].text + " : " + xs[i].text, innermost_));
  for (size_t i = 0; i < n; ++i) emitter_->statement(args[i].text + " = " + next[i].text + ";", innermost_);
  emitter_->statement(f.state + ".any = true;", innermost_);
  folds_.push_back(f);
}

// The lanes' totals in the order of their elements, behind the initial value.
std::string NestWriter::finish_fold(const Fold& f) {
  const size_t n = f.op->results.size();
  int64_t bytes = 8;
  for (size_t i = 0; i < n; ++i) bytes += std::max<int64_t>(8, ir::byte_size(f.op->result(i)->type.dtype));
  std::string text;
  if (shape_.columns > 1) {
    std::vector<Scalar> args;
    for (const char* side : {"x", "y"})
      for (size_t i = 0; i < n; ++i) args.push_back({std::string(side) + ".x" + num(static_cast<int64_t>(i)), innermost_});
    const std::vector<Scalar> results = emitter_->apply(*f.op->regions[0], args);
    std::string joined;
    for (const Scalar& result : results) joined += result.text + ", ";
    text += f.state + " = across<" + num(shape_.columns) + ">(" + f.state + ", " + lane_column() + ", " + shared_slot(bytes) + ", [&](const " + f.type +
            "& x, const " + f.type + "& y) -> " + f.type + " {\nif (!x.any) return y;\nif (!y.any) return x;\n" + emitter_->flush(innermost_) + "return {" +
            joined + "true};\n});\n";
  }
  std::vector<Scalar> args;
  for (size_t i = 0; i < n; ++i) args.push_back(emitter_->pull(f.op->operand(n + i), Index()));
  for (size_t i = 0; i < n; ++i) args.push_back({f.state + ".x" + num(static_cast<int64_t>(i)), 1});
  const std::vector<Scalar> results = emitter_->apply(*f.op->regions[0], args);
  for (size_t i = 0; i < n; ++i) scalars_[f.op->result(i)] = emitter_->define(scalar_type(f.op->result(i)->type.dtype), results[i].text, 1).text;
  return text + emitter_->flush(1);
}

bool NestWriter::has_partial(const Reducer& reducer) const { return shape_.parts > 1 || (!shape_.unrolled && reducer.memory_dtype() != reducer.dtype); }

// Where the lane puts together the column of the element being computed.
std::string NestWriter::accumulator(const ir::Value* value) const {
  const std::string q = "q" + num(members_.number(value));
  if (shape_.unrolled) return kept(q);
  Index inner;
  int64_t stride = 1;
  for (size_t k = inner_.size(); k-- > 0; stride *= inner_[k].extent) inner = inner + space_.var(inner_[k].atom) * stride;
  return q + "[" + space_.text(linear(DimRole::Batch) * nest_.space.size(DimRole::Inner) + inner) + "]";
}

void NestWriter::column_member(const Member& m) {
  const ir::Op& op = *m.value->def;
  if (const std::optional<Reducer> reducer = simple_reducer(op)) {
    const Scalar x = elements(op)[0];
    emitter_->statement(reducer->accumulate(accumulator(m.value), x.text, false), innermost_);
  } else if (done_.insert(&op).second) {
    column_fold(op);
  }
}

void NestWriter::column_fold(const ir::Op& op) {
  std::vector<Scalar> args;
  std::vector<std::string> places;
  for (const auto& result : op.results) {
    places.push_back(accumulator(result.get()));
    args.push_back(emitter_->define(scalar_type(result->type.dtype), places.back(), innermost_));
  }
  for (Scalar& x : elements(op)) args.push_back({x.text, innermost_});
  std::vector<Scalar> results = emitter_->apply(*op.regions[0], args);
  for (size_t i = 0; i < places.size(); ++i) emitter_->statement(places[i] + " = " + results[i].text + ";", innermost_);
}

// Declares and fills the accumulators of one unit.
std::string NestWriter::column_setup() {
  std::string text;
  bool memory = false;
  const int64_t inner = nest_.space.size(DimRole::Inner);
  const std::string offset = space_.text(linear(DimRole::Batch) * inner);
  for (const Member& m : members_.list()) {
    if (m.kind != MemberKind::ColumnReduce) continue;
    const ir::Op& op = *m.value->def;
    const std::optional<Reducer> reducer = simple_reducer(op);
    const std::string q = "q" + num(members_.number(m.value)), type = reducer ? reducer->memory_type() : scalar_type(m.value->type.dtype);
    const bool partial = reducer && has_partial(*reducer);
    const int64_t size = m.value->type.size();
    const size_t a = arg(m.value, partial ? NestArg::Role::Partial : NestArg::Role::Write,
                         partial ? shape_.parts * size * ir::byte_size(reducer->memory_dtype()) : m.value->type.bytes());
    code_.args[a].same_index = false;
    if (partial) code_.partials.push_back({m.value, *reducer, shape_.parts, a});
    const std::string init = emitter_->pull(op.operand(op.results.size() + m.value->index), Index()).text;
    if (shape_.unrolled) {
      const int64_t held = shape_.turns * shape_.vector;
      registers_ += static_cast<double>(held) * std::max(1.0, static_cast<double>(ir::byte_size(m.value->type.dtype)) / 4);
      text += type + " " + q + "[" + num(held) + "];\n#pragma unroll\nfor (int i = 0; i < " + num(held) + "; ++i) " + q +
              "[i] = " + (reducer ? reducer->identity(false) : init) + ";\n";
    } else {
      memory = true;
      text += type + "* const " + q + " = p" + num(static_cast<int64_t>(a)) + (partial ? " + (int64_t)part * " + num(size) : "") + ";\nfor (" + integer_ +
              " i = column; i < " + num(inner) + "; i += " + num(shape_.columns) + ") " + q + "[" + offset +
              " + i] = " + (partial ? reducer->identity(false) : init) + ";\n";
    }
  }
  return memory ? text + "group_barrier<" + num(shape_.lanes) + ">();\n" : text;
}

// The accumulators of one member, once the unit's rows are done: those of rows side by side put together, and stored.
std::string NestWriter::column_store(const Member& m) {
  const ir::Op& op = *m.value->def;
  const std::optional<Reducer> reducer = simple_reducer(op);
  const std::string q = "q" + num(members_.number(m.value)), type = reducer ? reducer->memory_type() : scalar_type(m.value->type.dtype);
  const std::string vector = num(shape_.vector), columns = num(shape_.columns), each = "#pragma unroll\nfor (int e = 0; e < " + vector + "; ++e) ";
  std::string text;
  if (shape_.rows_aside() > 1) {
    shared_ = std::max<int64_t>(shared_, int64_t{shape_.lanes} * shape_.vector * ir::byte_size(reducer->memory_dtype()));
    const std::string barrier = "group_barrier<" + num(shape_.lanes) + ">();\n", slot = "all[e * " + num(shape_.lanes) + " + lane]";
    text += type + "* const all = (" + type + "*)shared;\n" + barrier + each + slot + " = " + kept(q) +
            ";\n#pragma unroll\nfor (int half = " + num(shape_.rows_aside() / 2) + "; half > 0; half /= 2) {\n" + barrier + "if (aside < half) {\n" + each +
            "{\n" + reducer->merge(kept(q), "all[e * " + num(shape_.lanes) + " + lane + half * " + columns + "]", false) + "\n" + slot + " = " + kept(q) +
            ";\n}\n}\n}\n";
  }
  const bool partial = reducer && has_partial(*reducer);
  const size_t a = arg(m.value, partial ? NestArg::Role::Partial : NestArg::Role::Write, 0);
  const int64_t inner = nest_.space.size(DimRole::Inner);
  const std::string place = "p" + num(static_cast<int64_t>(a)) + "[" + (partial ? "(int64_t)part * " + num(m.value->type.size()) + " + " : "") +
                            space_.text(linear(DimRole::Batch) * inner) + " + c * " + vector + " + e] = ";
  std::string store = place + kept(q) + ";\n";
  if (reducer && !partial) {
    const std::string init = widened(*reducer, emitter_->pull(op.operand(op.results.size() + m.value->index), Index()).text);
    store = type + " total = " + init + ";\n" + reducer->merge("total", kept(q), false) + "\n" + place + reducer->result("total", false) + ";\n";
  }
  std::string once = "c < " + num(shape_.chunks);
  if (shape_.rows_aside() > 1) once += " && aside == 0";
  return text + "if (" + once + ") {\n" + each + "{\n" + store + "}\n}\n";
}

std::string NestWriter::column_end() {
  if (!shape_.unrolled) return {};
  std::string text;
  const std::string first = shape_.blocks > 1 ? "(block * " + num(shape_.turns) + " + k) * " : "k * ";
  for (const Member& m : members_.list()) {
    if (m.kind != MemberKind::ColumnReduce) continue;
    text += "#pragma unroll\nfor (int k = 0; k < " + num(shape_.turns) + "; ++k) {\nconst " + integer_ + " c = " + first + num(shape_.columns) +
            " + column;\n" + column_store(m) + "}\n";
  }
  return text;
}

}  // namespace thalweg::codegen::cuda
