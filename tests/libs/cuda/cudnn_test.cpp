// Attention and convolutions by cuDNN on the GPU against sums in double.
#include "libs/cuda/cudnn.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>

#include "libs/cuda/cudnn_attention.h"
#include "libs/cuda/cudnn_convolution.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/staging.h"
#include "runtime/stream.h"
#include "support/error.h"
#include "tests/libs/cuda/random_elements.h"
#include "tests/runtime/cuda/skip_without_gpu.h"

namespace thalweg::libs::cuda::cudnn {
namespace {

Format format_of(Type type) { return type == Type::F64 ? Format::F64 : type == Type::F32 ? Format::F32 : type == Type::F16 ? Format::F16 : Format::BF16; }

Dims row_major(const Dims& dims) {
  Dims strides(dims.size(), 1);
  for (size_t d = dims.size(); d-- > 1;) strides[d - 1] = strides[d] * dims[d];
  return strides;
}

int64_t size_of(const Dims& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

// The dims [a, b, c, d] in memory as [a, c, b, d].
Dims swapped_strides(const Dims& dims) { return {dims[1] * dims[2] * dims[3], dims[3], dims[1] * dims[3], 1}; }

// The dims [n, c, space…] in memory as [n, space…, c].
Dims channels_last(const Dims& dims) {
  Dims strides(dims.size(), 1);
  int64_t covered = dims[1];
  for (size_t d = dims.size(); d-- > 2;) strides[d] = covered, covered *= dims[d];
  strides[0] = covered;
  return strides;
}

// A tensor of the test: every element of its dims once, at its strides.
struct Held {
  Dims dims, strides;
  Format format = Format::F32;
  Elements elements;

  double at(const Dims& index) const {
    int64_t place = 0;
    for (size_t d = 0; d < index.size(); ++d) place += (dims[d] == 1 ? 0 : index[d]) * strides[d];
    return elements.values[static_cast<size_t>(place)];
  }
};

class Cudnn : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_GPU();
    std::string why;
    if (!has_cudnn(&why)) GTEST_SKIP() << why;
    seed_ = std::random_device{}();
    random_.seed(seed_);
    device_ = runtime::cuda::make_device();
  }

  Held& make(int64_t id, Type type, Dims dims, Dims strides) {
    Held& held = held_[id];
    held = {dims, std::move(strides), format_of(type), random_elements(random_, static_cast<size_t>(size_of(dims)), format_of(type))};
    return held;
  }

  // Runs the graph over all held tensors; they then hold what the device left in them.
  void run(const std::shared_ptr<const Graph>& graph, const PlanWishes& wishes, bool measured = false) {
    runtime::Stream& stream = device_->compute_stream();
    Plan plan(Gpu(*device_), graph, wishes);
    std::vector<std::pair<int64_t, size_t>> sizes;
    for (const auto& [id, held] : held_) sizes.emplace_back(id, held.elements.bytes.size());
    if (measured) plan.measure(stream, sizes);
    std::vector<runtime::BufferPtr> buffers;
    std::vector<Argument> arguments;
    for (const auto& [id, held] : held_) {
      arguments.push_back({id, buffers.emplace_back(stream.allocate(held.elements.bytes.size()))->data()});
      runtime::cuda::copy_from_host(stream, buffers.back(), 0, held.elements.bytes.data(), held.elements.bytes.size());
    }
    void* const scratch = buffers.emplace_back(stream.allocate(plan.workspace_bytes()))->data();
    runtime::Submission submission(stream);
    for (const runtime::BufferPtr& buffer : buffers) submission.write(buffer);
    submission.run([&](void* native) { plan.run(arguments, scratch, native); });
    size_t i = 0;
    for (auto& [id, held] : held_) runtime::cuda::copy_to_host(stream, buffers[i++], 0, held.elements.bytes.data(), held.elements.bytes.size());
    stream.synchronize();
    for (auto& [id, held] : held_)
      for (size_t e = 0; e < held.elements.values.size(); ++e) held.elements.values[e] = element_at(held.elements.bytes, e, held.format);
  }

  // The relative distance ‖got − want‖ / ‖want‖ over all of a held tensor.
  double distance(int64_t id, const std::function<double(const Dims&)>& want) {
    const Held& held = held_.at(id);
    double apart = 0, size = 0;
    Dims index(held.dims.size(), 0);
    for (int64_t n = size_of(held.dims); n > 0; --n) {
      const double expected = want(index), difference = held.at(index) - expected;
      apart += difference * difference, size += expected * expected;
      for (size_t d = index.size(); d-- > 0;) {
        if (++index[d] < held.dims[d]) break;
        index[d] = 0;
      }
    }
    return std::sqrt(apart / size);
  }

