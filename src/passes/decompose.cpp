// One function a composite, found in one table by name.
#include "passes/decompose.h"

#include <map>
#include <numbers>

#include "passes/composites.h"

namespace thalweg::passes {

using namespace composites;

Value* composites::softmax_of(const Writer& w, Value* x, int64_t dim, bool logarithm) {
  const Dims& shape = x->type.dims;
  if (dim < 0) dim += static_cast<int64_t>(shape.size());
  Value* shifted = w.sub(x, w.spread(w.b.max(x, {dim}), shape, {dim}));
  Value* powers = w.exp(shifted);
  Value* sum = w.b.sum(powers, {dim});
  if (logarithm) return w.sub(shifted, w.spread(w.b.unary(OpCode::Log, sum), shape, {dim}));
  return w.div(powers, w.spread(sum, shape, {dim}));
}

namespace {

Replacement softmax(const Writer& w) { return {w.result(0, softmax_of(w, w.wide(0), w.config.integer("dim"), false))}; }
Replacement log_softmax(const Writer& w) { return {w.result(0, softmax_of(w, w.wide(0), w.config.integer("dim"), true))}; }

constexpr double kTanhScale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi, kCubic = 0.044715;

Replacement gelu(const Writer& w) {
  Value* x = w.wide(0);
  Value* gate;
  if (w.config.string("approximate", "none") == "tanh") {
    gate = w.b.unary(OpCode::Tanh, w.mul(w.add(x, w.mul(w.mul(w.mul(x, x), x), kCubic)), kTanhScale));
  } else {
    gate = w.b.unary(OpCode::Erf, w.mul(x, std::numbers::sqrt2 / 2));
  }
  return {w.result(0, w.mul(w.mul(x, 0.5), w.add(gate, 1)))};
}

Replacement gelu_grad(const Writer& w) {
  Value *dy = w.wide(0), *x = w.wide(1), *slope;
  Value* square = w.mul(x, x);
  if (w.config.string("approximate", "none") == "tanh") {
    Value* t = w.b.unary(OpCode::Tanh, w.mul(w.mul(x, w.add(w.mul(square, kCubic), 1)), kTanhScale));
    Value* inner = w.mul(w.add(w.mul(square, 3 * kCubic), 1), kTanhScale);
    Value* outer = w.mul(w.mul(x, 0.5), w.sub(w.number(t, 1), w.mul(t, t)));
    slope = w.add(w.mul(w.add(t, 1), 0.5), w.mul(outer, inner));
  } else {
    Value* below = w.mul(w.add(w.b.unary(OpCode::Erf, w.mul(x, std::numbers::sqrt2 / 2)), 1), 0.5);
    Value* density = w.mul(w.exp(w.mul(square, -0.5)), std::numbers::inv_sqrtpi / std::numbers::sqrt2);
    slope = w.add(below, w.mul(x, density));
  }
  return {w.result(0, w.mul(dy, slope))};
}

Replacement layer_norm(const Writer& w) {
  Value* x = w.wide(0);
  const Dims shape = x->type.dims, dims = Writer::from_axis(shape, w.config.integer("axis"));
  Value* mean = w.mean(x, dims);
  Value* centered = w.sub(x, w.spread(mean, shape, dims));
  Value* rstd = w.b.unary(OpCode::Rsqrt, w.add(w.mean(w.mul(centered, centered), dims), w.config.real("eps")));
  Value* y = w.mul(centered, w.spread(rstd, shape, dims));
  if (w.op.operands.size() > 1) y = w.mul(y, w.b.broadcast(w.wide(1), shape, dims));
  if (w.op.operands.size() > 2) y = w.add(y, w.b.broadcast(w.wide(2), shape, dims));
  return {w.result(0, y), w.result(1, mean), w.result(2, rstd)};
}

Replacement layer_norm_grad(const Writer& w) {
  Value *dy = w.wide(0), *x = w.wide(1);
  const Dims shape = x->type.dims, dims = Writer::from_axis(shape, w.config.integer("axis")), rows = Writer::others(shape, dims);
  Dims row_shape;
  for (int64_t d : rows) row_shape.push_back(shape[static_cast<size_t>(d)]);
  Value *mean = w.b.reshape(w.wide(2), row_shape), *rstd = w.spread(w.b.reshape(w.wide(3), row_shape), shape, dims);
  Value* normal = w.mul(w.sub(x, w.spread(mean, shape, dims)), rstd);
  Value* g = w.op.operands.size() > 4 ? w.mul(dy, w.b.broadcast(w.wide(4), shape, dims)) : dy;
  Value* mean_g = w.spread(w.mean(g, dims), shape, dims);
  Value* mean_gn = w.spread(w.mean(w.mul(g, normal), dims), shape, dims);
  Replacement results{w.result(0, w.mul(rstd, w.sub(w.sub(g, mean_g), w.mul(normal, mean_gn))))};
  if (w.op.results.size() > 1) results.push_back(w.result(1, w.b.sum(w.mul(dy, normal), rows)));
  if (w.op.results.size() > 2) results.push_back(w.result(2, w.b.sum(dy, rows)));
  return results;
}

// StableHLO's batch normalisation: `feature_index` and `epsilon` are attributes of the op itself.
struct BatchNorm {
  const Writer& w;
  Value* x;
  Dims shape = x->type.dims, feature{w.op.attrs.integer("feature_index")}, rest = Writer::others(shape, feature);
  double epsilon = w.op.attrs.real("epsilon");

