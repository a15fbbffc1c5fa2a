// Ops one by one through the CPU compiler, against the reference interpreter on random arguments.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "interp/interpreter.h"
#include "ir/builder.h"
#include "tests/compiler/run_program.h"

namespace thalweg {
namespace {

using ir::Dims;
using ir::DType;
using ir::OpCode;
using V = ir::Value*;

class OpTest : public ::testing::Test {
 protected:
  void SetUp() override {
    seed_ = std::random_device{}();
    random_.seed(seed_);
    function_->name = "main";
  }
  V arg(DType dtype, Dims dims, double scale = 2, double offset = 0) {
    ir::Literal literal(ir::tensor(dtype, dims));
    std::normal_distribution<double> normal(offset, scale);
    for (int64_t i = 0; i < literal.type.size(); ++i) set(literal, i, normal(random_));
    inputs_.push_back(literal);
    return function_->body.add_arg(literal.type);
  }
  V indices(DType dtype, Dims dims, int64_t low, int64_t high) {
    ir::Literal literal(ir::tensor(dtype, dims));
    for (int64_t i = 0; i < literal.type.size(); ++i)
      set(literal, i, static_cast<double>(low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low))));
    inputs_.push_back(literal);
    return function_->body.add_arg(literal.type);
  }
  static void set(ir::Literal& literal, int64_t i, double v) {
    ir::Literal one = *ir::make_splat(ir::tensor(literal.type.dtype), v);
    if (literal.type.dtype == DType::I1) one.data[0] = static_cast<std::byte>(v > 0);
    if (ir::is_integer(literal.type.dtype)) one = *ir::make_splat_int(ir::tensor(literal.type.dtype), static_cast<int64_t>(std::llround(v)));
    std::memcpy(literal.data.data() + i * static_cast<int64_t>(one.data.size()), one.data.data(), one.data.size());
  }
  // Equal bits (NaN to NaN) when `tolerance` is 0; else |got - want| ≤ tolerance · (1 + |want|).
  void check(std::vector<V> results, double tolerance = 0) {
    b_.ret(results);
    std::vector<ir::Literal> want = interp::run(*function_, inputs_), got = testing::compile_and_run(*function_, inputs_);
    for (size_t r = 0; r < want.size(); ++r) compare(got[r], want[r], tolerance, r);
  }
  void compare(const ir::Literal& got, const ir::Literal& want, double tolerance, size_t r) {
    ASSERT_EQ(got.type, want.type);
    const size_t size = static_cast<size_t>(ir::byte_size(got.type.dtype));
    for (int64_t i = 0; i < got.type.size(); ++i) {
      const std::byte *g = got.data.data() + i * static_cast<int64_t>(size), *w = want.data.data() + (want.splat ? 0 : i * static_cast<int64_t>(size));
      const double a = ir::to_double(got, i), c = ir::to_double(want, i);
      if (std::isnan(a) && std::isnan(c)) continue;
      if (tolerance > 0) {
        ASSERT_TRUE(a == c || std::abs(a - c) <= tolerance * (1 + std::abs(c)))
            << "seed " << seed_ << ", result " << r << ", element " << i << ": " << a << ", expected " << c;
      } else {
        ASSERT_EQ(std::memcmp(g, w, size), 0) << "seed " << seed_ << ", result " << r << ", element " << i << ": " << a << ", expected " << c;
      }
    }
  }

  unsigned seed_ = 0;
  std::mt19937_64 random_;
  std::unique_ptr<ir::Function> function_ = std::make_unique<ir::Function>();
  ir::Builder b_{function_->body};
  std::vector<ir::Literal> inputs_;
};

TEST_F(OpTest, FloatFunctionsHaveTheInterpretersBits) {
  std::vector<V> results;
  for (DType dtype : {DType::F32, DType::F64, DType::BF16, DType::F16}) {
    V x = arg(dtype, {4, 77}, 3), y = arg(dtype, {4, 77}, 3);
    for (OpCode op : {OpCode::Abs,
                      OpCode::Cbrt,
                      OpCode::Ceil,
                      OpCode::Cosine,
                      OpCode::Exponential,
                      OpCode::ExponentialMinusOne,
                      OpCode::Floor,
                      OpCode::Log,
                      OpCode::LogPlusOne,
                      OpCode::Logistic,
                      OpCode::Negate,
                      OpCode::RoundNearestAfz,
                      OpCode::RoundNearestEven,
                      OpCode::Rsqrt,
                      OpCode::Sign,
                      OpCode::Sine,
                      OpCode::Sqrt,
                      OpCode::Tan,
                      OpCode::Tanh,
                      OpCode::Erf})
      results.push_back(b_.unary(op, x));
    for (OpCode op :
         {OpCode::Add, OpCode::Atan2, OpCode::Divide, OpCode::Maximum, OpCode::Minimum, OpCode::Multiply, OpCode::Power, OpCode::Remainder, OpCode::Subtract})
      results.push_back(b_.binary(op, x, y));
  }
  check(results);
}

