// One function a composite; each visits a possible root and walks up.
#include "passes/recognize.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "ir/dimension_numbers.h"
#include "passes/pattern.h"
#include "passes/rewriter.h"

namespace thalweg::passes {
namespace {

using ir::Builder;
using ir::Dims;
using ir::DType;
using ir::Op;
using ir::OpCode;
using ir::Value;

bool is_composite(const Value* value, std::string_view name) {
  return value->def && value->def->code == OpCode::Composite && value->def->attrs.string("name") == name;
}

ir::Attributes attribute(const char* name, ir::Attribute value) {
  ir::Attributes attrs;
  attrs.set(name, std::move(value));
  return attrs;
}

class Recognizer {
 public:
  explicit Recognizer(const ir::Block& block) : users_(block) {}

  Replacement visit(Builder& b, Op& op) {
    if (op.results.size() != 1 || !op.result()->type.is_tensor()) return {};
    const DType dtype = op.result()->type.dtype;
    if (dtype != DType::F32 && dtype != DType::F64 && op.code != OpCode::DotGeneral) return {};
    const size_t before = b.block().ops.size();
    Value* value = nullptr;
    switch (op.code) {
      case OpCode::Divide:
        value = softmax(b, op);
        if (!value) value = layer_norm(b, op);
        break;
      case OpCode::Subtract:
        value = log_softmax(b, op);
        break;
      case OpCode::Multiply:
        value = layer_norm(b, op);
        if (!value) value = weighted_norm(b, op, 1);
        if (!value) value = gelu(b, op);
        break;
      case OpCode::Add:
        value = weighted_norm(b, op, 2);
        break;
      case OpCode::DotGeneral:
        value = attention(b, op);
        break;
      default:
        break;
    }
    if (!value) return {};
    std::vector<const Op*> made;
    for (size_t i = before; i < b.block().ops.size(); ++i) made.push_back(b.block().ops[i].get());
    users_.replaced(inside_, value, made);
    return {value};
  }

 private:
  // The input of x - greatest(x) and the one dim over which the greatest is taken.
  static Value* shifted(Match& m, Value* value, int64_t& dim) {
    const Op* difference = m.take(value, OpCode::Subtract);
    if (!difference) return nullptr;
    Value* x = difference->operand(0);
    const int64_t rank = x->type.rank();
    for (int64_t d = rank - 1; d >= 0; --d) {
      Match inner = m;
      Value* greatest = inner.repeated(difference->operand(1), {d});
      if (!greatest) continue;
      const Match::Reduction reduced = inner.reduction(greatest, OpCode::Maximum, -INFINITY);
      if (!reduced.x || Match::bare(reduced.x) != Match::bare(x) || reduced.dims.size() != 1) continue;
      // Where dims of 1 differ, only the last dim is known to be the same one.
      if (reduced.x->type.dims != x->type.dims && (d != rank - 1 || reduced.dims[0] != reduced.x->type.rank() - 1)) continue;
      m = inner, dim = d;
      return x;
    }
    return nullptr;
  }

  // Whether `value` repeats the sum of `powers` over `dim`.
  static bool is_sum(Match& m, Value* sum, Value* powers, int64_t dim) {
    const Match::Reduction reduced = m.reduction(sum, OpCode::Add, 0);
    return reduced.x && reduced.x == powers && reduced.dims == Dims{dim};
  }

  Value* softmax(Builder& b, const Op& op) {
    Match m;
    int64_t dim = 0;
    const Op* powers = m.take(op.operand(0), OpCode::Exponential);
    if (!powers || powers->result() != op.operand(0)) return nullptr;
    Value* x = shifted(m, powers->operand(0), dim);
    if (!x || x->type != op.result()->type) return nullptr;
    Value* sum = m.repeated(op.operand(1), {dim});
    if (!sum || !is_sum(m, sum, powers->result(), dim) || !closed(m.with_root(op))) return nullptr;
    return b.composite("thalweg.softmax", {x}, {x->type}, attribute("dim", dim))[0];
  }