  unsigned seed_ = 0;
  std::mt19937 random_;
  std::shared_ptr<runtime::Device> device_;
  std::map<int64_t, Held> held_;
};

// One sum of attention in double: the probabilities of a row and what follows from them.
struct AttentionReference {
  const AttentionShape& s;
  const std::map<int64_t, Held>& held;

  double score(int64_t b, int64_t h, int64_t r, int64_t c) const {
    if (s.causal && c > r) return -INFINITY;
    double sum = 0;
    for (int64_t i = 0; i < s.width; ++i) sum += held.at(kAttentionQ).at({b, h, r, i}) * held.at(kAttentionK).at({b, h, c, i});
    return sum * s.scale + (s.bias ? held.at(kAttentionBias).at({b, h, r, c}) : 0);
  }
  // By row: the logarithm of the sum.
  double log_sum(int64_t b, int64_t h, int64_t r) const {
    double most = -INFINITY, sum = 0;
    for (int64_t c = 0; c < s.columns; ++c) most = std::max(most, score(b, h, r, c));
    for (int64_t c = 0; c < s.columns; ++c) sum += std::exp(score(b, h, r, c) - most);
    return most + std::log(sum);
  }
};

using Table = std::vector<double>;

class CudnnAttention : public Cudnn {
 protected:
  void check(const AttentionShape& s, bool bias_grad, bool deterministic) {
    SCOPED_TRACE("seed " + std::to_string(seed_));
    held_.clear();
    const Dims qd{s.batch, s.heads, s.rows, s.width}, kd{s.batch, s.heads, s.columns, s.width}, vd{s.batch, s.heads, s.columns, s.value_width},
        yd{s.batch, s.heads, s.rows, s.value_width}, rd{s.batch, s.heads, s.rows, 1};
    make(kAttentionQ, s.element, qd, s.q), make(kAttentionK, s.element, kd, s.k), make(kAttentionV, s.element, vd, s.v);
    make(kAttentionY, s.element, yd, s.y), make(kAttentionStats, Type::F32, rd, row_major(rd));
    if (s.bias) make(kAttentionBias, s.element, *s.bias, s.bias_strides);
    run(attention_graph(s, true), {});
    const AttentionReference ref{s, held_};
    const int64_t groups = s.batch * s.heads;
    Table p(static_cast<size_t>(groups * s.rows * s.columns)), logs(static_cast<size_t>(groups * s.rows));
    auto cell = [&](int64_t b, int64_t h, int64_t r, int64_t c) { return static_cast<size_t>(((b * s.heads + h) * s.rows + r) * s.columns + c); };
    for (int64_t b = 0; b < s.batch; ++b)
      for (int64_t h = 0; h < s.heads; ++h)
        for (int64_t r = 0; r < s.rows; ++r) {
          const double log = ref.log_sum(b, h, r);
          logs[static_cast<size_t>((b * s.heads + h) * s.rows + r)] = log;
          for (int64_t c = 0; c < s.columns; ++c) p[cell(b, h, r, c)] = std::exp(ref.score(b, h, r, c) - log);
        }
    const double tolerance = s.element == Type::BF16 ? 0x1p-7 : 0x1p-10;
    EXPECT_LT(distance(kAttentionStats, [&](const Dims& i) { return logs[static_cast<size_t>((i[0] * s.heads + i[1]) * s.rows + i[2])]; }), 1e-5);
    EXPECT_LT(distance(kAttentionY,
                       [&](const Dims& i) {
                         double sum = 0;
                         for (int64_t c = 0; c < s.columns; ++c) sum += p[cell(i[0], i[1], i[2], c)] * held_.at(kAttentionV).at({i[0], i[1], c, i[3]});
                         return sum;
                       }),
              tolerance);
    check_grad(s, p, cell, bias_grad, deterministic);
  }

