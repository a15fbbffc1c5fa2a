// The emitter's frame: scopes, conditionals, regions, elementwise ops and sources.
#include "codegen/expression.h"

#include <algorithm>
#include <cctype>

#include "codegen/scalar_text.h"
#include "ir/dimension_numbers.h"
#include "support/error.h"

namespace thalweg::codegen {

using ir::OpCode;

const ir::Value* canonical(const ir::Value* value) {
  while (value->def && (value->def->code == OpCode::Reshape || value->def->code == OpCode::OptimizationBarrier)) value = value->def->operand(value->index);
  return value;
}

bool is_pullable(const ir::Op& op) {
  for (const auto& result : op.results)
    if (!result->type.is_tensor() || !has_scalar_type(result->type.dtype)) return false;
  for (const ir::Value* operand : op.operands)
    if (!operand->type.is_tensor() || !has_scalar_type(operand->type.dtype)) return false;
  if (is_elementwise(op)) return true;
  switch (op.code) {
    case OpCode::Constant:
    case OpCode::Iota:
    case OpCode::BroadcastInDim:
    case OpCode::Concatenate:
    case OpCode::DynamicSlice:
    case OpCode::DynamicUpdateSlice:
    case OpCode::Gather:
    case OpCode::Pad:
    case OpCode::Reshape:
    case OpCode::OptimizationBarrier:
    case OpCode::Reverse:
    case OpCode::Slice:
    case OpCode::Transpose:
    case OpCode::Map:
      return true;
    case OpCode::Reduce:
      return op.operand(0)->type.size() == 0;
    case OpCode::RngBitGenerator:
      return op.attrs.string("rng_algorithm", "") == "PHILOX" && op.operand(0)->type.dims == ir::Dims{2} && op.operand(0)->type.dtype == ir::DType::U64 &&
             op.result(1)->type.dtype == ir::DType::U32;
    case OpCode::ReduceWindow: {
      if (op.results.size() != 1) return false;
      int64_t taps = 1;
      for (int64_t d : ir::window_of(op.attrs, op.operand(0)->type.rank()).size) taps *= d;
      return taps <= 32;
    }
    default:
      return false;
  }
}

const Scalar* Emitter::find(const Key& key) const {
  for (auto block = blocks_.rbegin(); block != blocks_.rend(); ++block)
    if (auto it = block->known.find(key); it != block->known.end()) return &it->second;
  for (const Scope& loop : loops_)
    if (auto it = loop.known.find(key); it != loop.known.end()) return &it->second;
  return nullptr;
}

void Emitter::remember(const Key& key, const Scalar& scalar) {
  if (!blocks_.empty()) {
    blocks_.back().known[key] = scalar;
  } else {
    loops_[scalar.depth].known[key] = scalar;
  }
}

void Emitter::statement(const std::string& text, int depth) {
  if (!blocks_.empty()) {
    blocks_.back().text += text + "\n";
    blocks_.back().depth = std::max(blocks_.back().depth, depth);
  } else {
    THALWEG_ASSERT(depth < static_cast<int>(loops_.size()));
    loops_[depth].text += text + "\n";
  }
}

Scalar Emitter::define(const std::string& type, const std::string& expression, int depth) {
  std::string name = fresh("t");
  statement("const " + type + " " + name + " = " + expression + ";", depth);
  return {name, depth};
}

Scalar Emitter::conditional(const std::string& type, const Scalar& condition, const std::function<Scalar()>& then, const std::function<Scalar()>& otherwise) {
  std::string name = fresh("c");
  auto write = [&](const std::function<Scalar()>& side, int& depth) {
    blocks_.emplace_back();
    conditions_.push_back({(&side == &then ? "(" : "!(") + condition.text + ")", condition.depth});
    Scalar result = side();
    conditions_.pop_back();
    Scope block = std::move(blocks_.back());
    blocks_.pop_back();
    depth = std::max({depth, block.depth, result.depth});
    return "{\n" + block.text + name + " = " + result.text + ";\n}";
  };
  int depth = condition.depth;
  std::string first = write(then, depth), second = write(otherwise, depth);
  statement(type + " " + name + ";\nif (" + condition.text + ") " + first + " else " + second, depth);
  return {name, depth};
}

bool Emitter::is_before(const Index& index) const {
  return std::all_of(index.terms.begin(), index.terms.end(),
                     [&](const auto& term) { return space_.atoms[static_cast<size_t>(term.first)].base >= 0 || before_.count(term.first); });
}

std::optional<std::string> Emitter::hoisted(const Index& at, int depth) const {
  if (!hoists_ || !is_before(at)) return {};
  std::string all;
  for (const Scalar& condition : conditions_) {
    // Names are those of loop variables alone: v and a number.
    bool loops = condition.depth < depth;
    for (size_t i = 0; i < condition.text.size(); ++i) loops &= !std::isalpha(static_cast<unsigned char>(condition.text[i])) || condition.text[i] == 'v';
    if (!loops) return {};
    all += (all.empty() ? "" : " && ") + condition.text;
  }
  return all;
}

void Emitter::statement_before(const std::string& text, int depth) {
  THALWEG_ASSERT(depth < static_cast<int>(loops_.size()));
  loops_[static_cast<size_t>(depth)].text += text + "\n";
}

std::string Emitter::take(int depth) {
  std::string text = std::move(loops_[depth].text);
  for (size_t d = depth; d < loops_.size(); ++d) loops_[d] = Scope();
  return text;
}

std::string Emitter::flush(int depth) { return std::exchange(loops_[depth].text, {}); }

Scalar Emitter::pull(const ir::Value* value, const Index& at) {
  if (auto it = bound_.find(value); it != bound_.end()) return it->second;
  value = canonical(value);
  if (auto it = bound_.find(value); it != bound_.end()) return it->second;
  Key key{value, at};
  if (const Scalar* known = find(key)) return *known;
  std::optional<Scalar> scalar = leaf_(value, at);
  if (!scalar) {
    THALWEG_ASSERT(value->def, "an argument is not a leaf");
    scalar = pull_op(value, at);
  }
  remember(key, *scalar);
  return *scalar;
}

Scalar Emitter::pull_op(const ir::Value* value, const Index& at) {
  const ir::Op& op = *value->def;
  switch (op.code) {
    case OpCode::Constant:
      return constant(op, at);
    case OpCode::Iota:
      return iota(op, at);
    case OpCode::BroadcastInDim:
      return broadcast(op, at);
    case OpCode::Transpose:
      return transpose(op, at);
    case OpCode::Slice:
      return slice(op, at);
    case OpCode::Reverse:
      return reverse(op, at);
    case OpCode::Concatenate:
      return concatenate(op, at);
    case OpCode::Pad:
      return pad(op, at);
    case OpCode::DynamicSlice:
      return dynamic_slice(op, at);
    case OpCode::DynamicUpdateSlice:
      return dynamic_update_slice(op, at);
    case OpCode::Gather:
      return gather(op, at);
    case OpCode::ReduceWindow:
      return window(op, at);
    case OpCode::RngBitGenerator:
      return random_bits(value, at);
    case OpCode::Map:
      return map(op, at);
    case OpCode::Reduce:
      return pull(op.operand(op.results.size() + value->index), Index());  // of nothing: the initial value
    default:
      return elementwise(op, at);
  }
}

Scalar Emitter::elementwise(const ir::Op& op, const Index& at) {
  THALWEG_ASSERT(is_elementwise(op), ir::name(op.code));
  std::vector<std::string> texts;
  int depth = 0;
  for (const ir::Value* operand : op.operands) {
    bool repeated = operand->type.rank() == 0 && op.result()->type.rank() != 0;  // select's predicate, clamp's limits
    Scalar x = pull(operand, repeated ? Index() : at);
    depth = std::max(depth, x.depth);
    texts.push_back(x.text);
  }
  return define(scalar_type(op.result()->type.dtype), elementwise_text(op, texts), depth);
}

std::vector<Scalar> Emitter::apply(const ir::Block& region, std::span<const Scalar> args) {
  for (size_t i = 0; i < args.size(); ++i) bound_[region.args[i].get()] = args[i];
  std::vector<Scalar> results;
  for (const ir::Value* value : region.terminator().operands) results.push_back(pull(value, Index()));
  for (const auto& arg : region.args) bound_.erase(arg.get());
  auto forget = [&](Scope& scope) {
    for (const auto& op : region.ops)
      for (const auto& result : op->results) scope.known.erase({result.get(), Index()});
  };
  for (Scope& loop : loops_) forget(loop);
  for (Scope& block : blocks_) forget(block);
  return results;
}

Scalar Emitter::constant(const ir::Op& op, const Index& at) {
  const ir::Literal& literal = *op.attrs.literal("value");
  if (literal.splat || literal.type.size() == 1) return {literal_text(literal, 0), 0};
  if (at.is_constant()) return {literal_text(literal, at.constant), 0};
  int64_t n = literal.type.size();
  THALWEG_ASSERT(n <= 16, "a large constant is not a leaf");
  std::string table = fresh("k"), values;
  for (int64_t i = 0; i < n; ++i) values += (i ? ", " : "") + literal_text(literal, i);
  std::string type = scalar_type(literal.type.dtype);
  statement("const " + type + " " + table + "[] = {" + values + "};", 0);
  return define(type, table + "[" + space_.text(at) + "]", space_.depth(at));
}

Index Emitter::iota_index(const ir::Op& op, const Index& at) {
  const ir::Type& type = op.result()->type;
  int64_t inner = 1, dim = op.attrs.integer("iota_dimension");
  for (int64_t d = dim + 1; d < type.rank(); ++d) inner *= type.dims[d];
  Index index = space_.div_mod(at, inner).first;
  bool outermost = true;
  for (int64_t d = 0; d < dim; ++d) outermost &= type.dims[d] == 1;
  return outermost ? index : space_.div_mod(index, type.dims[dim]).second;
}

Scalar Emitter::iota(const ir::Op& op, const Index& at) {
  const std::string type = scalar_type(op.result()->type.dtype);
  const Index index = iota_index(op, at);
  return define(type, "s_convert<" + type + ">((int64_t)(" + space_.text(index) + "))", space_.depth(index));
}

Scalar Emitter::random_bits(const ir::Value* value, const Index& at) {
  const ir::Op& op = *value->def;
  Scalar seed = pull(op.operand(0), Index(0)), offset = pull(op.operand(0), Index(1));
  int depth = std::max({space_.depth(at), seed.depth, offset.depth});
  if (value->index == 1) return define("uint32_t", "s_philox_u32(" + seed.text + ", " + offset.text + ", (uint64_t)(" + space_.text(at) + "))", depth);
  int64_t blocks = (op.result(1)->type.size() + 3) / 4;
  return define("uint64_t", "(" + space_.text(at) + ") == 0 ? " + seed.text + " : " + offset.text + " + " + std::to_string(blocks) + "ull", depth);
}

Scalar Emitter::map(const ir::Op& op, const Index& at) {
  std::vector<Scalar> args;
  for (const ir::Value* operand : op.operands) args.push_back(pull(operand, at));
  return apply(*op.regions[0], args)[0];
}

}  // namespace thalweg::codegen