TEST_F(OpTest, IntegerFunctionsHaveTheInterpretersBits) {
  std::vector<V> results;
  for (DType dtype : {DType::S8, DType::S16, DType::S32, DType::S64, DType::U8, DType::U16, DType::U32, DType::U64}) {
    V x = indices(dtype, {130}, 0, 100), y = indices(dtype, {130}, 0, 9);
    for (OpCode op : {OpCode::Popcnt, OpCode::CountLeadingZeros, OpCode::Not, OpCode::Negate}) results.push_back(b_.unary(op, x));
    for (OpCode op : {OpCode::Add, OpCode::And, OpCode::Divide, OpCode::Maximum, OpCode::Minimum, OpCode::Multiply, OpCode::Or, OpCode::Power,
                      OpCode::Remainder, OpCode::ShiftLeft, OpCode::ShiftRightArithmetic, OpCode::ShiftRightLogical, OpCode::Subtract, OpCode::Xor})
      results.push_back(b_.binary(op, x, y));
    results.push_back(b_.compare(ir::Comparison::LT, x, y));
  }
  check(results);
}

TEST_F(OpTest, ConversionsBetweenAllTypes) {
  std::vector<V> results;
  const DType types[] = {DType::I1, DType::S8, DType::S32, DType::S64, DType::U8, DType::U32, DType::BF16, DType::F16, DType::F32, DType::F64, DType::C64};
  for (DType from : types) {
    V x = arg(from, {65}, 40);
    for (DType to : types) results.push_back(b_.convert(x, to));
  }
  check(results);
}

TEST_F(OpTest, SixteenBitFloatsRoundEveryOpInsideAFusedExpression) {
  V x = arg(DType::BF16, {33, 5}), y = arg(DType::BF16, {33, 5});
  V z = b_.binary(OpCode::Add, b_.binary(OpCode::Multiply, x, y), b_.unary(OpCode::Tanh, b_.binary(OpCode::Divide, x, y)));
  check({b_.binary(OpCode::Subtract, z, b_.unary(OpCode::Exponential, z))});
}

TEST_F(OpTest, ReductionsOverEveryKindOfDims) {
  std::vector<V> results;
  V x = arg(DType::F32, {7, 5, 70});
  for (Dims dims : std::initializer_list<Dims>{{0}, {1}, {2}, {0, 1}, {0, 2}, {1, 2}, {0, 1, 2}, {}}) {
    results.push_back(b_.sum(x, dims));
    results.push_back(b_.max(x, dims));
    results.push_back(b_.reduce(OpCode::Minimum, x, b_.splat(ir::tensor(DType::F32), 1e30), dims));
  }
  check(results, 2e-5);
}

TEST_F(OpTest, LongReductionsStayAccurate) {
  V x = arg(DType::F32, {3, 40000}), tall = arg(DType::F32, {40000, 3});
  check({b_.sum(x, {1}), b_.sum(tall, {0}), b_.sum(x, {0, 1})}, 1e-3);
}

TEST_F(OpTest, ExtremesKeepNanAndSignedZero) {
  V x = arg(DType::F32, {6, 40});
  auto& literal = inputs_.back();
  for (int i = 0; i < 40; ++i)
    literal.set<float>(i, i % 2 ? -0.0f : 0.0f), literal.set<float>(40 + i, -0.0f), literal.set<float>(80 + i, -1.0f * static_cast<float>(i + 1));
  literal.set<float>(130, std::nanf(""));
  literal.set<float>(170, -std::nanf(""));
  literal.set<float>(210, -INFINITY);
  check({b_.max(x, {1}), b_.max(x, {0}), b_.reduce(OpCode::Minimum, x, b_.splat(ir::tensor(DType::F32), INFINITY), {1})});
}

