// What only C++ can ask of the interpreter: narrow dtypes, known random bits, checks that raise, bad calls.
#include "interp/interpreter.h"

#include <gtest/gtest.h>

#include <random>

#include "ir/builder.h"
#include "ir/float_formats.h"
#include "ir/parser.h"
#include "ir/verifier.h"
#include "support/error.h"

namespace thalweg::interp {
namespace {

using ir::DType;
using ir::Literal;
using ir::OpCode;
using ir::Value;

Literal random_literal(const ir::Type& type, std::mt19937_64& random) {
  Literal literal(type);
  for (int64_t i = 0; i < type.size(); ++i) ir::store_int(type.dtype, literal.data.data() + i * byte_size(type.dtype), static_cast<int64_t>(random()));
  return literal;
}

// The result of one op made by `build` on arguments of the inputs' types.
template <class Build>
Literal result_of(const std::vector<Literal>& inputs, const Build& build) {
  ir::Function function;
  function.name = "main";
  std::vector<Value*> args;
  for (const Literal& input : inputs) args.push_back(function.body.add_arg(input.type));
  ir::Builder b(function.body);
  b.ret({build(b, args)});
  ir::verify(function);
  return run(function, inputs)[0];
}

TEST(Interpreter, SubByteIntegersWrapAndCountTheirOwnBits) {
  std::mt19937_64 random(7);
  for (auto [dtype, bits] : {std::pair{DType::S2, 2}, {DType::U2, 2}, {DType::S4, 4}, {DType::U4, 4}}) {
    const Literal a = random_literal(ir::tensor(dtype, {64}), random), b = random_literal(ir::tensor(dtype, {64}), random);
    const int mask = (1 << bits) - 1;
    const auto low = [&](const Literal& l, int64_t i) { return static_cast<int>(to_int(l, i)) & mask; };
    const auto binary = [&](OpCode code) { return result_of({a, b}, [&](ir::Builder& f, auto& v) { return f.binary(code, v[0], v[1]); }); };
    const auto unary = [&](OpCode code) { return result_of({a}, [&](ir::Builder& f, auto& v) { return f.unary(code, v[0]); }); };
    const Literal sum = binary(OpCode::Add), product = binary(OpCode::Multiply), shifted = binary(OpCode::ShiftRightLogical), left = binary(OpCode::ShiftLeft);
    const Literal ones = unary(OpCode::Popcnt), zeros = unary(OpCode::CountLeadingZeros), flipped = unary(OpCode::Not);
    for (int64_t i = 0; i < 64; ++i) {
      const int x = low(a, i), y = low(b, i);
      EXPECT_EQ(low(sum, i), (x + y) & mask);
      EXPECT_EQ(low(product, i), (x * y) & mask);
      EXPECT_EQ(low(shifted, i), y >= bits ? 0 : x >> y);
      EXPECT_EQ(low(left, i), y >= bits ? 0 : (x << y) & mask);
      EXPECT_EQ(low(ones, i), __builtin_popcount(static_cast<unsigned>(x)) & mask);
      EXPECT_EQ(low(zeros, i), (x == 0 ? bits : __builtin_clz(static_cast<unsigned>(x)) - 32 + bits) & mask);
      EXPECT_EQ(low(flipped, i), ~x & mask);
    }
  }
}

TEST(Interpreter, NarrowFloatsComputeInFloatAndRoundOnce) {
  for (DType dtype : {DType::BF16, DType::F16, DType::F8E4M3FN, DType::F8E5M2, DType::F8E4M3FNUZ, DType::F6E3M2FN, DType::F4E2M1FN}) {
    const int64_t codes = dtype == DType::F4E2M1FN ? 16 : dtype == DType::F6E3M2FN ? 64 : byte_size(dtype) == 1 ? 256 : 1000;
    Literal a(ir::tensor(dtype, {codes})), b(a.type);
    std::mt19937_64 random(11);
    for (int64_t i = 0; i < codes; ++i) {
      const uint64_t x = codes == 1000 ? random() & 0xFFFF : static_cast<uint64_t>(i), y = random() % (codes == 1000 ? 65536 : static_cast<uint64_t>(codes));
      std::memcpy(a.data.data() + i * byte_size(dtype), &x, static_cast<size_t>(byte_size(dtype)));
      std::memcpy(b.data.data() + i * byte_size(dtype), &y, static_cast<size_t>(byte_size(dtype)));
    }
    const Literal product = result_of({a, b}, [](ir::Builder& f, auto& v) { return f.binary(OpCode::Multiply, v[0], v[1]); });
    const Literal wide = result_of({a}, [](ir::Builder& f, auto& v) { return f.convert(v[0], DType::F64); });
    for (int64_t i = 0; i < codes; ++i) {
      const double exact = static_cast<float>(to_double(a, i)) * static_cast<float>(to_double(b, i));
      const double rounded = ir::decode_float(dtype, ir::encode_float(dtype, exact)), got = to_double(product, i);
      EXPECT_TRUE(got == rounded || (got != got && rounded != rounded)) << name(dtype) << ": " << to_double(a, i) << " * " << to_double(b, i) << " = " << got;
      EXPECT_TRUE(wide.get<double>(i) == to_double(a, i) || to_double(a, i) != to_double(a, i));
    }
  }
}

std::vector<Literal> run_text(const std::string& text, const std::vector<Literal>& inputs) {
  const auto module = ir::parse(text, "test.mlir");
  ir::verify(*module);
  return run(*module, module->main(), inputs);
}

Literal u64s(std::vector<uint64_t> values) {
  Literal literal(ir::tensor(DType::U64, {static_cast<int64_t>(values.size())}));
  for (size_t i = 0; i < values.size(); ++i) literal.set<uint64_t>(static_cast<int64_t>(i), values[i]);
  return literal;
}

TEST(Interpreter, ThreeFryGivesThePublishedAnswers) {
  // Threefry-2x32 with 20 rounds: the answers published with its paper for zeros, ones and the digits of pi.
  const struct {
    uint64_t key, counter, answer;
  } cases[] = {
      {0, 0, 0x99ba4efe6b200159},
      {~uint64_t{0}, ~uint64_t{0}, 0xbb002be71cb996fc},
      {0x0370734413198a2e, 0x85a308d3243f6a88, 0x483df7a0c4923a9c},
  };
  for (const auto& c : cases) {
    const auto out = run_text(
        "func.func @main(%s: tensor<2xui64>) -> (tensor<2xui64>, tensor<1xui64>) { %n, %b = stablehlo.rng_bit_generator %s, algorithm = THREE_FRY : "
        "(tensor<2xui64>) -> "
        "(tensor<2xui64>, tensor<1xui64>) return %n, %b : tensor<2xui64>, tensor<1xui64> }",
        {u64s({c.key, c.counter})});
    EXPECT_EQ(out[1].get<uint64_t>(0), c.answer);
    EXPECT_EQ(out[0].get<uint64_t>(1), c.counter + 1);
  }
}

ErrorKind kind_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.kind();
  }
  return ErrorKind::Internal;
}