  void check_grad(const AttentionShape& s, const Table& p, const std::function<size_t(int64_t, int64_t, int64_t, int64_t)>& cell, bool bias_grad,
                  bool deterministic) {
    AttentionGradShape grad{s, s.y, s.q, s.k, s.v, bias_grad, deterministic};
    const Dims yd = held_.at(kAttentionY).dims;
    make(kAttentionDy, s.element, yd, grad.dy);
    make(kAttentionDq, s.element, held_.at(kAttentionQ).dims, grad.dq), make(kAttentionDk, s.element, held_.at(kAttentionK).dims, grad.dk);
    make(kAttentionDv, s.element, held_.at(kAttentionV).dims, grad.dv);
    if (bias_grad) make(kAttentionBiasGrad, s.element, *s.bias, row_major(*s.bias));
    run(attention_grad_graph(grad), {.deterministic = deterministic});
    // The gradient of the scores before they are scaled.
    Table ds(p.size());
    for (int64_t b = 0; b < s.batch; ++b)
      for (int64_t h = 0; h < s.heads; ++h)
        for (int64_t r = 0; r < s.rows; ++r) {
          Table dp(static_cast<size_t>(s.columns));
          double mean = 0;
          for (int64_t c = 0; c < s.columns; ++c) {
            for (int64_t i = 0; i < s.value_width; ++i)
              dp[static_cast<size_t>(c)] += held_.at(kAttentionDy).at({b, h, r, i}) * held_.at(kAttentionV).at({b, h, c, i});
            mean += dp[static_cast<size_t>(c)] * p[cell(b, h, r, c)];
          }
          for (int64_t c = 0; c < s.columns; ++c) ds[cell(b, h, r, c)] = p[cell(b, h, r, c)] * (dp[static_cast<size_t>(c)] - mean);
        }
    auto sum_rows = [&](const Dims& i, const Table& weights, int64_t of) {
      double sum = 0;
      for (int64_t r = 0; r < s.rows; ++r) sum += weights[cell(i[0], i[1], r, i[2])] * held_.at(of).at({i[0], i[1], r, i[3]});
      return sum;
    };
    const double tolerance = s.element == Type::BF16 ? 0x1.8p-7 : 0x1.8p-10;
    EXPECT_LT(distance(kAttentionDv, [&](const Dims& i) { return sum_rows(i, p, kAttentionDy); }), tolerance);
    EXPECT_LT(distance(kAttentionDk, [&](const Dims& i) { return s.scale * sum_rows(i, ds, kAttentionQ); }), tolerance);
    EXPECT_LT(distance(kAttentionDq,
                       [&](const Dims& i) {
                         double sum = 0;
                         for (int64_t c = 0; c < s.columns; ++c) sum += ds[cell(i[0], i[1], i[2], c)] * held_.at(kAttentionK).at({i[0], i[1], c, i[3]});
                         return s.scale * sum;
                       }),
              tolerance);
    if (!bias_grad) return;
    const Dims& extent = *s.bias;
    Table sums(static_cast<size_t>(size_of(extent)));
    const Dims strides = row_major(extent);
    auto bias_cell = [&](const Dims& i) {
      int64_t at = 0;
      for (size_t d = 0; d < 4; ++d) at += (extent[d] == 1 ? 0 : i[d]) * strides[d];
      return static_cast<size_t>(at);
    };
    for (int64_t b = 0; b < s.batch; ++b)
      for (int64_t h = 0; h < s.heads; ++h)
        for (int64_t r = 0; r < s.rows; ++r)
          for (int64_t c = 0; c < s.columns; ++c) sums[bias_cell({b, h, r, c})] += ds[cell(b, h, r, c)];
    EXPECT_LT(distance(kAttentionBiasGrad, [&](const Dims& i) { return sums[bias_cell(i)]; }), tolerance);
  }
};

AttentionShape attention(Type element, int64_t rows, int64_t columns, int64_t width, bool heads_inside) {
  AttentionShape s;
  s.element = element, s.batch = 2, s.heads = 3, s.rows = rows, s.columns = columns, s.width = s.value_width = width;
  s.scale = 1 / std::sqrt(static_cast<double>(width));
  const Dims q{2, 3, rows, width}, k{2, 3, columns, width};
  s.q = s.y = heads_inside ? swapped_strides(q) : row_major(q);
  s.k = s.v = heads_inside ? swapped_strides(k) : row_major(k);
  return s;
}

TEST_F(CudnnAttention, FollowsDoubleInEveryTypeAndLayout) {
  for (const Type element : {Type::BF16, Type::F16})
    for (const bool heads_inside : {false, true}) check(attention(element, 70, 53, 64, heads_inside), false, heads_inside);
}

TEST_F(CudnnAttention, MasksWhatIsAhead) {
  for (const bool deterministic : {false, true}) {
    AttentionShape s = attention(Type::BF16, 65, 65, 32, true);
    s.causal = true;
    check(s, false, deterministic);
  }
}

TEST_F(CudnnAttention, AddsABiasAndGivesItsGradient) {
  for (const Dims& extent : {Dims{1, 3, 64, 64}, Dims{2, 3, 64, 64}, Dims{1, 1, 64, 64}}) {
    AttentionShape s = attention(Type::BF16, 64, 64, 64, false);
    s.bias = extent, s.bias_strides = row_major(extent);
    check(s, false, true);
    check(s, true, true);
  }
}

TEST_F(CudnnAttention, TakesTheShapeOfVisionTransformersHeads) { check(attention(Type::BF16, 197, 197, 64, true), false, false); }

class CudnnConvolution : public Cudnn {
 protected:
  void check(ConvolutionShape s, int64_t groups, bool tf32 = false, bool measured = false) {
    for (const auto kind : {ConvolutionShape::Kind::Forward, ConvolutionShape::Kind::DataGrad, ConvolutionShape::Kind::FilterGrad}) {
      SCOPED_TRACE("seed " + std::to_string(seed_) + ", kind " + std::to_string(static_cast<int>(kind)));
      s.kind = kind;
      held_.clear();
      make(kConvolutionX, s.element, s.x, s.x_strides), make(kConvolutionW, s.element, s.w, s.w_strides), make(kConvolutionY, s.element, s.y, s.y_strides);
      const std::map<int64_t, Held> before = held_;
      const std::shared_ptr<const Graph> graph = convolution_graph(s);
      SCOPED_TRACE(graph->text);
      run(graph, {.exact_f32 = !tf32}, measured);
      Table x(before.at(kConvolutionX).elements.values.size()), w(before.at(kConvolutionW).elements.values.size()),
          y(before.at(kConvolutionY).elements.values.size());
      sum(s, groups, before, x, w, y);
      const double tolerance = s.element == Type::BF16 ? 0x1p-8 : s.element == Type::F16 ? 0x1p-11 : s.element == Type::F64 ? 1e-13 : 2e-6;
      const int64_t result = kind == ConvolutionShape::Kind::Forward ? kConvolutionY : kind == ConvolutionShape::Kind::DataGrad ? kConvolutionX : kConvolutionW;
      const Table& want = result == kConvolutionY ? y : result == kConvolutionX ? x : w;
      const Dims strides = row_major(held_.at(result).dims);
      EXPECT_LT(distance(result,
                         [&](const Dims& i) {
                           int64_t at = 0;
                           for (size_t d = 0; d < i.size(); ++d) at += i[d] * strides[d];
                           return want[static_cast<size_t>(at)];
                         }),
                tolerance);
    }
  }

