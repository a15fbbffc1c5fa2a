// Attention and its gradient in plain ops.
#include <cmath>

#include "passes/composites.h"

namespace thalweg::passes::composites {
namespace {

constexpr const char* kPaired = "paired";  // set by mark_attention_pairs

// The operands q, k [, bias] of a composite: scores = scale * q kᵀ [+ bias], -inf above the diagonal when causal.
struct Attention {
  const Writer& w;
  Value *q, *k;
  Value* bias;  // null: none
  int64_t rank = static_cast<int64_t>(q->type.dims.size());
  Dims batch = leading(rank - 2);

  static Dims leading(int64_t n) {
    Dims dims(static_cast<size_t>(n));
    std::iota(dims.begin(), dims.end(), 0);
    return dims;
  }

  Value* scores() const {
    Value* s = w.mul(w.b.dot(q, k, {batch, batch, {rank - 1}, {rank - 1}}), w.config.real("scale"));
    if (bias) s = w.add(s, w.b.broadcast_to(bias, s->type.dims));
    if (w.config.boolean("causal", false)) {
      const ir::Type positions = ir::tensor(DType::S64, s->type.dims);
      Value* seen = w.b.compare(ir::Comparison::GE, w.b.iota(positions, rank - 2), w.b.iota(positions, rank - 1));
      s = w.b.select(seen, s, w.number(s, -INFINITY));
    }
    return s;
  }

  // Largest score of a row. A row of nothing but -inf (every key masked by the bias) has zero probabilities, not NaN.
  Value* greatest(Value* s) const {
    Value* most = w.b.max(s, {rank - 1});
    return bias ? w.b.select(w.equal(most, -INFINITY), w.number(most, 0), most) : most;
  }
  Value* spread(Value* row, Value* like) const { return w.spread(row, like->type.dims, {rank - 1}); }
  Value* powers(Value* s) const { return w.exp(w.sub(s, spread(greatest(s), s))); }
  Value* sums(Value* powers) const { return w.b.sum(powers, {rank - 1}); }
  Value* divisor(Value* total) const { return bias ? w.b.select(w.equal(total, 0), w.number(total, 1), total) : total; }
  Value* probabilities(Value* s) const {
    Value* e = powers(s);
    return w.div(e, spread(divisor(sums(e)), e));
  }
  // From the logarithm of each row's sum: what the forward pass kept.
  Value* probabilities(Value* s, Value* logsumexp) const {
    Value* p = w.exp(w.sub(s, spread(logsumexp, s)));
    return bias ? w.b.select(spread(w.equal(logsumexp, -INFINITY), s), w.number(p, 0), p) : p;
  }
};

Value* optional(const Writer& w, size_t i) { return w.op.operands.size() > i ? w.wide(i) : nullptr; }

Replacement attention(const Writer& w) {  // q, k, v [, bias] → y [, logsumexp]
  const Attention a{w, w.wide(0), w.wide(1), optional(w, 3)};
  Value* s = a.scores();
  Value* y = w.b.dot(a.probabilities(s), w.wide(2), {a.batch, a.batch, {a.rank - 1}, {a.rank - 2}});
  Replacement results{w.result(0, y)};
  if (w.op.results.size() > 1) results.push_back(w.result(1, w.add(a.greatest(s), w.b.unary(OpCode::Log, a.sums(a.powers(s))))));
  return results;
}

// The gradient summed over the dims that broadcast_to repeated.
Value* reduced_to(const Writer& w, Value* gradient, const Dims& shape) {
  const Dims& full = gradient->type.dims;
  const size_t lead = full.size() - shape.size();
  Dims dims;
  for (size_t d = 0; d < full.size(); ++d)
    if (d < lead || (shape[d - lead] == 1 && full[d] != 1)) dims.push_back(static_cast<int64_t>(d));
  return w.b.reshape(dims.empty() ? gradient : w.b.sum(gradient, dims), shape);
}

Replacement attention_grad(const Writer& w) {  // dy, q, k, v, y, logsumexp [, bias] → dq, dk, dv [, dbias]
  const Attention a{w, w.wide(1), w.wide(2), optional(w, 6)};
  const int64_t row = a.rank - 2, column = a.rank - 1;
  Value *dy = w.wide(0), *v = w.wide(3), *s = a.scores();
  Value* p = w.config.boolean(kPaired, false) ? a.probabilities(s) : a.probabilities(s, w.wide(5));
  Value* dp = w.b.dot(dy, v, {a.batch, a.batch, {column}, {column}});
  Value* ds = w.mul(p, w.sub(dp, a.spread(w.b.sum(w.mul(dy, w.wide(4)), {column}), dp)));
  const double scale = w.config.real("scale");
  Replacement results{w.result(0, w.mul(w.b.dot(ds, a.k, {a.batch, a.batch, {column}, {row}}), scale)),
                      w.result(1, w.mul(w.b.dot(ds, a.q, {a.batch, a.batch, {row}, {row}}), scale)),
                      w.result(2, w.b.dot(p, dy, {a.batch, a.batch, {row}, {row}}))};
  if (w.op.results.size() > 3) results.push_back(w.result(3, reduced_to(w, ds, w.op.operand(6)->type.dims)));
  return results;
}

bool is_named(const Op& op, std::string_view name) { return op.code == OpCode::Composite && op.attrs.string("name") == name; }

}  // namespace

void mark_attention_pairs(ir::Function& function) {
  for (auto& op : function.body.ops) {
    if (!is_named(*op, "thalweg.attention_grad")) continue;
    const Value* logsumexp = op->operand(5);
    const Op* forward = logsumexp->def;
    if (!forward || !is_named(*forward, "thalweg.attention") || forward->results.size() < 2 || forward->results[1].get() != logsumexp) continue;
    const bool biased = op->operands.size() > 6;
    if (forward->operand(0) != op->operand(1) || forward->operand(1) != op->operand(2) || (forward->operands.size() > 3) != biased) continue;
    if (biased && forward->operand(3) != op->operand(6)) continue;
    ir::Attributes config = op->attrs.dict("composite_attributes");
    config.set(kPaired, true);
    op->attrs.set("composite_attributes", std::make_shared<const ir::Attributes>(std::move(config)));
  }
}

std::vector<Named> attention_composites() { return {{"thalweg.attention", attention}, {"thalweg.attention_grad", attention_grad}}; }

}  // namespace thalweg::passes::composites