TEST_F(OpTest, IntegerAndBooleanReductions) {
  V i = indices(DType::S32, {9, 66}, -50, 50), u = indices(DType::U8, {9, 66}, 0, 200), p = arg(DType::I1, {9, 66});
  auto zero = [&](DType d) { return b_.splat(ir::tensor(d), 0); };
  std::vector<V> results;
  for (Dims dims : std::initializer_list<Dims>{{0}, {1}}) {
    for (OpCode op : {OpCode::Add, OpCode::Or, OpCode::Xor, OpCode::Maximum}) results.push_back(b_.reduce(op, u, zero(DType::U8), dims));
    results.push_back(b_.reduce(OpCode::Add, i, zero(DType::S32), dims));
    results.push_back(b_.reduce(OpCode::Minimum, i, b_.splat(ir::tensor(DType::S32), 1000), dims));
    results.push_back(b_.reduce(OpCode::Or, p, zero(DType::I1), dims));
    results.push_back(b_.reduce(OpCode::And, p, b_.splat(ir::tensor(DType::I1), 1), dims));
  }
  check(results);
}

TEST_F(OpTest, ReduceOfTwoOperandsFindsThePlace) {
  V x = arg(DType::F32, {12, 31});
  V place = b_.iota(ir::tensor(DType::S64, {12, 31}), 1);
  auto body = [](ir::Builder& b, std::vector<V> a) -> std::vector<V> {
    V keep = b.compare(ir::Comparison::GE, a[0], a[2]);
    return {b.select(keep, a[0], a[2]), b.select(keep, a[1], a[3])};
  };
  V low = b_.splat(ir::tensor(DType::F32), -1e30), zero = b_.splat(ir::tensor(DType::S64), 0);
  auto rows = b_.reduce({x, place}, {low, zero}, {1}, body), columns = b_.reduce({x, place}, {low, zero}, {0}, body);
  check({rows[0], rows[1], columns[0], columns[1]});
}

TEST_F(OpTest, DynamicSlices) {
  V x = arg(DType::F32, {9, 20}), u = arg(DType::F32, {3, 7});
  V i = indices(DType::S32, {}, -3, 12), j = indices(DType::S32, {}, -3, 22);
  check({b_.dynamic_slice(x, {i, j}, {4, 6}), b_.dynamic_update_slice(x, u, {i, j})});
}

TEST_F(OpTest, GatherRowsAndPoints) {
  V table = arg(DType::F32, {50, 24}), rows = indices(DType::S64, {6, 7}, -3, 55), points = indices(DType::S32, {11, 2}, -2, 60);
  ir::GatherDims by_row{{2}, {0}, {}, {}, {0}, 2}, by_point{{}, {0, 1}, {}, {}, {0, 1}, 1};
  check({b_.gather(table, rows, by_row, {1, 24}), b_.gather(table, points, by_point, {1, 1})});
}

// Index constants that grow evenly are computed instead of read; those near the ends of their type are clamped like all others.
TEST_F(OpTest, GatherAtConstantsOfAnySize) {
  V table = arg(DType::F32, {3, 31});
  std::vector<V> results;
  for (DType dtype : {DType::S32, DType::S64, DType::U32, DType::U64}) {
    const int64_t most = dtype == DType::S32 ? (int64_t{1} << 31) - 1 : dtype == DType::U32 ? (int64_t{1} << 32) - 1 : INT64_MAX;
    for (int64_t first : {most, most - 1, -most - 1, int64_t{7295162163026704851}, int64_t{3}}) {
      for (int64_t second : {-most, most / 2 + 5, int64_t{-4764840283041021258}, int64_t{5}}) {
        ir::Literal at(ir::tensor(dtype, {2}));
        for (int64_t i = 0; i < 2; ++i) std::memcpy(at.data.data() + i * ir::byte_size(dtype), i ? &second : &first, static_cast<size_t>(ir::byte_size(dtype)));
        results.push_back(b_.gather(table, b_.constant(std::make_shared<ir::Literal>(at)), {{0}, {1}, {}, {}, {1}, 1}, {3, 1}));
        results.push_back(b_.gather(table, b_.convert(b_.constant(std::make_shared<ir::Literal>(at)), DType::S32), {{0}, {1}, {}, {}, {1}, 1}, {3, 1}));
      }
    }
  }
  check(results);
}

TEST_F(OpTest, ScatterAddsRowsInOrder) {
  V table = arg(DType::F32, {30, 150}), rows = indices(DType::S64, {40}, -3, 33), updates = arg(DType::F32, {40, 150});
  auto add = [](ir::Builder& b, V a, V c) { return b.binary(OpCode::Add, a, c); };
  V points = indices(DType::S32, {25, 2}, -1, 31), values = arg(DType::F32, {25});
  auto keep = [](ir::Builder&, V, V c) { return c; };
  V windows = indices(DType::S32, {4, 1}, 0, 28), wide = arg(DType::F32, {4, 3, 150});
  check({b_.scatter(table, rows, updates, {{1}, {0}, {}, {}, {0}, 1}, add), b_.scatter(table, points, values, {{}, {0, 1}, {}, {}, {0, 1}, 1}, keep),
         b_.scatter(table, windows, wide, {{1, 2}, {}, {}, {}, {0}, 1}, add)});
}

