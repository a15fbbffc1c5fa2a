// The order of operations that cuDNN recognises as attention and runs as one kernel.
#include "libs/cuda/cudnn_attention.h"

#include <functional>
#include <limits>

#include "support/error.h"

namespace thalweg::libs::cuda::cudnn {
namespace {

std::string joined(const Dims& dims) {
  std::string out;
  for (int64_t d : dims) out += (out.empty() ? "" : "x") + std::to_string(d);
  return out;
}

std::string text_of(const AttentionShape& s) {
  std::string out = std::string(s.element == Type::BF16 ? "bf16" : "f16") + ", " + joined({s.batch, s.heads, s.rows, s.columns}) + ", width " +
                    joined({s.width, s.value_width}) + (s.causal ? ", causal" : "");
  out += ", strides " + joined(s.q) + ", " + joined(s.k) + ", " + joined(s.v) + ", " + joined(s.y);
  return s.bias ? out + ", bias " + joined(*s.bias) + " (" + joined(s.bias_strides) + ")" : out;
}

Dims swapped(Dims dims) {
  std::swap(dims[2], dims[3]);
  return dims;
}

// The parts that the forward pass and the gradient share.
struct Writer {
  Graph& g;
  const AttentionShape& s;

  Dims scores() const { return {s.batch, s.heads, s.rows, s.columns}; }
  Dims row() const { return {s.batch, s.heads, s.rows, 1}; }
  Tensor memory(int64_t id, int64_t tokens, int64_t width, const Dims& strides) const {
    return g.memory(id, s.element, {s.batch, s.heads, tokens, width}, strides);
  }
  Tensor transposed(int64_t id, int64_t tokens, int64_t width, const Dims& strides) const {
    return g.memory(id, s.element, {s.batch, s.heads, width, tokens}, swapped(strides));
  }
  Tensor stats() const { return g.memory(kAttentionStats, Type::F32, row(), {s.heads * s.rows, s.rows, 1, 1}); }

