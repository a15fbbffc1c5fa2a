// What training steps are made of, in plain ops: batch normalisation as PyTorch has it, the loss over class labels, optimizer updates.
#include "passes/composites.h"

namespace thalweg::passes::composites {
namespace {

// Batch normalisation over all dims but 1.
struct Channels {
  const Writer& w;
  Value* x;
  Dims shape = x->type.dims, rest = Writer::others(shape, {1});

  Value* along(Value* v) const { return w.along(v, shape, 1); }
  // (x - mean) * rstd * weight + bias; the factors of a channel are multiplied first.
  Value* normal(Value* mean, Value* rstd, size_t weight, size_t bias) const {
    Value* scale = w.op.operands.size() > weight ? w.mul(rstd, w.wide(weight)) : rstd;
    Value* y = w.mul(w.sub(x, along(mean)), along(scale));
    return w.op.operands.size() > bias ? w.add(y, along(w.wide(bias))) : y;
  }
};

Value* inverse_deviation(const Writer& w, Value* variance) { return w.b.unary(OpCode::Rsqrt, w.add(variance, w.config.real("eps"))); }

Replacement batch_norm(const Writer& w) {  // x [, weight, bias] → y, mean, rstd, variance
  const Channels c{w, w.wide(0)};
  Value* mean = w.mean(c.x, c.rest);
  Value* centered = w.sub(c.x, c.along(mean));
  Value* variance = w.mean(w.mul(centered, centered), c.rest);
  Value* rstd = inverse_deviation(w, variance);
  return {w.result(0, c.normal(mean, rstd, 1, 2)), w.result(1, mean), w.result(2, rstd), w.result(3, variance)};
}

Replacement batch_norm_inference(const Writer& w) {  // x, mean, variance [, weight, bias] → y
  const Channels c{w, w.wide(0)};
  return {w.result(0, c.normal(w.wide(1), inverse_deviation(w, w.wide(2)), 3, 4))};
}

Replacement batch_norm_grad(const Writer& w) {  // dy, x, mean, rstd [, weight] → dx, dweight, dbias
  const Channels c{w, w.wide(1)};
  Value *dy = w.wide(0), *rstd = w.wide(3);
  Value* normalized = w.mul(w.sub(c.x, c.along(w.wide(2))), c.along(rstd));
  Value *dbias = w.b.sum(dy, c.rest), *dweight = w.b.sum(w.mul(dy, normalized), c.rest), *centered = dy;
  if (w.config.boolean("training", true)) {
    const double n = static_cast<double>(c.x->type.size()) / static_cast<double>(dbias->type.size());
    centered = w.sub(w.sub(dy, c.along(w.div(dbias, w.number(dbias, n)))), w.mul(normalized, c.along(w.div(dweight, w.number(dweight, n)))));
  }
  Value* scale = w.op.operands.size() > 4 ? w.mul(rstd, w.wide(4)) : rstd;
  return {w.result(0, w.mul(centered, c.along(scale))), w.result(1, dweight), w.result(2, dbias)};
}

// Logarithms of probabilities [N, C, …] or [C] and integer labels without the class dim.
struct Labels {
  const Writer& w;
  Value* labels;  // i64
  Dims shape;     // of the logarithms
  DType dtype;
  Value* class_weight;  // null: ones
  int64_t dim = shape.size() == 1 ? 0 : 1;
  Dims others = Writer::others(shape, {dim});