TEST_F(OpTest, Windows) {
  V x = arg(DType::F32, {2, 3, 12, 14});
  V low = b_.splat(ir::tensor(DType::F32), -INFINITY), zero = b_.splat(ir::tensor(DType::F32), 0);
  check({b_.reduce_window(OpCode::Maximum, x, low, {1, 1, 3, 3}, {1, 1, 2, 2}, {0, 0, 1, 1}, {0, 0, 1, 1}),
         b_.reduce_window(OpCode::Add, x, zero, {1, 1, 2, 2}, {1, 1, 2, 2}, {0, 0, 0, 0}, {0, 0, 0, 0}),
         b_.reduce_window(OpCode::Add, x, zero, {1, 1, 7, 7}, {1, 1, 1, 1}, {0, 0, 3, 3}, {0, 0, 3, 3}),
         b_.reduce_window(OpCode::Maximum, x, low, {1, 1, 2, 2}, {1, 1, 1, 1}, {0, 0, 0, 0}, {0, 0, 0, 0}, {1, 1, 2, 1}, {1, 1, 2, 3})},
        1e-5);
}

TEST_F(OpTest, ProductsOfEveryLayout) {
  V a = arg(DType::F32, {4, 9, 6}), c = arg(DType::F32, {4, 6, 7}), d = arg(DType::F64, {6, 5}), e = arg(DType::F64, {3, 6}),
    i = indices(DType::S32, {5, 8}, -9, 9), j = indices(DType::S32, {8, 4}, -9, 9);
  V h = arg(DType::BF16, {5, 16}), k = arg(DType::BF16, {16, 3});
  check({b_.dot(a, c, {{0}, {0}, {2}, {1}}), b_.dot(b_.transpose(a, {1, 0, 2}), c, {{1}, {0}, {2}, {1}}), b_.dot(d, e, {{}, {}, {0}, {1}}),
         b_.dot(a, c, {{}, {}, {0, 2}, {0, 1}}), b_.dot(i, j, {{}, {}, {1}, {0}}), b_.dot(h, k, {{}, {}, {1}, {0}}),
         b_.dot(h, k, {{}, {}, {1}, {0}}, DType::F32), b_.dot(a, a, {{1}, {1}, {2}, {2}}),
         b_.dot(b_.slice(a, {0, 2, 1}, {4, 8, 5}, {1, 1, 1}), b_.slice(c, {0, 1, 0}, {4, 5, 7}, {1, 1, 2}), {{0}, {0}, {2}, {1}})},
        2e-2);
}

TEST_F(OpTest, MatricesTimesVectors) {
  V a = arg(DType::F32, {2, 33, 47}), x = arg(DType::F32, {2, 47}), y = arg(DType::F64, {19, 23}), z = arg(DType::F64, {19});
  V rows = b_.dot(a, x, {{0}, {0}, {2}, {1}}), turned = b_.dot(x, a, {{0}, {0}, {1}, {2}}), columns = b_.dot(y, z, {{}, {}, {0}, {0}});
  check({b_.unary(OpCode::Tanh, rows), turned, columns, b_.dot(b_.transpose(y, {1, 0}), z, {{}, {}, {1}, {0}})}, 1e-5);
}

TEST_F(OpTest, AttentionReadsPackedHeads) {
  const int64_t batch = 3, tokens = 10, heads = 2, width = 8;
  V packed = arg(DType::F32, {batch, tokens, 3 * heads * width});
  V split = b_.transpose(b_.reshape(packed, {batch, tokens, 3, heads, width}), {2, 0, 3, 1, 4});
  auto part = [&](int64_t i) {
    return b_.reshape(b_.slice(split, {i, 0, 0, 0, 0}, {i + 1, batch, heads, tokens, width}, {1, 1, 1, 1, 1}), {batch * heads, tokens, width});
  };
  V scores = b_.dot(part(0), part(1), {{0}, {0}, {2}, {2}});
  V out = b_.dot(scores, part(2), {{0}, {0}, {2}, {1}});
  V merged = b_.reshape(b_.transpose(b_.reshape(out, {batch, heads, tokens, width}), {0, 2, 1, 3}), {batch * tokens, heads * width});
  V weight = arg(DType::F32, {5, heads * width});
  check({b_.dot(merged, weight, {{}, {}, {1}, {1}})}, 1e-3);
}

