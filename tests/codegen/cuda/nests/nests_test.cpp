// Kernels for GPUs against the interpreter: the pieces of training steps in every way of dealing them out, and random programs.
#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <random>

#include "bench/training_graphs.h"
#include "codegen/scalar_text.h"
#include "interp/interpreter.h"
#include "tests/codegen/cuda/nests/run_kernels.h"
#include "tests/compiler/random_program.h"

namespace thalweg::testing {
namespace {

using bench::Graph;
using ir::Dims;
using ir::DType;
using ir::OpCode;
using V = ir::Value*;

uint64_t fresh_seed() {
  const auto seed = static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

// Values around zero; labels and other integers from 0 to 6.
ir::Literal random_literal(const ir::Type& type, std::mt19937_64& random) {
  ir::Literal literal(type);
  std::normal_distribution<double> normal;
  for (int64_t i = 0; i < type.size(); ++i) {
    std::byte* at = literal.data.data() + i * ir::byte_size(type.dtype);
    if (ir::is_float(type.dtype)) {
      ir::store_double(type.dtype, at, normal(random));
    } else if (ir::is_complex(type.dtype)) {
      ir::store_complex(type.dtype, at, normal(random), normal(random));
    } else {
      ir::store_int(type.dtype, at, static_cast<int64_t>(random() % (type.dtype == DType::I1 ? 2 : 7)));
    }
  }
  return literal;
}

// Of one element as a number; of complex numbers the real part.
double number(const ir::Literal& literal, int64_t i) {
  return ir::load_double(literal.type.dtype, literal.data.data() + i * ir::byte_size(literal.type.dtype));
}

// The largest difference, in parts of the largest magnitude. Infinite where only one is NaN.
double difference(const ir::Literal& a, const ir::Literal& b) {
  double size = 1e-30, most = 0;
  for (int64_t i = 0; i < a.type.size(); ++i) size = std::max(size, std::isfinite(number(b, i)) ? std::abs(number(b, i)) : 0);
  for (int64_t i = 0; i < a.type.size(); ++i) {
    const double x = number(a, i), y = number(b, i);
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    const double d = std::abs(x - y);
    most = std::max(most, std::isnan(d) ? INFINITY : d / size);
  }
  return most;
}

double tolerance(DType dtype) { return dtype == DType::BF16 ? 0.02 : dtype == DType::F16 ? 0.004 : dtype == DType::F32 || dtype == DType::C64 ? 2e-5 : 1e-12; }

class CudaNests : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (!Kernels(1).available(&why)) GTEST_SKIP() << "neither a GPU nor the emulator: " << why;
  }
  // Results of kernels beside the interpreter's; multiprocessors decide how the work is dealt out.
  void check(const ir::Function& function, const std::string& what, int multiprocessors) {
    std::vector<ir::Literal> inputs;
    for (const auto& arg : function.body.args) inputs.push_back(random_literal(arg->type, random_));
    check(function, inputs, what, multiprocessors);
  }
  void check(const ir::Function& function, const std::vector<ir::Literal>& inputs, const std::string& what, int multiprocessors) {
    Kernels kernels(multiprocessors);
    const auto results = KernelProgram(kernels, function).run(inputs);
    if (!results) {
      ++skipped_;
      return;
    }
    kernels_ += kernels.kernels;
    const std::vector<ir::Literal> expected = interp::run(function, inputs);
    for (size_t i = 0; i < expected.size(); ++i) {
      const ir::Literal want = ir::expand(expected[i]);
      EXPECT_LE(difference((*results)[i], want), tolerance(want.type.dtype)) << what << ", " << multiprocessors << " multiprocessors, result " << i;
    }
    const auto again = KernelProgram(kernels, function).run(inputs);
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ((*results)[i].data, (*again)[i].data) << what << ": a second run gives other bits";
  }
  static std::string shape(int64_t rows, int64_t width) { return std::to_string(rows) + " x " + std::to_string(width); }