  // scale · q kᵀ [+ bias].
  Tensor scaled_scores(const Tensor& q, const Tensor& kt) const {
    Tensor product = g.inner(Type::F32, scores());
    g.matmul(q, kt, product);
    Tensor scale = g.number(static_cast<float>(s.scale), 4);
    Tensor scaled = g.pointwise(Pointwise::Mul, {&product, &scale});
    if (!s.bias) return scaled;
    Tensor bias = g.memory(kAttentionBias, s.element, *s.bias, s.bias_strides);
    return g.pointwise(Pointwise::Add, {&scaled, &bias});
  }
  // The least float above the diagonal, where causal.
  Tensor masked(const Tensor& x) const {
    if (!s.causal) return x;
    Tensor row = g.inner(Type::S32, x.dims), column = g.inner(Type::S32, x.dims), seen = g.inner(Type::Bool, x.dims);
    g.pointwise(Pointwise::Index, {&x}, row, Type::F32, 2);
    g.pointwise(Pointwise::Index, {&x}, column, Type::F32, 3);
    g.pointwise(Pointwise::GreaterEqual, {&row, &column}, seen, Type::Bool);
    Tensor least = g.number(-std::numeric_limits<float>::infinity(), 4);
    return g.pointwise(Pointwise::Select, {&x, &least, &seen});
  }
  Tensor reduced(Reduction mode, const Tensor& x) const {
    Tensor out = g.inner(Type::F32, row());
    g.reduce(mode, x, out);
    return out;
  }
};

void write_forward(Graph& g, const AttentionShape& s, bool with_stats) {
  const Writer w{g, s};
  Tensor q = w.memory(kAttentionQ, s.rows, s.width, s.q), kt = w.transposed(kAttentionK, s.columns, s.width, s.k);
  Tensor scores = w.masked(w.scaled_scores(q, kt));
  Tensor most = w.reduced(Reduction::Max, scores);
  Tensor below = g.pointwise(Pointwise::Sub, {&scores, &most});
  Tensor power = g.pointwise(Pointwise::Exp, {&below});
  Tensor sum = w.reduced(Reduction::Sum, power);
  // Part of the order even where nobody reads it.
  Tensor log = g.pointwise(Pointwise::Log, {&sum});
  g.pointwise(Pointwise::Add, {&most, &log}, with_stats ? w.stats() : g.inner(Type::F32, w.row()));
  Tensor probabilities = g.inner(s.element, w.scores());
  g.pointwise(Pointwise::Div, {&power, &sum}, probabilities);
  Tensor v = w.memory(kAttentionV, s.columns, s.value_width, s.v);
  g.matmul(probabilities, v, w.memory(kAttentionY, s.rows, s.value_width, s.y));
}

void write_grad(Graph& g, const AttentionGradShape& shape) {
  const AttentionShape& s = shape.forward;
  const Writer w{g, s};
  const Dims turned{s.batch, s.heads, s.columns, s.rows}, turned_strides = swapped({s.heads * s.rows * s.columns, s.rows * s.columns, s.columns, 1});
  auto turn = [&](const Tensor& x) {
    Tensor out = g.inner(s.element, turned, turned_strides);
    g.reshape(x, out);
    return out;
  };
  Tensor q = w.memory(kAttentionQ, s.rows, s.width, s.q), kt = w.transposed(kAttentionK, s.columns, s.width, s.k);
  Tensor vt = w.transposed(kAttentionV, s.columns, s.value_width, s.v), y = w.memory(kAttentionY, s.rows, s.value_width, s.y);
  Tensor dy = w.memory(kAttentionDy, s.rows, s.value_width, shape.dy), stats = w.stats();
  // Each row's dy · y.
  Tensor product = g.pointwise(Pointwise::Mul, {&dy, &y});
  Tensor dot = w.reduced(Reduction::Sum, product);
  Tensor one = g.number(1, 4), sums = g.scratch(Type::F32, w.row());
  g.pointwise(Pointwise::Mul, {&dot, &one}, sums);
  // The probabilities again, and dv.
  Tensor scores = w.scaled_scores(q, kt);
  Tensor below = w.masked(g.pointwise(Pointwise::Sub, {&scores, &stats}));
  Tensor p = g.pointwise(Pointwise::Exp, {&below});
  Tensor pt = turn(p);
  g.matmul(pt, dy, w.memory(kAttentionDv, s.columns, s.value_width, shape.dv));
  // The scores' gradient, and dk.
  Tensor dp = g.inner(Type::F32, w.scores());
  g.matmul(dy, vt, dp);
  Tensor centred = g.pointwise(Pointwise::Sub, {&dp, &sums});
  Tensor ds = g.pointwise(Pointwise::Mul, {&centred, &p});
  if (shape.bias_grad) {
    Dims strides(4, 1);
    for (size_t d = 3; d-- > 0;) strides[d] = strides[d + 1] * (*s.bias)[d + 1];
    g.reduce(Reduction::Sum, ds, g.memory(kAttentionBiasGrad, s.element, *s.bias, strides));
  }
  Tensor scale = g.number(static_cast<float>(s.scale), 4);
  ds = g.pointwise(Pointwise::Mul, {&ds, &scale});
  Tensor dst = turn(ds);
  g.matmul(dst, q, w.memory(kAttentionDk, s.columns, s.width, shape.dk));
  // dq: summed over blocks of columns in f32 memory, or by a kernel that keeps the order.
  Tensor k = g.inner(s.element, {s.batch, s.heads, s.columns, s.width}, s.k);
  g.reshape(kt, k);
  Tensor dq = w.memory(kAttentionDq, s.rows, s.width, shape.dq);
  if (shape.deterministic || shape.bias_grad) return g.matmul(ds, k, dq);
  Tensor wide = g.scratch(Type::F32, {s.batch, s.heads, s.rows, s.width});
  g.matmul(ds, k, wide);
  g.pointwise(Pointwise::Identity, {&wide}, dq);
}

std::shared_ptr<const Graph> written(const std::string& text, const std::function<void(Graph&)>& write) {
  auto graph = std::make_shared<Graph>();
  graph->text = text;
  try {
    write(*graph);
  } catch (const Error& error) {
    raise(error.kind(), error.what(), "; ", text);
  }
  return graph;
}

}  // namespace

std::shared_ptr<const Graph> attention_graph(const AttentionShape& shape, bool with_stats) {
  return written(std::string("attention ") + (with_stats ? "with sums " : "") + text_of(shape), [&](Graph& g) { write_forward(g, shape, with_stats); });
}

std::shared_ptr<const Graph> attention_grad_graph(const AttentionGradShape& shape) {
  THALWEG_ASSERT(!shape.bias_grad || shape.forward.bias, "a gradient of a bias needs the bias");
  const std::string strides = ", gradients " + joined(shape.dy) + ", " + joined(shape.dq) + ", " + joined(shape.dk) + ", " + joined(shape.dv);
  return written(
      "attention's gradient " + text_of(shape.forward) + strides + (shape.bias_grad ? ", of the bias" : "") + (shape.deterministic ? ", deterministic" : ""),
      [&](Graph& g) { write_grad(g, shape); });
}

}  // namespace thalweg::libs::cuda::cudnn