TEST_F(OpTest, ConvolutionsOfEveryKind) {
  V x = arg(DType::F32, {2, 6, 9, 8}), k = arg(DType::F32, {4, 6, 3, 3}), grouped = arg(DType::F32, {4, 3, 3, 2});
  ir::ConvDims plain{0, 1, {2, 3}, 0, 1, {2, 3}, 0, 1, {2, 3}, {2, 1}, {1, 1}, {1, 0}, {1, 1}, {1, 1}};
  ir::ConvDims dilated = plain, groups = plain, last = plain, reversed = plain;
  dilated.lhs_dilation = {2, 1}, dilated.rhs_dilation = {1, 2}, dilated.stride = {1, 1};
  groups.feature_groups = 2;
  reversed.reversal = {true, false};
  last.output_batch = 3, last.output_feature = 0, last.output_spatial = {1, 2};
  ir::ConvDims batches{0, 1, {2, 3}, 0, 1, {2, 3}, 0, 1, {2, 3}, {1, 1}, {0, 0}, {0, 0}, {1, 1}, {1, 1}, 1, 2};
  check({b_.convolution(x, k, plain), b_.convolution(x, k, dilated), b_.convolution(x, grouped, groups), b_.convolution(x, k, last),
         b_.convolution(x, k, reversed), b_.convolution(x, k, batches)},
        1e-4);
}

TEST_F(OpTest, LargeConvolutionsGoThroughProducts) {
  V x = arg(DType::F32, {2, 10, 11, 16}), k = arg(DType::F32, {3, 3, 16, 24}), y = arg(DType::F32, {2, 16, 10, 11}), w = arg(DType::F32, {24, 16, 3, 3});
  const ir::ConvDims last{0, 3, {1, 2}, 3, 2, {0, 1}, 0, 3, {1, 2}, {1, 2}, {1, 1}, {1, 0}, {1, 1}, {1, 1}};
  const ir::ConvDims first{0, 1, {2, 3}, 0, 1, {2, 3}, 0, 1, {2, 3}, {1, 1}, {2, 1}, {1, 0}, {2, 1}, {1, 2}};
  b_.ret({b_.convolution(x, k, last), b_.convolution(y, w, first)});
  const auto executable = compiler::compile(ir::clone(*function_), testing::options());
  EXPECT_GE(executable->info().library_calls, 2);
  const auto want = interp::run(*function_, inputs_), got = testing::compile_and_run(*function_, inputs_);
  for (size_t r = 0; r < want.size(); ++r) compare(got[r], want[r], 1e-4, r);
}

TEST_F(OpTest, RandomBitsAreThoseOfPhilox) {
  V state = indices(DType::U64, {2}, 0, 1000);
  ir::Attributes attrs;
  attrs.set("rng_algorithm", ir::EnumWord{"rng_algorithm", "PHILOX"});
  ir::Op* op = b_.make(OpCode::RngBitGenerator, {state}, attrs, {state->type, ir::tensor(DType::U32, {7, 11})});
  check({op->result(0), op->result(1), b_.convert(b_.transpose(op->result(1), {1, 0}), DType::F32)});
}

TEST_F(OpTest, SortsOfEveryDimensionWithoutTheInterpreter) {
  V x = arg(DType::F32, {3, 37, 2}), i = b_.iota(ir::tensor(DType::S32, {3, 37, 2}), 1), h = arg(DType::BF16, {5, 64}), big = arg(DType::F32, {3000});
  for (size_t k = 0; k < 200; k += 7) set(inputs_[0], static_cast<int64_t>(k), k % 3 == 0 ? NAN : k % 3 == 1 ? -0.0 : 0.0);
  auto by = [](ir::Comparison direction) { return [direction](ir::Builder& b, std::vector<V> a) { return b.compare(direction, a[0], a[1]); }; };
  auto keyed = [](ir::Builder& b, std::vector<V> a) {  // by size, then by place
    V less = b.compare(ir::Comparison::LT, b.unary(OpCode::Abs, a[0]), b.unary(OpCode::Abs, a[1]));
    return b.select(b.compare(ir::Comparison::EQ, a[0], a[1]), b.compare(ir::Comparison::GT, a[2], a[3]), less);
  };
  auto first = b_.sort({x, i}, 1, true, keyed), second = b_.sort({h}, 1, false, by(ir::Comparison::GT)),
       third = b_.sort({big}, 0, true, by(ir::Comparison::LT));
  auto fourth = b_.sort({x}, 0, true, by(ir::Comparison::LT));
  const std::vector<V> results{first[0], first[1], second[0], third[0], fourth[0]};
  check(results);
  EXPECT_TRUE(compiler::compile(ir::clone(*function_), {})->info().opaque_names.empty());
}