  uint64_t seed_ = fresh_seed();
  std::mt19937_64 random_{seed_};
  int kernels_ = 0, skipped_ = 0;
};

// Half of x, and its sums over dims.
std::unique_ptr<ir::Function> column_sums(DType dtype, const Dims& dims, const Dims& over) {
  Graph g;
  V x = g.arg(dims, dtype), y = g.mul(x, g.b.splat(x->type, 0.5));
  g.b.ret({g.b.sum(y, over), y});
  return std::move(g.function);
}

TEST_F(CudaNests, RowsAndColumnsOfTrainingGraphs) {
  using Make = Graph (*)(int64_t, int64_t);
  const std::pair<const char*, Make> graphs[] = {{"softmax", &bench::softmax},
                                                 {"softmax_grad", &bench::softmax_grad},
                                                 {"layer_norm", &bench::layer_norm},
                                                 {"layer_norm_grad", &bench::layer_norm_grad},
                                                 {"gelu", &bench::gelu},
                                                 {"gelu_grad", &bench::gelu_grad},
                                                 {"cross_entropy", &bench::cross_entropy}};
  const std::pair<int64_t, int64_t> shapes[] = {{1, 1}, {5, 3}, {7, 8}, {3, 24}, {9, 33}, {40, 64}, {4, 768}, {2, 2050}};
  for (const auto& [name, make] : graphs)
    for (auto [rows, width] : shapes) check(*make(rows, width).function, std::string(name) + " " + shape(rows, width), 132);
  std::printf("%d kernels\n", kernels_);
}

// As few multiprocessors as make small tensors large: vectors, one lane a row, several rows side by side, parts of rows.
TEST_F(CudaNests, DealtOutAsLargeTensorsAre) {
  for (int multiprocessors : {1, 2}) {
    check(*bench::gelu(96, 104).function, "gelu", multiprocessors);
    check(*bench::softmax(1100, 6).function, "softmax of short rows", multiprocessors);
    check(*bench::softmax(40, 72).function, "softmax", multiprocessors);
    check(*bench::layer_norm_grad(100, 72).function, "layer_norm_grad", multiprocessors);
    check(*bench::gelu_grad(300, 40).function, "gelu_grad", multiprocessors);
    check(*bench::gelu_grad(300, 3).function, "gelu_grad of few columns", multiprocessors);
    check(*bench::batch_norm(3, 5, 6, 7).function, "batch_norm", multiprocessors);
    check(*bench::batch_norm_grad(3, 5, 6, 7).function, "batch_norm_grad", multiprocessors);
  }
}

// Rows by many lanes, columns by whole blocks and single elements in one kernel: each part has blocks, barriers and memory of its own.
TEST_F(CudaNests, PartsOfOneKernel) {
  std::vector<std::unique_ptr<ir::Function>> functions;
  functions.push_back(std::move(bench::softmax(5, 4000).function));
  functions.push_back(column_sums(DType::F32, {50, 24}, {0}));
  functions.push_back(std::move(bench::gelu(7, 9).function));
  functions.push_back(std::move(bench::softmax(30, 48).function));
  Kernels kernels(1);
  std::vector<codegen::cuda::Part> parts;
  std::vector<void*> args;
  std::vector<std::shared_ptr<char>> memory;
  std::vector<std::pair<char*, ir::Literal>> expected;
  for (const auto& function : functions) {
    std::vector<ir::Literal> inputs;
    std::map<const ir::Value*, char*> places;
    for (const auto& arg : function->body.args) {
      inputs.push_back(random_literal(arg->type, random_));
      memory.push_back(kernels.allocate(inputs.back().data.size()));
      std::memcpy(memory.back().get(), inputs.back().data.data(), inputs.back().data.size());
      places[arg.get()] = memory.back().get();
    }
    const bench::KernelSteps steps(*function, kernels.multiprocessors());
    const bench::KernelStep& step = steps.steps()[0];
    ASSERT_EQ(steps.steps().size(), 1u);
    parts.push_back(step.part);
    for (size_t i = 0; i < step.args.size(); ++i) {
      auto [it, fresh] = places.try_emplace(step.args[i].first);
      if (fresh) memory.push_back(kernels.allocate(static_cast<size_t>(step.bytes[i]))), it->second = memory.back().get();
      args.push_back(it->second);
    }
    const std::vector<ir::Literal> results = interp::run(*function, inputs);
    const auto& values = function->body.terminator().operands;
    for (size_t i = 0; i < values.size(); ++i) expected.emplace_back(places.at(codegen::canonical(values[i])), ir::expand(results[i]));
  }
  kernels.run(parts, args);
  for (const auto& [place, want] : expected) {
    ir::Literal got(want.type);
    std::memcpy(got.data.data(), place, got.data.size());
    EXPECT_LE(difference(got, want), tolerance(want.type.dtype));
  }
}

TEST_F(CudaNests, LongRowsAreCutIntoParts) {
  check(*bench::softmax(2, 40000).function, "softmax of long rows", 132);
  check(*bench::batch_norm(2, 3, 100, 90).function, "batch_norm of long rows", 132);
  check(*bench::cross_entropy(1, 33000).function, "cross_entropy of long rows", 132);
  check(*bench::layer_norm_grad(3, 33000).function, "layer_norm_grad of long rows", 132);
  Graph g;
  V x = g.arg({70000});
  g.b.ret({g.b.sum(g.mul(x, x), {0}), g.b.max(x, {0})});
  check(*g.function, "sums of everything", 132);
}

TEST_F(CudaNests, EveryTypeInColumnsAndRows) {
  for (DType dtype : {DType::F32, DType::F64, DType::BF16, DType::F16, DType::S32, DType::S64, DType::U8, DType::C64, DType::C128})
    for (int multiprocessors : {1, 132}) {
      const std::string what = std::string(ir::name(dtype));
      check(*column_sums(dtype, {70, 48}, {0}), "columns of " + what, multiprocessors);
      check(*column_sums(dtype, {3, 20, 24}, {1}), "columns of batches of " + what, multiprocessors);
      check(*column_sums(dtype, {20, 3, 5, 8}, {0, 2}), "columns over two dims of " + what, multiprocessors);
      check(*column_sums(dtype, {20, 48}, {1}), "rows of " + what, multiprocessors);
      check(*column_sums(dtype, {6, 5, 16}, {0, 2}), "rows over two dims of " + what, multiprocessors);
    }
}

// The place and value of each row's or column's maximum: a region of several ops over two results, where the first of equal elements wins.
std::unique_ptr<ir::Function> argmax(const Dims& dims, int64_t dim, DType dtype) {
  Graph g;
  V x = g.arg(dims, dtype), places = g.b.iota(ir::tensor(DType::S64, dims), dim);
  V low = g.b.splat(ir::tensor(dtype, {}), -100), nowhere = g.b.splat(ir::tensor(DType::S64, {}), 1 << 20);
  std::vector<V> found = g.b.reduce({x, places}, {low, nowhere}, {dim}, [](ir::Builder& b, std::vector<V> a) -> std::vector<V> {
    V keep = b.compare(ir::Comparison::GE, a[0], a[2]);
    return {b.select(keep, a[0], a[2]), b.select(keep, a[1], a[3])};
  });
  g.b.ret({found[0], g.add(found[1], 1.0)});
  return std::move(g.function);
}

TEST_F(CudaNests, RegionsOfAnyFormKeepTheOrder) {
  for (int multiprocessors : {1, 132})
    for (DType dtype : {DType::S32, DType::BF16, DType::U8}) {
      check(*argmax({5, 9}, 1, dtype), "argmax of short rows", multiprocessors);
      check(*argmax({3, 500}, 1, dtype), "argmax of rows", multiprocessors);
      check(*argmax({1, 5000}, 1, dtype), "argmax of a long row", multiprocessors);
      check(*argmax({40, 70}, 0, dtype), "argmax of columns", multiprocessors);
      check(*argmax({3, 40, 7}, 1, dtype), "argmax of columns of batches", multiprocessors);
    }
}

// Reads at other places than the stores': slices that begin anywhere, transposes, parts side by side, padding, reversal.
TEST_F(CudaNests, MovedElements) {
  for (DType dtype : {DType::F32, DType::BF16})
    for (int multiprocessors : {1, 132}) {
      Graph g;
      V x = g.arg({32, 96}, dtype), y = g.arg({96, 32}, dtype);
      V moved = g.b.transpose(y, {1, 0}), part = g.b.slice(x, {3, 5}, {19, 77}, {1, 1}), left = g.b.slice(x, {0, 0}, {32, 40}, {1, 1});
      V side = g.b.concatenate({left, g.b.slice(moved, {0, 8}, {32, 64}, {1, 1})}, 1);
      V padded = g.b.pad(part, g.b.splat(ir::tensor(dtype, {}), 2), {8, 8}, {8, 16}, {0, 0});
      g.b.ret({g.add(x, moved), g.add(side, x), g.mul(padded, x), g.b.reverse(x, {1}), g.b.sum(g.mul(side, padded), {1})});
      check(*g.function, "moved elements", multiprocessors);
    }
}

// Parts put together along outer dims: which part it is does not depend on the elements of a vector.
TEST_F(CudaNests, PartsSideBySide) {
  for (int multiprocessors : {1, 132}) {
    Graph g;
    V q = g.arg({2, 3, 10, 16}, DType::BF16), k = g.arg({2, 3, 10, 16}, DType::BF16), v = g.arg({2, 3, 10, 16}, DType::BF16);
    auto by_token = [&](V x) { return g.b.reshape(g.b.transpose(x, {0, 2, 1, 3}), {2, 10, 1, 48}); };
    V packed = g.b.concatenate({by_token(q), by_token(k), by_token(v)}, 2), rows = g.b.reshape(packed, {20, 144});
    V table = g.arg({7, 48}), more = g.arg({13, 48}), both = g.b.concatenate({table, more}, 0);
    V padded = g.b.pad(g.b.concatenate({g.b.slice(both, {2, 0}, {9, 48}, {1, 1}), both}, 0), g.b.splat(ir::tensor(DType::F32, {}), 3), {2, 0}, {1, 0}, {0, 0});
    g.b.ret({g.mul(packed, 2.0), g.b.sum(g.b.convert(rows, DType::F32), {0}), g.mul(padded, 0.5), g.mul(both, 3.0)});
    check(*g.function, "parts side by side", multiprocessors);
  }
}

TEST_F(CudaNests, SplitHeadsAndSplitLoops) {
  Graph g;
  V packed = g.arg({4, 10, 3 * 4 * 16}, DType::BF16);
  V split = g.b.transpose(g.b.reshape(packed, {4, 10, 3, 4, 16}), {2, 0, 3, 1, 4});
  V query = g.b.reshape(g.b.slice(split, {0, 0, 0, 0, 0}, {1, 4, 4, 10, 16}, {1, 1, 1, 1, 1}), {160, 16});
  g.b.ret({g.mul(query, 0.25), bench::softmax_of(g, query)});
  for (int multiprocessors : {1, 132}) check(*g.function, "split heads", multiprocessors);
}

TEST_F(CudaNests, ProductsAndWindows) {
  for (int multiprocessors : {1, 132}) {
    Graph g;
    V a = g.arg({6, 70}), b = g.arg({70, 5}), x = g.arg({2, 3, 20, 20});
    g.b.ret({g.b.dot(a, b, {{}, {}, {1}, {0}}),
             g.b.reduce_window(OpCode::Maximum, x, g.b.splat(ir::tensor(DType::F32, {}), -1e30), {1, 1, 7, 7}, {1, 1, 2, 2}, {0, 0, 3, 3}, {0, 0, 3, 3})});
    check(*g.function, "products", multiprocessors);
  }
}

std::unique_ptr<ir::Function> sorted(const Dims& dims, int64_t dim, DType dtype) {
  Graph g;
  V x = g.arg(dims, dtype);
  g.b.ret(g.b.sort({x, g.b.iota(ir::tensor(DType::S32, dims), dim)}, dim, true,
                   [](ir::Builder& b, std::vector<V> a) { return b.compare(ir::Comparison::LT, a[0], a[1]); }));
  return std::move(g.function);
}

// Values of few bits repeat, so that only a stable sort gives the interpreter's positions.
TEST_F(CudaNests, SortsAreStable) {
  for (DType dtype : {DType::S32, DType::F32}) {
    check(*sorted({7, 3}, 1, dtype), "sort of short rows", 132);
    check(*sorted({5, 200}, 1, dtype), "sort of rows", 132);
    check(*sorted({3, 70, 5}, 1, dtype), "sort of columns", 132);
    check(*sorted({2, 5000}, 1, dtype), "sort of long rows", 132);
    check(*sorted({1}, 0, dtype), "sort of one element", 132);
  }
}

TEST_F(CudaNests, RunningTotals) {
  for (int multiprocessors : {1, 132})
    for (DType dtype : {DType::F32, DType::S32, DType::F64})
      for (bool from_end : {false, true}) {
        Graph g;
        V x = g.arg({3, 1000}, dtype), y = g.arg({2, 300, 24}, dtype), zero = g.b.splat(ir::tensor(dtype, {}), 0);
        const int64_t low = from_end ? 0 : 1, high = 1 - low;
        g.b.ret({g.b.reduce_window(OpCode::Add, x, zero, {1, 1000}, {1, 1}, {0, low * 999}, {0, high * 999}),
                 g.b.reduce_window(OpCode::Maximum, y, zero, {1, 300, 1}, {1, 1, 1}, {0, low * 299, 0}, {0, high * 299, 0})});
        check(*g.function, "running totals", multiprocessors);
      }
}

// Rows of a table get updates at random places, some of them outside of the table.
std::unique_ptr<ir::Function> scattered(int64_t rows, int64_t width, int64_t updates, DType dtype, const std::function<V(ir::Builder&, V, V)>& combine) {
  Graph g;
  V table = g.arg({rows, width}, dtype), indices = g.arg({updates, 1}, DType::S64), values = g.arg({updates, width}, dtype);
  ir::ScatterDims dims;
  dims.update_window_dims = {1}, dims.inserted_window_dims = {0}, dims.scatter_dims_to_operand_dims = {0}, dims.index_vector_dim = 1;
  g.b.ret({g.b.scatter(table, indices, values, dims, combine)});
  return std::move(g.function);
}

TEST_F(CudaNests, ScattersKeepTheOrder) {
  const auto add = [](ir::Builder& b, V a, V c) { return b.binary(OpCode::Add, a, c); };
  const auto set = [](ir::Builder&, V, V c) { return c; };
  const auto odd = [](ir::Builder& b, V a, V c) { return b.binary(OpCode::Subtract, c, b.binary(OpCode::Multiply, a, b.splat(a->type, 0.5))); };
  // Indices lie in 0 … 6: for tables of fewer rows some are outside, and of many updates all rows get long runs.
  for (int64_t updates : {1, 20, 300})
    for (int64_t rows : {1, 5, 40})
      for (int64_t width : {1, 6, 300}) {
        check(*scattered(rows, width, updates, DType::F32, add), "scatter add " + shape(rows, width), 132);
        check(*scattered(rows, width, updates, DType::F32, set), "scatter set " + shape(rows, width), 132);
        if (width == 6) check(*scattered(rows, width, updates, DType::S32, add), "scatter add of integers", 132);
        if (width == 6) check(*scattered(rows, width, updates, DType::F64, odd), "scatter by a region of another form", 132);
      }
}

// Windows of 2 x 3 anywhere in 6 x 7: they overlap.
TEST_F(CudaNests, OverlappingScatters) {
  Graph g;
  V table = g.arg({6, 7}), indices = g.arg({9, 2}, DType::S32), values = g.arg({9, 2, 3});
  ir::ScatterDims dims;
  dims.update_window_dims = {1, 2}, dims.scatter_dims_to_operand_dims = {0, 1}, dims.index_vector_dim = 1;
  g.b.ret({g.b.scatter(table, indices, values, dims, [](ir::Builder& b, V a, V c) { return b.binary(OpCode::Subtract, c, a); })});
  check(*g.function, "overlapping windows", 132);
}

// Gradients of the largest elements of windows that overlap, with and without padding.
TEST_F(CudaNests, SelectAndScatter) {
  for (int64_t pad : {0, 1})
    for (int64_t stride : {1, 2, 3}) {
      Graph g;
      V x = g.arg({2, 9, 11, 3}, DType::S32);
      ir::Window w{{1, 3, 2, 1}, {1, stride, 2, 1}, {0, pad, 0, 0}, {0, pad, 0, 0}, {1, 1, 1, 1}, {1, 1, 1, 1}};
      V source = g.arg({2, (9 + 2 * pad - 3) / stride + 1, 5, 3}, DType::S32);
      ir::Attributes attributes;
      ir::set_window(attributes, w);
      const ir::Type scalar = ir::tensor(DType::S32, {});
      std::vector<std::unique_ptr<ir::Block>> regions;
      for (int i = 0; i < 2; ++i) {
        regions.push_back(std::make_unique<ir::Block>());
        V a = regions.back()->add_arg(scalar), b = regions.back()->add_arg(scalar);
        ir::Builder inner(*regions.back());
        inner.ret({i == 0 ? inner.compare(ir::Comparison::GE, a, b) : inner.binary(OpCode::Add, a, b)});
      }
      g.b.ret({g.b.make(OpCode::SelectAndScatter, {x, source, g.b.splat(scalar, 5)}, std::move(attributes), {}, std::move(regions))->result()});
      check(*g.function, "select_and_scatter", 132);
    }
}

// The distance of `got` from `want` in units of the last place of a float.
double ulps(float got, double want) {
  const float nearest = static_cast<float>(want);
  if (got == nearest || (std::isnan(got) && std::isnan(want))) return 0;
  if (!std::isfinite(nearest) || !std::isfinite(got)) return std::abs(want) > 3.4028e38 && (!std::isfinite(got) || std::abs(got) > 3.4028e38f) ? 0 : INFINITY;
  const double unit = std::abs(std::nextafter(nearest, INFINITY) - nearest);
  return std::abs(static_cast<double>(got) - want) / unit;
}

// Functions that GPUs compute with their own powers of two, over all magnitudes.
TEST_F(CudaNests, ExponentialAndErrorFunctionAreAccurate) {
  const int64_t n = Kernels(1).on_gpu() ? 1 << 20 : 1 << 14;
  Graph g;
  V x = g.arg({n});
  g.b.ret({g.exp(x), g.erf(x)});
  ir::Literal input(ir::tensor(DType::F32, {n}));
  std::uniform_real_distribution<float> near(-6, 6), wide(-110, 95);
  for (int64_t i = 0; i < n; ++i)
    input.set<float>(i, i % 3 == 0 ? near(random_) : i % 3 == 1 ? wide(random_) : std::bit_cast<float>(static_cast<uint32_t>(random_())));
  for (float special : {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 88.72283f, 88.72284f, -103.97f, -104.0f})
    input.set<float>(static_cast<int64_t>(random_() % static_cast<uint64_t>(n)), special);
  Kernels kernels(132);
  const auto results = KernelProgram(kernels, *g.function).run({input});
  double most[2] = {0, 0};
  for (int64_t i = 0; i < n; ++i) {
    const double at = input.get<float>(i);
    most[0] = std::max(most[0], ulps((*results)[0].get<float>(i), std::exp(at)));
    most[1] = std::max(most[1], ulps((*results)[1].get<float>(i), std::erf(at)));
  }
  std::printf("largest errors: exp %.2f, erf %.2f units of the last place\n", most[0], most[1]);
  EXPECT_LE(most[0], 2.5);
  EXPECT_LE(most[1], 2.5);
}

// GELU of every bf16 from -8 to 8 against the exactly rounded value: a short formula takes the place of erf there.
TEST_F(CudaNests, GeluOf16BitsIsAccurate) {
  std::vector<uint16_t> values;
  for (uint32_t bits = 0; bits < 0x10000; ++bits)
    if (std::abs(std::bit_cast<float>(bits << 16)) <= 8) values.push_back(static_cast<uint16_t>(bits));
  while (values.size() % 16 != 0) values.push_back(0);
  const auto n = static_cast<int64_t>(values.size());
  const Graph g = bench::in_bf16(bench::gelu(n / 16, 16));
  ir::Literal input(ir::tensor(DType::BF16, {n / 16, 16})), bias(ir::tensor(DType::F32, {16}));
  std::memcpy(input.data.data(), values.data(), input.data.size());
  Kernels kernels(132);
  const auto results = KernelProgram(kernels, *g.function).run({input, bias});
  int64_t off_by_one = 0, further = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double x = number(input, i), exact = 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    std::byte rounded[2];
    ir::store_double(DType::BF16, rounded, exact);
    int16_t want, got = (*results)[0].get<int16_t>(i);
    std::memcpy(&want, rounded, 2);
    if (ir::load_double(DType::BF16, rounded) == number((*results)[0], i)) continue;  // zeros of either sign too
    // Where erf is close to -1, 1 + erf in f32 is far less exact than this.
    const bool near = std::abs(want - got) == 1 || (x < -3.5 && std::abs(number((*results)[0], i) - exact) <= 0.015 * std::abs(exact));
    off_by_one += want != got && near ? 1 : 0;
    further += want != got && !near ? 1 : 0;
  }
  std::printf("%lld values: %lld one off, or up to 1.5 %% below -3.5; %lld further\n", static_cast<long long>(n), static_cast<long long>(off_by_one),
              static_cast<long long>(further));
  EXPECT_LE(off_by_one, n / 300);
  EXPECT_EQ(further, 0);
}

TEST_F(CudaNests, RandomPrograms) {
  const int programs = 40;
  for (int i = 0; i < programs; ++i) {
    RandomProgram program(seed_ + static_cast<uint64_t>(i));
    const auto function = program.make(20);
    std::vector<ir::Literal> inputs;
    for (const auto& arg : function->body.args) inputs.push_back(program.input(arg->type));
    check(*function, inputs, "program " + std::to_string(seed_ + static_cast<uint64_t>(i)), i % 2 ? 132 : 1);
  }
  std::printf("%d programs, %d of them with works that are no kernels; %d kernels\n", programs, skipped_, kernels_);
}

}  // namespace
}  // namespace thalweg::testing