  Value* log_softmax(Builder& b, const Op& op) {
    Match m;
    int64_t dim = 0;
    Value* x = shifted(m, op.operand(0), dim);
    if (!x || x->type != op.result()->type) return nullptr;
    Value* logarithm = m.repeated(op.operand(1), {dim});
    const Op* log = logarithm ? m.take(logarithm, OpCode::Log) : nullptr;
    const Match::Reduction reduced = log ? m.reduction(log->operand(0), OpCode::Add, 0) : Match::Reduction{};
    const Op* powers = reduced.x ? m.take(reduced.x, OpCode::Exponential) : nullptr;
    if (!powers || powers->operand(0) != op.operand(0) || reduced.dims != Dims{dim} || !closed(m.with_root(op))) return nullptr;
    return b.composite("thalweg.log_softmax", {x}, {x->type}, attribute("dim", dim))[0];
  }

  // (x - mean) · rsqrt(variance + eps), or divided by the root.
  Value* layer_norm(Builder& b, const Op& op) {
    for (size_t side : {size_t{0}, size_t{1}}) {
      if (op.code == OpCode::Divide && side == 1) return nullptr;
      Match m;
      const Op* centered = m.take(op.operand(side), OpCode::Subtract);
      if (!centered || centered->result() != op.operand(side)) continue;
      Value* x = centered->operand(0);
      const int64_t rank = x->type.rank();
      for (int64_t axis = rank - 1; axis > 0; --axis) {
        Match inner = m;
        Dims dims(static_cast<size_t>(rank - axis));
        std::iota(dims.begin(), dims.end(), axis);
        const auto eps = epsilon(inner, op, op.operand(1 - side), *centered, dims);
        if (!eps || !closed(inner.with_root(op))) continue;
        const Dims rows(x->type.dims.begin(), x->type.dims.begin() + axis);
        const ir::Type statistics = ir::tensor(x->type.dtype, rows);
        ir::Attributes attrs = attribute("axis", axis);
        attrs.set("eps", *eps);
        return b.composite("thalweg.layer_norm", {x}, {x->type, statistics, statistics}, std::move(attrs))[0];
      }
    }
    return nullptr;
  }

  // The eps of the deviation that `value` repeats over `dims`, when it is that of `centered` = x - mean(x).
  static std::optional<double> epsilon(Match& m, const Op& op, Value* value, const Op& centered, const Dims& dims) {
    auto is_mean_of = [&](Value* mean, const Value* of) {
      const Match::Reduction reduced = m.mean(mean);
      return reduced.x == of && reduced.dims == dims;
    };
    Value *mean = m.repeated(centered.operand(1), dims), *deviation = m.repeated(value, dims);
    if (!mean || !deviation || !is_mean_of(mean, centered.operand(0))) return {};
    const Op* root = m.take(deviation, op.code == OpCode::Divide ? OpCode::Sqrt : OpCode::Rsqrt);
    const auto sum = root ? m.plus_constant(root->operand(0)) : std::nullopt;
    if (!sum) return {};
    const Match::Reduction variance = m.mean(sum->x);
    const Op* square = variance.x ? m.take(variance.x, OpCode::Multiply) : nullptr;
    if (!square || variance.dims != dims || square->operand(0) != centered.result() || square->operand(1) != centered.result()) return {};
    return sum->factor;
  }

  // layer_norm · weight (1 operand so far), then + bias (2).
  Value* weighted_norm(Builder& b, const Op& op, size_t operands) {
    for (size_t side : {size_t{0}, size_t{1}}) {
      Value* y = op.operand(side);
      if (!is_composite(y, "thalweg.layer_norm") || y->index != 0 || y->def->operands.size() != operands) continue;
      const Op& norm = *y->def;
      const Op* broadcast = op.operand(1 - side)->def;
      if (!broadcast || broadcast->code != OpCode::BroadcastInDim) continue;
      const int64_t axis = norm.attrs.dict("composite_attributes").integer("axis"), rank = y->type.rank();
      Dims dims(static_cast<size_t>(rank - axis));
      std::iota(dims.begin(), dims.end(), axis);
      Value* weight = broadcast->operand(0);
      const Dims shape(y->type.dims.begin() + axis, y->type.dims.end());
      if (broadcast->attrs.ints("broadcast_dimensions") != dims || weight->type.dims != shape) continue;
      if (!closed({&norm, &op})) continue;
      std::vector<Value*> all = norm.operands;
      all.push_back(weight);
      std::vector<ir::Type> types;
      for (const auto& result : norm.results) types.push_back(result->type);
      return b.composite("thalweg.layer_norm", all, types, norm.attrs.dict("composite_attributes"))[0];
    }
    return nullptr;
  }

