// The fused pieces of training steps as IR graphs, for benchmarks and tests: inputs are arguments, results are outputs.
#pragma once

#include <memory>
#include <unordered_map>

#include "ir/builder.h"

namespace thalweg::bench {

using ir::Dims;
using ir::DType;
using ir::OpCode;
using V = ir::Value*;

// Builds a function; arithmetic on values as operators would read.
struct Graph {
  std::unique_ptr<ir::Function> function = std::make_unique<ir::Function>();
  ir::Builder b{function->body};
  Graph() { function->name = "main"; }

  V arg(Dims dims, DType dtype = DType::F32) { return function->body.add_arg(ir::tensor(dtype, std::move(dims))); }
  V add(V x, V y) { return b.binary(OpCode::Add, x, y); }
  V sub(V x, V y) { return b.binary(OpCode::Subtract, x, y); }
  V mul(V x, V y) { return b.binary(OpCode::Multiply, x, y); }
  V div(V x, V y) { return b.binary(OpCode::Divide, x, y); }
  V add(V x, double s) { return add(x, b.splat(x->type, s)); }
  V mul(V x, double s) { return mul(x, b.splat(x->type, s)); }
  V exp(V x) { return b.unary(OpCode::Exponential, x); }
  V rsqrt(V x) { return b.unary(OpCode::Rsqrt, x); }
  V sqrt(V x) { return b.unary(OpCode::Sqrt, x); }
  V log(V x) { return b.unary(OpCode::Log, x); }
  V erf(V x) { return b.unary(OpCode::Erf, x); }
  // `x` repeated along all dims of `like` but `dims`.
  V spread(V x, V like, Dims dims) { return b.broadcast(x, like->type.dims, std::move(dims)); }
};

// y = (x - mean) · rstd · gamma + beta over the last of two dims; also mean and rstd.
inline Graph layer_norm(int64_t rows, int64_t width) {
  Graph g;
  V x = g.arg({rows, width}), gamma = g.arg({width}), beta = g.arg({width});
  V mean = g.mul(g.b.sum(x, {1}), 1.0 / static_cast<double>(width));
  V centred = g.sub(x, g.spread(mean, x, {0}));
  V rstd = g.rsqrt(g.add(g.mul(g.b.sum(g.mul(centred, centred), {1}), 1.0 / static_cast<double>(width)), 1e-5));
  V y = g.add(g.mul(g.mul(centred, g.spread(rstd, x, {0})), g.spread(gamma, x, {1})), g.spread(beta, x, {1}));
  g.b.ret({y, mean, rstd});
  return g;
}

// dx, dgamma and dbeta from dy, x, mean, rstd, gamma.
inline Graph layer_norm_grad(int64_t rows, int64_t width) {
  Graph g;
  V dy = g.arg({rows, width}), x = g.arg({rows, width}), mean = g.arg({rows}), rstd = g.arg({rows}), gamma = g.arg({width});
  V hat = g.mul(g.sub(x, g.spread(mean, x, {0})), g.spread(rstd, x, {0}));
  V scaled = g.mul(dy, g.spread(gamma, x, {1}));
  const double n = 1.0 / static_cast<double>(width);
  V a = g.mul(g.b.sum(scaled, {1}), n), c = g.mul(g.b.sum(g.mul(scaled, hat), {1}), n);
  V dx = g.mul(g.sub(g.sub(scaled, g.spread(a, x, {0})), g.mul(hat, g.spread(c, x, {0}))), g.spread(rstd, x, {0}));
  g.b.ret({dx, g.b.sum(g.mul(dy, hat), {0}), g.b.sum(dy, {0})});
  return g;
}

inline V softmax_of(Graph& g, V x) {
  V e = g.exp(g.sub(x, g.spread(g.b.max(x, {1}), x, {0})));
  return g.div(e, g.spread(g.b.sum(e, {1}), x, {0}));
}
inline Graph softmax(int64_t rows, int64_t width) {
  Graph g;
  g.b.ret({softmax_of(g, g.arg({rows, width}))});
  return g;
}
inline Graph softmax_grad(int64_t rows, int64_t width) {
  Graph g;
  V dy = g.arg({rows, width}), y = g.arg({rows, width});
  V t = g.mul(dy, y);
  g.b.ret({g.sub(t, g.mul(y, g.spread(g.b.sum(t, {1}), y, {0})))});
  return g;
}

// GELU of x + bias.
inline Graph gelu(int64_t rows, int64_t width) {
  Graph g;
  V product = g.arg({rows, width}), bias = g.arg({width}), x = g.add(product, g.spread(bias, product, {1}));
  g.b.ret({g.mul(g.mul(x, 0.5), g.add(g.erf(g.mul(x, 0.70710678118654752)), 1.0))});
  return g;
}
// Gradient of the same, with the bias gradient.
inline Graph gelu_grad(int64_t rows, int64_t width) {
  Graph g;
  V dy = g.arg({rows, width}), x = g.arg({rows, width});
  V cdf = g.mul(g.add(g.erf(g.mul(x, 0.70710678118654752)), 1.0), 0.5);
  V pdf = g.mul(g.exp(g.mul(g.mul(x, x), -0.5)), 0.39894228040143268);
  V dx = g.mul(dy, g.add(cdf, g.mul(x, pdf)));
  g.b.ret({dx, g.b.sum(dx, {0})});
  return g;
}

// SGD with momentum and weight decay over parameters of these shapes: (p, g, m) each; results p, m each.
inline Graph sgd(const std::vector<Dims>& shapes) {
  Graph g;
  V rate = g.arg({}), momentum = g.arg({}), decay = g.arg({});
  std::vector<V> out;
  for (const Dims& shape : shapes) {
    V p = g.arg(shape), grad = g.arg(shape), m = g.arg(shape);
    auto scalar = [&](V s) { return g.b.broadcast(s, shape, {}); };
    V next = g.add(g.mul(m, scalar(momentum)), g.add(grad, g.mul(p, scalar(decay))));
    out.push_back(g.sub(p, g.mul(next, scalar(rate))));
    out.push_back(next);
  }
  g.b.ret(out);
  return g;
}
// AdamW: (p, g, m, v) each; results p, m, v each.
inline Graph adamw(const std::vector<Dims>& shapes) {
  Graph g;
  V rate = g.arg({}), correction1 = g.arg({}), correction2 = g.arg({});
  std::vector<V> out;
  for (const Dims& shape : shapes) {
    V p = g.arg(shape), grad = g.arg(shape), m = g.arg(shape), v = g.arg(shape);
    auto scalar = [&](V s) { return g.b.broadcast(s, shape, {}); };
    V decayed = g.sub(p, g.mul(g.mul(p, 0.01), scalar(rate)));
    V next_m = g.add(g.mul(m, 0.9), g.mul(grad, 0.1)), next_v = g.add(g.mul(v, 0.999), g.mul(g.mul(grad, grad), 0.001));
    V denominator = g.add(g.div(g.sqrt(next_v), scalar(correction2)), 1e-8);
    out.push_back(g.sub(decayed, g.mul(g.div(next_m, denominator), scalar(g.div(rate, correction1)))));
    out.push_back(next_m);
    out.push_back(next_v);
  }
  g.b.ret(out);
  return g;
}

// Training batch norm over N, H, W with ReLU: y, mean, rstd.
inline Graph batch_norm(int64_t n, int64_t c, int64_t h, int64_t w) {
  Graph g;
  V x = g.arg({n, c, h, w}), gamma = g.arg({c}), beta = g.arg({c});
  const double scale = 1.0 / static_cast<double>(n * h * w);
  V mean = g.mul(g.b.sum(x, {0, 2, 3}), scale), centred = g.sub(x, g.spread(mean, x, {1}));
  V rstd = g.rsqrt(g.add(g.mul(g.b.sum(g.mul(centred, centred), {0, 2, 3}), scale), 1e-5));
  V y = g.add(g.mul(g.mul(centred, g.spread(rstd, x, {1})), g.spread(gamma, x, {1})), g.spread(beta, x, {1}));
  g.b.ret({g.b.binary(OpCode::Maximum, y, g.b.splat(y->type, 0)), mean, rstd});
  return g;
}
inline Graph batch_norm_grad(int64_t n, int64_t c, int64_t h, int64_t w) {
  Graph g;
  V dy = g.arg({n, c, h, w}), x = g.arg({n, c, h, w}), mean = g.arg({c}), rstd = g.arg({c}), gamma = g.arg({c});
  const double scale = 1.0 / static_cast<double>(n * h * w);
  V centred = g.sub(x, g.spread(mean, x, {1}));
  V sum = g.b.sum(dy, {0, 2, 3}), dot = g.b.sum(g.mul(dy, centred), {0, 2, 3});
  V k = g.mul(g.mul(g.mul(dot, scale), rstd), rstd);
  V dx = g.mul(g.sub(g.sub(dy, g.mul(centred, g.spread(k, x, {1}))), g.spread(g.mul(sum, scale), x, {1})), g.spread(g.mul(rstd, gamma), x, {1}));
  g.b.ret({dx, g.mul(dot, rstd), sum});
  return g;
}

// Mean cross entropy of logits and labels (i64), and the gradient of the logits.
inline Graph cross_entropy(int64_t rows, int64_t classes) {
  Graph g;
  V x = g.arg({rows, classes}), labels = g.arg({rows}, DType::S64);
  V shifted = g.sub(x, g.spread(g.b.max(x, {1}), x, {0}));
  V log_sum = g.log(g.b.sum(g.exp(shifted), {1}));
  V log_probability = g.sub(shifted, g.spread(log_sum, x, {0}));
  V hot = g.b.compare(ir::Comparison::EQ, g.b.iota(ir::tensor(DType::S64, {rows, classes}), 1), g.spread(labels, x, {0}));
  V picked = g.b.select(hot, log_probability, g.b.splat(x->type, 0));
  V loss = g.mul(g.b.sum(g.b.sum(picked, {1}), {0}), -1.0 / static_cast<double>(rows));
  V grad = g.mul(g.sub(g.exp(log_probability), g.b.select(hot, g.b.splat(x->type, 1), g.b.splat(x->type, 0))), 1.0 / static_cast<double>(rows));
  g.b.ret({loss, grad});
  return g;
}

// The same with matrices kept in bf16 in memory, as autocast leaves them: converted where they are read and where they are stored.
inline Graph in_bf16(Graph g) {
  ir::Block& body = g.function->body;
  auto ops = std::move(body.ops);
  body.ops.clear();
  std::unordered_map<V, V> wide;
  for (const auto& arg : body.args)
    if (arg->type.rank() > 1 && arg->type.dtype == DType::F32) {
      arg->type = ir::tensor(DType::BF16, arg->type.dims);
      wide[arg.get()] = g.b.convert(arg.get(), DType::F32);
    }
  for (auto& op : ops) {
    for (V& operand : op->operands)
      if (auto it = wide.find(operand); it != wide.end()) operand = it->second;
    if (op->code == OpCode::Return)
      for (V& operand : op->operands)
        if (operand->type.rank() > 1 && operand->type.dtype == DType::F32) operand = g.b.convert(operand, DType::BF16);
    body.ops.push_back(std::move(op));
  }
  return g;
}

}  // namespace thalweg::bench