TEST(Interpreter, ChecksInProgramsRaise) {
  const auto check = [](DType dtype, const char* target, ir::Attributes config, std::vector<double> values) {
    Literal input(ir::tensor(dtype, {static_cast<int64_t>(values.size())}));
    for (size_t i = 0; i < values.size(); ++i) ir::store_double(dtype, input.data.data() + static_cast<int64_t>(i) * byte_size(dtype), values[i]);
    config.set("has_side_effect", true);
    return result_of({input}, [&](ir::Builder& b, auto& v) { return b.custom_call(target, {v[0]}, {ir::tensor(DType::I1)}, config)[0]; });
  };
  ir::Attributes bounds;
  bounds.set("low", int64_t{-2});
  bounds.set("high", int64_t{3});
  bounds.set("message", "label of cross_entropy: ");
  EXPECT_EQ(to_int(check(DType::S64, "thalweg.check_index", bounds, {-2, 0, 2}), 0), 1);
  EXPECT_EQ(kind_of([&] { check(DType::S64, "thalweg.check_index", bounds, {0, 3}); }), ErrorKind::Index);
  EXPECT_EQ(kind_of([&] { check(DType::S32, "thalweg.check_index", bounds, {-3}); }), ErrorKind::Index);
  EXPECT_EQ(to_int(check(DType::F32, "thalweg.check_finite", {}, {1, -2}), 0), 1);
  EXPECT_EQ(kind_of([&] { check(DType::BF16, "thalweg.check_finite", {}, {1, INFINITY}); }), ErrorKind::NotFinite);
  EXPECT_EQ(kind_of([&] { check(DType::F32, "thalweg.nowhere", {}, {1}); }), ErrorKind::Unsupported);
}

TEST(Interpreter, BadCallsAreErrors) {
  const auto text = "func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> { return %a : tensor<2xf32> }";
  EXPECT_EQ(kind_of([&] { run_text(text, {}); }), ErrorKind::Invalid);
  EXPECT_EQ(kind_of([&] { run_text(text, {Literal(ir::tensor(DType::F32, {3}))}); }), ErrorKind::Invalid);
  const auto dynamic =
      "func.func @main(%s: tensor<1xi32>) -> tensor<?xf32> { %0 = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi32>) -> tensor<?xf32> return %0 : "
      "tensor<?xf32> }";
  EXPECT_EQ(kind_of([&] { run_text(dynamic, {Literal(ir::tensor(DType::S32, {1}))}); }), ErrorKind::Unsupported);
}

TEST(Interpreter, EmptyTensorsRunThroughEveryKindOfOp) {
  const auto out = run_text(R"(func.func @main(%a: tensor<0x3xf32>, %z: tensor<f32>) -> (tensor<3xf32>, tensor<3x3xf32>, tensor<4x3xf32>, tensor<0x3xf32>) {
    %0 = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0] : (tensor<0x3xf32>, tensor<f32>) -> tensor<3xf32>
    %1 = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<0x3xf32>, tensor<0x3xf32>) -> tensor<3x3xf32>
    %2 = stablehlo.pad %a, %z, low = [4, 0], high = [0, 0], interior = [2, 0] : (tensor<0x3xf32>, tensor<f32>) -> tensor<4x3xf32>
    %3 = "stablehlo.sort"(%a) <{dimension = 0 : i64}> ({ ^bb0(%x: tensor<f32>, %y: tensor<f32>): %l = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1> stablehlo.return %l : tensor<i1> }) : (tensor<0x3xf32>) -> tensor<0x3xf32>
    return %0, %1, %2, %3 : tensor<3xf32>, tensor<3x3xf32>, tensor<4x3xf32>, tensor<0x3xf32>
  })",
                            {Literal(ir::tensor(DType::F32, {0, 3})), *ir::make_splat(ir::tensor(DType::F32), 7)});
  EXPECT_EQ(to_double(out[0], 2), 7);
  EXPECT_EQ(to_double(out[1], 8), 0);
  EXPECT_EQ(to_double(out[2], 11), 7);
  EXPECT_EQ(out[3].data.size(), 0u);
}

}  // namespace
}  // namespace thalweg::interp