  // Adds up every product of the convolution into all three results, row-major.
  static void sum(const ConvolutionShape& s, int64_t groups, const std::map<int64_t, Held>& held, Table& x, Table& w, Table& y) {
    const size_t space = s.stride.size();
    const Dims xs = row_major(s.x), ws = row_major(s.w), ys = row_major(s.y);
    const Dims places(s.y.begin() + 2, s.y.end()), window(s.w.begin() + 2, s.w.end());
    const int64_t in = s.w[1], out = s.w[0] / groups;
    for (int64_t n = 0; n < s.x[0]; ++n)
      for (int64_t o = 0; o < s.w[0]; ++o)
        for (int64_t place = 0; place < size_of(places); ++place)
          for (int64_t tap = 0; tap < size_of(window); ++tap) {
            Dims yi{n, o}, wi{o, 0}, xi{n, 0};
            int64_t p = place, t = tap;
            bool inside = true;
            yi.resize(space + 2), wi.resize(space + 2), xi.resize(space + 2);
            for (size_t d = space; d-- > 0;) {
              yi[d + 2] = p % places[d], p /= places[d];
              wi[d + 2] = t % window[d], t /= window[d];
              xi[d + 2] = yi[d + 2] * s.stride[d] + wi[d + 2] * s.dilation[d] - s.before[d];
              inside = inside && xi[d + 2] >= 0 && xi[d + 2] < s.x[d + 2];
            }
            for (int64_t c = 0; inside && c < in; ++c) {
              wi[1] = c, xi[1] = o / out * in + c;
              auto at = [](const Dims& index, const Dims& strides) {
                int64_t place = 0;
                for (size_t d = 0; d < index.size(); ++d) place += index[d] * strides[d];
                return static_cast<size_t>(place);
              };
              const double a = held.at(kConvolutionX).at(xi), b = held.at(kConvolutionW).at(wi), g = held.at(kConvolutionY).at(yi);
              y[at(yi, ys)] += a * b, x[at(xi, xs)] += g * b, w[at(wi, ws)] += g * a;
            }
          }
  }
};

ConvolutionShape convolution(Type element, Dims x, Dims w, Dims stride, Dims padding, Dims dilation, bool last) {
  ConvolutionShape s;
  s.element = element, s.x = x, s.w = w, s.stride = stride, s.before = s.after = padding, s.dilation = dilation;
  s.y = {x[0], w[0]};
  for (size_t d = 0; d < stride.size(); ++d) s.y.push_back((x[d + 2] + 2 * padding[d] - dilation[d] * (w[d + 2] - 1) - 1) / stride[d] + 1);
  auto strides = [&](const Dims& dims) { return last ? channels_last(dims) : row_major(dims); };
  s.x_strides = strides(s.x), s.w_strides = strides(s.w), s.y_strides = strides(s.y);
  return s;
}

TEST_F(CudnnConvolution, FollowsDoubleInEveryTypeAndLayout) {
  for (const Type element : {Type::F32, Type::F64, Type::F16, Type::BF16})
    for (const bool last : {false, true}) {
      if (element == Type::F64 && last) continue;
      check(convolution(element, {2, 16, 13, 11}, {24, 16, 3, 3}, {2, 1}, {1, 2}, {1, 1}, last), 1);
    }
}

TEST_F(CudnnConvolution, TakesLinesVolumesGroupsAndDilation) {
  check(convolution(Type::F32, {3, 8, 40}, {16, 8, 5}, {2}, {2}, {1}, false), 1);
  check(convolution(Type::F32, {2, 8, 6, 7, 8}, {8, 8, 3, 3, 3}, {1, 1, 2}, {1, 1, 1}, {1, 1, 1}, false), 1);
  check(convolution(Type::BF16, {2, 16, 12, 12}, {32, 8, 3, 3}, {1, 1}, {2, 2}, {2, 2}, true), 2);
  check(convolution(Type::F32, {2, 16, 12, 12}, {16, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, false), 16);
}

TEST_F(CudnnConvolution, RoundsFactorsOnlyWhereAllowedAndMeasures) {
  // Factors of this test are exact in TF32.
  check(convolution(Type::F32, {4, 32, 14, 14}, {64, 32, 3, 3}, {1, 1}, {1, 1}, {1, 1}, true), 1, true, true);
  check(convolution(Type::BF16, {4, 32, 14, 14}, {64, 32, 3, 3}, {1, 1}, {1, 1}, {1, 1}, true), 1, false, true);
}

TEST(CudnnLoading, SaysItsVersionOrWhyNot) {
  std::string why;
  if (has_cudnn(&why)) {
    EXPECT_TRUE(why.empty());
    EXPECT_GE(cudnn_version(), 90600);
  } else {
    EXPECT_NE(why.find("cuDNN"), std::string::npos);
    EXPECT_NE(why.find("pip install"), std::string::npos);
    EXPECT_THROW(cudnn_version(), Error);
  }
}

// What a process says in which THALWEG_CUDNN_LIBRARY names `library`; the process is a fresh one.
void say_what_is_wrong(const char* library) {
  setenv("THALWEG_CUDNN_LIBRARY", library, 1);
  std::string why;
  const bool found = has_cudnn(&why);
  try {
    cudnn_version();
  } catch (const Error& error) {
    if (!found && error.kind() == ErrorKind::Missing && error.what() == why) std::fprintf(stderr, "%s", why.c_str());
  }
  std::exit(found ? 0 : 3);
}

TEST(CudnnLoadingDeathTest, MissingAndOldLibrariesAreNamedWithTheCure) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto status = testing::ExitedWithCode(3);
  EXPECT_EXIT(say_what_is_wrong("/nowhere/libcudnn.so.9"), status, "need cuDNN 9.6 or later, which was not found: pip install nvidia-cudnn-cu13");
  EXPECT_EXIT(say_what_is_wrong("/nowhere/libcudnn.so.9"), status, "/nowhere/libcudnn.so.9: cannot open");
  EXPECT_EXIT(say_what_is_wrong("libm.so.6"), status, "is no cuDNN 9: pip install");
  EXPECT_EXIT(say_what_is_wrong(THALWEG_OLD_CUDNN), status, "too old: 90100, needed 90600 .9.6. or later: pip install");
}

}  // namespace
}  // namespace thalweg::libs::cuda::cudnn