  // The value whose gate 1 + tanh(…), 1 + erf(…) or erfc(…) this is, and which form.
  static Value* gated(Match& m, Value* gate, std::string& form) {
    if (const Op* erfc = m.take(gate, OpCode::Erfc)) {
      form = "none";
      Match::Scaled u = m.scaled(erfc->operand(0));
      if (const Op* negated = m.take(u.x, OpCode::Negate)) u = {negated->operand(0), -u.factor};
      return about(u.factor, -std::numbers::sqrt2 / 2) ? u.x : nullptr;
    }
    const auto one = m.plus_constant(gate);
    if (!one || one->factor != 1) return nullptr;
    if (const Op* erf = m.take(one->x, OpCode::Erf)) {
      form = "none";
      const Match::Scaled u = m.scaled(erf->operand(0));
      return about(u.factor, std::numbers::sqrt2 / 2) ? u.x : nullptr;
    }
    const Op* tanh = m.take(one->x, OpCode::Tanh);
    if (!tanh) return nullptr;
    form = "tanh";
    const Match::Scaled u = m.scaled(tanh->operand(0));
    const Op* sum = m.take(u.x, OpCode::Add);
    if (!sum || !about(u.factor, std::numbers::sqrt2 * std::numbers::inv_sqrtpi)) return nullptr;
    for (size_t side : {size_t{0}, size_t{1}}) {
      Match inner = m;
      Value* x = sum->operand(side);
      const Match::Factors cube = inner.factors(sum->operand(1 - side), x);
      if (cube.values != std::vector<Value*>(3, x) || !about(cube.number, 0.044715)) continue;
      m = inner;
      return x;
    }
    return nullptr;
  }

  Value* gelu(Builder& b, const Op& op) {
    // The gate stands somewhere among the factors.
    Match all;
    for (Value* gate : all.factors(op.result(), nullptr).values) {
      Match m;
      std::string form;
      Value* x = gated(m, gate, form);
      if (!x || x->type != op.result()->type) continue;
      Match::Factors factors = m.factors(op.result(), x);
      const bool good = factors.values.size() == 2 && std::count(factors.values.begin(), factors.values.end(), x) == 1 &&
                        std::count(factors.values.begin(), factors.values.end(), gate) == 1 && about(factors.number, 0.5);
      if (!good || !closed(m.with_root(op))) continue;
      return b.composite("thalweg.gelu", {x}, {x->type}, attribute("approximate", form))[0];
    }
    return nullptr;
  }

  Value* attention(Builder& b, const Op& op);

  // Nobody outside reads what the pattern computes on the way; then it is the one that will be replaced.
  bool closed(std::vector<const Op*> inside) {
    inside_ = std::move(inside);
    return users_.closed(inside_);
  }

  Users users_;
  std::vector<const Op*> inside_;
};

// One side of a batched product: dims by role, and the operand as [batch…, rows, columns] without batch dims of 1.
struct Side {
  Value* value;
  Dims batch, free, contract;