TEST_F(OpTest, FourierTransformsAndTriangularSystemsByLibraries) {
  V x = arg(DType::F32, {3, 6, 10}), a = arg(DType::F64, {2, 5, 5}, 0.3), b = arg(DType::F64, {2, 5, 3});
  auto transform = [&](V v, const char* type, Dims length, ir::Type result) {
    ir::Attributes attrs;
    attrs.set("fft_type", ir::EnumWord{"fft_type", type});
    attrs.set("fft_length", std::move(length));
    return b_.make(OpCode::Fft, {v}, attrs, {std::move(result)})->result();
  };
  V half = transform(x, "RFFT", {6, 10}, ir::tensor(DType::C64, {3, 6, 6})), full = transform(half, "IFFT", {6}, half->type);
  V back = transform(half, "IRFFT", {6, 10}, x->type);
  V square = b_.dot(a, a, {{0}, {0}, {2}, {2}}), one = b_.convert(b_.compare(ir::Comparison::EQ, b_.iota(a->type, 1), b_.iota(a->type, 2)), DType::F64);
  ir::Attributes lower, solve;
  lower.set("lower", true);
  V factor = b_.make(OpCode::Cholesky, {b_.binary(OpCode::Add, square, one)}, lower, {a->type})->result();
  solve.set("left_side", true), solve.set("lower", true), solve.set("unit_diagonal", false);
  solve.set("transpose_a", ir::EnumWord{"transpose", "TRANSPOSE"});
  V solved = b_.make(OpCode::TriangularSolve, {factor, b}, solve, {b->type})->result();
  auto parts = [&](V v) { return std::vector<V>{b_.unary(OpCode::Real, v), b_.unary(OpCode::Imag, v)}; };
  std::vector<V> results{back, factor, solved};
  for (V v : {half, full})
    for (V part : parts(v)) results.push_back(part);
  check(results, 1e-4);
  EXPECT_TRUE(compiler::compile(ir::clone(*function_), {})->info().opaque_names.empty());
}

TEST_F(OpTest, RunningTotalsInOnePass) {
  V x = arg(DType::F32, {3, 200, 5}), n = indices(DType::S32, {70, 4}, -9, 9), init = arg(DType::F32, {});
  auto total = [&](OpCode op, V v, V start, size_t dim, bool from_end) {
    Dims window(v->type.dims.size(), 1), ones = window, low(window.size(), 0), high = low;
    window[dim] = v->type.dims[dim];
    (from_end ? high : low)[dim] = window[dim] - 1;
    return b_.reduce_window(op, v, start, window, ones, low, high);
  };
  const V minus = b_.splat(ir::tensor(DType::F32, {}), -INFINITY);
  // What starts at the beginning has the interpreter's bits, and integers have them in any order; sums of floats from the end do not.
  const V zero = b_.splat(ir::tensor(DType::F32, {}), 0);
  check({total(OpCode::Add, x, zero, 1, false), total(OpCode::Maximum, x, minus, 1, true), total(OpCode::Maximum, x, init, 1, false),
         total(OpCode::Add, n, b_.splat(ir::tensor(DType::S32, {}), 0), 0, true),
         total(OpCode::Multiply, n, b_.splat(ir::tensor(DType::S32, {}), 1), 0, false)});
}

TEST_F(OpTest, RunningTotalsFromTheEndOrFromANumber) {
  V x = arg(DType::F32, {4, 100});
  check({b_.reduce_window(OpCode::Add, x, b_.splat(ir::tensor(DType::F32, {}), 0), {1, 100}, {1, 1}, {0, 0}, {0, 99}),
         b_.reduce_window(OpCode::Add, x, b_.splat(ir::tensor(DType::F32, {}), 3), {1, 100}, {1, 1}, {0, 99}, {0, 0})},
        1e-5);
}