  Value* along(Value* v) const { return w.b.broadcast(v, shape, feature); }
  Value* deviation(Value* variance) const { return w.b.unary(OpCode::Sqrt, w.add(variance, epsilon)); }
  Value* normal(Value* mean, Value* variance) const { return w.div(w.sub(x, along(mean)), along(deviation(variance))); }
};

Replacement batch_norm_inference(const Writer& w) {  // x, scale, offset, mean, variance
  BatchNorm n{w, w.wide(0)};
  return {w.result(0, w.add(w.mul(n.normal(w.wide(3), w.wide(4)), n.along(w.wide(1))), n.along(w.wide(2))))};
}

Replacement batch_norm_training(const Writer& w) {  // x, scale, offset → y, mean, variance
  BatchNorm n{w, w.wide(0)};
  Value* mean = w.mean(n.x, n.rest);
  Value* centered = w.sub(n.x, n.along(mean));
  Value* variance = w.mean(w.mul(centered, centered), n.rest);
  Value* y = w.add(w.mul(n.normal(mean, variance), n.along(w.wide(1))), n.along(w.wide(2)));
  return {w.result(0, y), w.result(1, mean), w.result(2, variance)};
}

Replacement batch_norm_grad(const Writer& w) {  // x, scale, mean, variance, dy → dx, dscale, doffset
  BatchNorm n{w, w.wide(0)};
  Value *dy = w.wide(4), *deviation = n.deviation(w.wide(3)), *normal = n.normal(w.wide(2), w.wide(3));
  Value *sum_dy = w.b.sum(dy, n.rest), *sum_dyn = w.b.sum(w.mul(dy, normal), n.rest);
  double count = static_cast<double>(n.x->type.size()) / static_cast<double>(sum_dy->type.size());
  Value* inner = w.sub(w.sub(dy, n.along(w.mul(sum_dy, 1 / count))), w.mul(normal, n.along(w.mul(sum_dyn, 1 / count))));
  Value* dx = w.mul(n.along(w.div(w.wide(1), deviation)), inner);
  return {w.result(0, dx), w.result(1, sum_dyn), w.result(2, sum_dy)};
}

Replacement square(const Writer& w) { return {w.b.binary(OpCode::Multiply, w.op.operands[0], w.op.operands[0])}; }

// The k largest of each row of the last dim and their places, in IEEE's total order; the earlier of equal ones first.
Replacement top_k(const Writer& w) {
  Value* x = w.op.operands[0];
  const int64_t last = x->type.rank() - 1;
  Value* places = w.b.iota(ir::tensor(w.op.result(1)->type.dtype, x->type.dims), last);
  const auto sorted = w.b.sort({x, places}, last, true, [](Builder& b, std::vector<Value*> pair) {
    Value* greater = b.compare(ir::Comparison::GT, pair[0], pair[1]);
    if (ir::is_float(pair[0]->type.dtype)) greater->def->attrs.set("compare_type", ir::EnumWord{"comparison_type", "TOTALORDER"});
    return greater;
  });
  const Dims start(x->type.dims.size(), 0), steps(x->type.dims.size(), 1);
  Replacement results;
  for (size_t i = 0; i < 2; ++i) results.push_back(w.b.slice(sorted[i], start, w.op.result(i)->type.dims, steps));
  return results;
}

// A statement about sharding: on one device its result is its operand.
Replacement pass_through(const Writer& w) { return {w.op.operands[0]}; }

bool is_sharding(std::string_view target) {
  return target == "sdy.sharding_constraint" || target == "Sharding" || target == "SPMDFullToShardShape" || target == "SPMDShardToFullShape";
}

const std::map<std::string_view, Decomposition>& by_name() {
  static const auto* table = [] {
    auto* all = new std::map<std::string_view, Decomposition>{
        {"thalweg.softmax", softmax},       {"thalweg.log_softmax", log_softmax},         {"thalweg.gelu", gelu},  {"thalweg.gelu_grad", gelu_grad},
        {"thalweg.layer_norm", layer_norm}, {"thalweg.layer_norm_grad", layer_norm_grad}, {"chlo.square", square}, {"chlo.top_k", top_k}};
    for (const Named& each : attention_composites()) all->emplace(each.name, each.write);
    for (const Named& each : training_composites()) all->emplace(each.name, each.write);
    return all;
  }();
  return *table;
}

Decomposition decomposition_of(const Op& op) {
  switch (op.code) {
    case OpCode::BatchNormInference:
      return batch_norm_inference;
    case OpCode::BatchNormTraining:
      return batch_norm_training;
    case OpCode::BatchNormGrad:
      return batch_norm_grad;
    case OpCode::Composite: {
      auto found = by_name().find(op.attrs.string("name"));
      return found == by_name().end() ? nullptr : found->second;
    }
    case OpCode::CustomCall:
      return is_sharding(op.attrs.string("call_target_name")) && op.operands.size() == 1 && op.operands[0]->type == op.results[0]->type ? pass_through
                                                                                                                                        : nullptr;
    default:
      return nullptr;
  }
}

}  // namespace

bool decompose(ir::Function& function, const ir::Module*) {
  mark_attention_pairs(function);
  return rewrite(function.body, [](Builder& builder, Op& op) -> Replacement {
    Decomposition write = decomposition_of(op);
    if (!write) return {};
    return write(Writer{builder, op, op.code == OpCode::Composite ? op.attrs.dict("composite_attributes") : op.attrs});
  });
}

bool has_decomposition(const ir::Op& composite) { return decomposition_of(composite) != nullptr; }

}  // namespace thalweg::passes