  Side(Value* v, Dims batch_dims, Dims contract_dims) : value(v), batch(std::move(batch_dims)), contract(std::move(contract_dims)) {
    for (int64_t d = 0; d < v->type.rank(); ++d)
      if (std::find(batch.begin(), batch.end(), d) == batch.end() && std::find(contract.begin(), contract.end(), d) == contract.end()) free.push_back(d);
  }
  int64_t extent(const Dims& dims) const {
    int64_t n = 1;
    for (int64_t d : dims) n *= value->type.dims[static_cast<size_t>(d)];
    return n;
  }
  // Exactly one dim above 1 among these.
  bool single(const Dims& dims) const {
    return std::count_if(dims.begin(), dims.end(), [&](int64_t d) { return value->type.dims[static_cast<size_t>(d)] != 1; }) == 1;
  }
  Dims sizes() const {
    Dims out;
    for (int64_t d : batch)
      if (value->type.dims[static_cast<size_t>(d)] != 1) out.push_back(value->type.dims[static_cast<size_t>(d)]);
    return out;
  }
  Value* matrix(Builder& b, bool free_first) const {
    Dims order = batch, shape = sizes();
    for (const Dims* part : {free_first ? &free : &contract, free_first ? &contract : &free}) {
      order.insert(order.end(), part->begin(), part->end());
      shape.push_back(extent(*part));
    }
    return b.reshape(b.transpose(value, order), shape);
  }
};

// softmax(q · kᵀ · scale) · v, whichever of the products' operands comes first.
Value* Recognizer::attention(Builder& b, const Op& op) {
  const ir::DotDims outer = ir::dot_dims(op.attrs);
  for (size_t at : {size_t{0}, size_t{1}}) {
    Match m;
    Value* p = Match::bare(op.operand(at));
    if (p->def && p->def->code == OpCode::Convert) m.add(*p->def), p = Match::bare(p->def->operand(0));
    if (!is_composite(p, "thalweg.softmax") || p->def->attrs.dict("composite_attributes").integer("dim") != p->type.rank() - 1) continue;
    m.add(*p->def);
    const Match::Scaled scores = m.scaled(p->def->operand(0));
    const Op* inner = m.take(scores.x, OpCode::DotGeneral);
    if (!inner) continue;
    const ir::DotDims d = ir::dot_dims(inner->attrs);
    const Side q(inner->operand(0), d.lhs_batch, d.lhs_contract), k(inner->operand(1), d.rhs_batch, d.rhs_contract);
    const Side weights = at == 0 ? Side(op.operand(0), outer.lhs_batch, outer.lhs_contract) : Side(op.operand(1), outer.rhs_batch, outer.rhs_contract);
    const Side v = at == 0 ? Side(op.operand(1), outer.rhs_batch, outer.rhs_contract) : Side(op.operand(0), outer.lhs_batch, outer.lhs_contract);
    // The weights are [batch…, tokens of q, tokens of k] as they lie: dims of 1 aside, batch dims in order and first, the contracted one last.
    Dims order = weights.batch;
    order.insert(order.end(), weights.free.begin(), weights.free.end());
    order.insert(order.end(), weights.contract.begin(), weights.contract.end());
    std::erase_if(order, [&](int64_t dim) { return weights.value->type.dims[static_cast<size_t>(dim)] == 1; });
    const bool plain = std::is_sorted(order.begin(), order.end()) && q.single(q.free) && k.single(k.free) && q.single(q.contract) &&
                       weights.single(weights.free) && weights.single(weights.contract) && v.single(v.free) && q.sizes() == v.sizes() &&
                       q.sizes() == weights.sizes() && weights.extent(weights.free) == q.extent(q.free) && v.extent(v.contract) == k.extent(k.free);
    if (!plain || q.value->type.dtype != v.value->type.dtype || k.value->type.dtype != v.value->type.dtype || !closed(m.with_root(op))) continue;
    Value *queries = q.matrix(b, true), *keys = k.matrix(b, true), *values = v.matrix(b, false);
    Dims shape = q.sizes();
    shape.push_back(q.extent(q.free)), shape.push_back(v.extent(v.free));
    const Dims& to = op.result()->type.dims;
    Value* y = b.composite("thalweg.attention", {queries, keys, values}, {ir::tensor(op.result()->type.dtype, shape)}, [&] {
      ir::Attributes attrs = attribute("scale", scores.factor);
      attrs.set("causal", false);
      return attrs;
    }())[0];
    if (at == 0) return b.reshape(y, to);
    Dims swap(shape.size());
    std::iota(swap.begin(), swap.end(), int64_t{0});
    std::swap(swap[swap.size() - 1], swap[swap.size() - 2]);
    return b.reshape(b.transpose(y, swap), to);
  }
  return nullptr;
}

}  // namespace

bool recognize(ir::Function& function, const ir::Module*) {
  Recognizer recognizer(function.body);
  return rewrite(function.body, [&](Builder& b, Op& op) { return recognizer.visit(b, op); });
}

}  // namespace thalweg::passes