TEST_F(OpTest, LargestOfEachRow) {
  V x = arg(DType::F32, {5, 40}), i = indices(DType::S32, {3, 33}, 0, 9);
  set(inputs_[0], 7, NAN), set(inputs_[0], 8, INFINITY), set(inputs_[0], 50, -0.0), set(inputs_[0], 51, 0.0);
  std::vector<V> results;
  for (V v : {x, i}) {
    const int64_t rows = v->type.dims[0];
    for (V value : b_.composite("chlo.top_k", {v}, {ir::tensor(v->type.dtype, {rows, 6}), ir::tensor(DType::S32, {rows, 6})})) results.push_back(value);
  }
  check(results);
  EXPECT_TRUE(compiler::compile(ir::clone(*function_), {})->info().opaque_names.empty());
}

TEST_F(OpTest, Atan2OfKnownNumbersHasTheBitsOfUnknownOnes) {
  auto literal = std::make_shared<ir::Literal>(ir::tensor(DType::F32, {2, 7}));
  const double values[] = {3.7168705, -0.14890182, -2.82462, -3.902375, -1.0, 7.1130244e-06, -3.8868732};
  for (int64_t i = 0; i < 14; ++i) set(*literal, i, values[i % 7] * (i < 7 ? 1 : -0.3));
  check({b_.binary(OpCode::Atan2, b_.constant(literal), b_.iota(literal->type, 1))});
}

TEST_F(OpTest, RowsPutTogetherFromParts) {
  V q = arg(DType::F32, {6, 2, 37}), k = arg(DType::F32, {6, 2, 37}), v = arg(DType::F32, {6, 2, 37}), zero = b_.splat(ir::tensor(DType::F32, {}), 0);
  auto part = [&](V x, int64_t at) { return b_.pad(b_.reshape(x, {6, 1, 2, 37}), zero, {0, at, 0, 0}, {0, 2 - at, 0, 0}, {0, 0, 0, 0}); };
  V sum = b_.binary(OpCode::Add, b_.binary(OpCode::Add, part(q, 0), part(k, 1)), part(v, 2));
  V joined = b_.concatenate({b_.reshape(k, {6, 1, 2, 37}), b_.reshape(q, {6, 1, 2, 37}), b_.reshape(v, {6, 1, 2, 37})}, 1);
  check({sum, b_.unary(OpCode::Negate, joined)});
}

// A loop of `count` turns over a counter, one row and a table of rows; `turn` makes the next row and table.
using Turn = std::function<std::vector<V>(ir::Builder& b, V counter, V row, V table)>;

TEST_F(OpTest, LoopsUpdateTheirStateInPlace) {
  V count = indices(DType::S32, {}, 5, 9), row = arg(DType::F32, {40}), table = arg(DType::F32, {50, 40});
  auto loop = [&](const Turn& turn) {
    std::vector<std::unique_ptr<ir::Block>> regions;
    for (int r = 0; r < 2; ++r) {
      regions.push_back(std::make_unique<ir::Block>());
      for (V state : {count, row, table}) regions.back()->add_arg(state->type);
    }
    ir::Builder test(*regions[0]), body(*regions[1]);
    test.ret({test.compare(ir::Comparison::GT, regions[0]->args[0].get(), test.splat(count->type, 0))});
    V i = regions[1]->args[0].get();
    std::vector<V> next = turn(body, i, regions[1]->args[1].get(), regions[1]->args[2].get());
    next.insert(next.begin(), body.binary(OpCode::Subtract, i, body.splat(count->type, 1)));
    body.ret(next);
    return b_.make(OpCode::While, {count, row, table}, {}, {count->type, row->type, table->type}, std::move(regions));
  };
  auto put = [](ir::Builder& b, V to, V line, V at) { return b.dynamic_update_slice(to, b.reshape(line, {1, 40}), {at, b.splat(at->type, 0)}); };
  auto line = [](ir::Builder& b, V from, V at) { return b.reshape(b.dynamic_slice(from, {at, b.splat(at->type, 0)}, {1, 40}), {40}); };
  std::vector<V> results;
  auto keep = [&](ir::Op* op) {
    for (size_t i = 0; i < 3; ++i) results.push_back(op->result(i));
  };
  keep(loop([&](ir::Builder& b, V i, V x, V t) { return std::vector<V>{b.unary(OpCode::Tanh, x), put(b, t, x, i)}; }));
  // What is written is read from the table first, or from what it was before.
  keep(loop(
      [&](ir::Builder& b, V i, V x, V t) { return std::vector<V>{b.binary(OpCode::Add, x, line(b, t, i)), put(b, t, line(b, t, b.splat(i->type, 7)), i)}; }));
  keep(loop([&](ir::Builder& b, V i, V x, V t) {
    V next = put(b, t, x, i);
    return std::vector<V>{b.binary(OpCode::Add, line(b, next, i), line(b, t, i)), next};
  }));
  // The whole table shifts by a row, and the row and a line of the table change places.
  keep(loop([&](ir::Builder& b, V i, V x, V t) {
    V below = b.slice(t, {0, 0}, {49, 40}, {1, 1});
    return std::vector<V>{line(b, t, b.splat(i->type, 49)), b.concatenate({b.reshape(x, {1, 40}), below}, 0)};
  }));
  check(results);
}