  // One at each label's class.
  Value* mask() const { return w.b.compare(ir::Comparison::EQ, w.b.broadcast(labels, shape, others), w.b.iota(ir::tensor(DType::S64, shape), dim)); }
  // The class's weight at each label, zero where the label is ignored and elsewhere.
  Value* weights() const {
    Value* ignored = w.equal(labels, static_cast<double>(w.config.integer("ignore_index")));
    Value* keep = w.b.broadcast(w.b.unary(OpCode::Not, ignored), shape, others);
    const ir::Type type = ir::tensor(dtype, shape);
    Value* all = class_weight ? w.along(class_weight, shape, dim) : w.b.splat(type, 1);
    return w.b.select(w.b.binary(OpCode::And, mask(), keep), all, w.b.splat(type, 0));
  }
};

Replacement nll_loss(const Writer& w) {  // x, labels [, weight] → loss, total weight
  Value* x = w.wide(0);
  const Labels l{w, w.b.convert(w.op.operand(1), DType::S64), x->type.dims, x->type.dtype, w.op.operands.size() > 2 ? w.wide(2) : nullptr};
  Value* weights = l.weights();
  Value* picked = w.b.unary(OpCode::Negate, w.b.select(l.mask(), w.mul(x, weights), w.number(x, 0)));
  const Dims all = Writer::from_axis(l.shape, 0);
  Value* total = w.b.sum(weights, all);
  const std::string& reduction = w.config.string("reduction");
  if (reduction == "none") return {w.result(0, w.b.sum(picked, {l.dim})), w.result(1, w.number(total, 0))};
  Value* loss = w.b.sum(picked, all);
  return {w.result(0, reduction == "mean" ? w.div(loss, total) : loss), w.result(1, total)};
}

Replacement nll_loss_grad(const Writer& w) {  // dloss, labels, total weight [, weight] → dx
  Value* dloss = w.wide(0);
  const Dims& shape = w.op.result(0)->type.dims;
  const Labels l{w, w.b.convert(w.op.operand(1), DType::S64), shape, dloss->type.dtype, w.op.operands.size() > 3 ? w.wide(3) : nullptr};
  if (w.config.string("reduction") == "mean") dloss = w.div(dloss, w.wide(2));
  Value* spread = dloss->type.rank() == 0 ? w.b.broadcast_to(dloss, shape) : w.b.broadcast(dloss, shape, l.others);
  Value* dx = w.b.unary(OpCode::Negate, w.mul(spread, l.weights()));
  return {w.result(0, w.b.select(l.mask(), dx, w.number(dx, 0)))};
}

Replacement sgd(const Writer& w) {  // parameter, gradient, lr, momentum, dampening, weight_decay [, buffer] → parameter [, buffer]
  Value *p = w.wide(0), *g = w.add(w.wide(1), w.mul(w.scalar(5, p), p));
  if (w.op.operands.size() <= 6) return {w.result(0, w.sub(p, w.mul(w.scalar(2, p), g)))};
  Value *buffer = w.wide(6), *momentum = w.scalar(3, p);
  Value* moved = g;
  if (!w.config.boolean("first", false)) moved = w.add(w.mul(buffer, momentum), w.mul(g, w.sub(w.number(g, 1), w.scalar(4, p))));
  Value* direction = w.config.boolean("nesterov", false) ? w.add(g, w.mul(moved, momentum)) : moved;
  return {w.result(0, w.sub(p, w.mul(w.scalar(2, p), direction))), w.result(1, moved)};
}

// parameter, gradient, average, square average, step, lr, beta1, beta2, weight_decay, eps [, greatest square] → parameter, average, square average [, greatest]
Replacement adam(const Writer& w) {
  Value *p = w.wide(0), *g = w.wide(1), *m = w.wide(2), *v = w.wide(3);
  Value *t = w.scalar(4, p), *lr = w.scalar(5, p), *beta1 = w.scalar(6, p), *beta2 = w.scalar(7, p), *decay = w.scalar(8, p), *one = w.number(p, 1);
  Value* start = p;
  if (w.config.boolean("decoupled", false))
    start = w.sub(p, w.mul(w.mul(lr, decay), p));
  else
    g = w.add(g, w.mul(decay, p));
  Value* m1 = w.add(m, w.mul(w.sub(one, beta1), w.sub(g, m)));
  Value* v1 = w.add(w.mul(v, beta2), w.mul(w.mul(w.sub(one, beta2), g), g));
  auto correction = [&](Value* beta) { return w.sub(one, w.b.binary(OpCode::Power, beta, t)); };
  Value* spread = w.op.operands.size() > 10 ? w.b.binary(OpCode::Maximum, w.wide(10), v1) : v1;
  Value* denominator = w.add(w.div(w.sqrt(spread), w.sqrt(correction(beta2))), w.scalar(9, p));
  Value* fresh = w.sub(start, w.mul(w.div(lr, correction(beta1)), w.div(m1, denominator)));
  Replacement results{w.result(0, fresh), w.result(1, m1), w.result(2, v1)};
  if (w.op.operands.size() > 10) results.push_back(w.result(3, spread));
  return results;
}

}  // namespace

std::vector<Named> training_composites() {
  return {{"thalweg.batch_norm", batch_norm},
          {"thalweg.batch_norm_inference", batch_norm_inference},
          {"thalweg.batch_norm_grad", batch_norm_grad},
          {"thalweg.nll_loss", nll_loss},
          {"thalweg.nll_loss_grad", nll_loss_grad},
          {"thalweg.sgd", sgd},
          {"thalweg.adam", adam}};
}

}  // namespace thalweg::passes::composites