TEST_F(OpTest, SmallUpdatesOfLargeTensors) {
  V table = arg(DType::F32, {30, 40, 3}), patch = arg(DType::F32, {2, 5, 3}), at = indices(DType::S64, {}, -4, 60), far = indices(DType::U64, {}, 0, 50);
  V zero = b_.splat(at->type, 0);
  check({b_.dynamic_update_slice(table, patch, {at, at, at}), b_.unary(OpCode::Negate, b_.dynamic_update_slice(table, patch, {zero, at, zero})), table,
         b_.dynamic_update_slice(table, patch, {far, far, far})});
}

TEST_F(OpTest, SortAndControlFlow) {
  V x = arg(DType::F32, {4, 23}), i = b_.iota(ir::tensor(DType::S32, {4, 23}), 1);
  auto sorted = b_.sort({x, i}, 1, true, [](ir::Builder& b, std::vector<V> a) { return b.compare(ir::Comparison::LT, a[0], a[1]); });
  V count = indices(DType::S32, {}, 2, 9), y = arg(DType::F32, {5});
  auto block = [](std::initializer_list<ir::Type> types) {
    auto region = std::make_unique<ir::Block>();
    for (const ir::Type& t : types) region->add_arg(t);
    return region;
  };
  std::vector<std::unique_ptr<ir::Block>> loop;
  for (int r = 0; r < 2; ++r) loop.push_back(block({count->type, y->type}));
  ir::Builder condition(*loop[0]), body(*loop[1]);
  condition.ret({condition.compare(ir::Comparison::GT, loop[0]->args[0].get(), condition.splat(count->type, 0))});
  body.ret({body.binary(OpCode::Subtract, loop[1]->args[0].get(), body.splat(count->type, 1)), body.binary(OpCode::Add, loop[1]->args[1].get(), y)});
  ir::Op* repeat = b_.make(OpCode::While, {count, y}, {}, {count->type, y->type}, std::move(loop));
  std::vector<std::unique_ptr<ir::Block>> sides;
  for (int r = 0; r < 2; ++r) sides.push_back(block({}));
  ir::Builder yes(*sides[0]), no(*sides[1]);
  yes.ret({yes.unary(OpCode::Negate, y)});
  no.ret({repeat->result(1)});
  ir::Op* chosen = b_.make(OpCode::If, {b_.compare(ir::Comparison::GT, count, b_.splat(count->type, 5))}, {}, {y->type}, std::move(sides));
  check({sorted[0], sorted[1], repeat->result(0), repeat->result(1), chosen->result()});
}

TEST_F(OpTest, EmptyAndSingleElementDims) {
  V empty = arg(DType::F32, {0, 5}), one = arg(DType::F32, {1, 1, 1}), x = arg(DType::F32, {3, 5});
  check({b_.sum(empty, {0}), b_.sum(empty, {1}), b_.concatenate({empty, x}, 0), b_.unary(OpCode::Negate, empty), b_.sum(one, {0, 1, 2}), b_.sum(one, {1}),
         b_.transpose(one, {2, 0, 1}), b_.dot(empty, x, {{}, {}, {1}, {1}}),
         b_.dot(b_.transpose(empty, {1, 0}), b_.slice(x, {0, 0}, {0, 5}, {1, 1}), {{}, {}, {1}, {0}}),
         b_.pad(empty, b_.splat(ir::tensor(DType::F32), 7), {2, 0}, {1, 1}, {0, 0})},
        1e-5);
}

TEST_F(OpTest, ComplexNumbers) {
  V re = arg(DType::F32, {20}), im = arg(DType::F32, {20});
  V z = b_.make(OpCode::Complex, {re, im})->result();
  V w = b_.binary(OpCode::Multiply, z, b_.binary(OpCode::Add, z, z));
  check({b_.make(OpCode::Real, {w})->result(), b_.make(OpCode::Imag, {w})->result(), b_.sum(w, {0})}, 1e-4);
}

}  // namespace
}  // namespace thalweg
