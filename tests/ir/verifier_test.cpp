// The verifier's verdicts on broken programs, and shape rules of the builder.
#include "ir/verifier.h"

#include <gtest/gtest.h>

#include "ir/builder.h"
#include "ir/parser.h"
#include "support/error.h"

namespace thalweg::ir {
namespace {

std::string verdict(const std::string& ops) {
  const auto module = parse("func.func @main(%a: tensor<2x3xf32>, %i: tensor<i32>, %z: tensor<f32>, %p: tensor<i1>) {\n" + ops + "\nreturn\n}\n", "test.mlir");
  try {
    verify(*module);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Verify);
    return error.what();
  }
  return "good";
}

TEST(Verifier, NamesOpRuleAndValues) {
  EXPECT_EQ(verdict("%b = stablehlo.add %a, %a : tensor<2x3xf32>"), "good");
  EXPECT_EQ(verdict("%b = stablehlo.not %a : tensor<2x3xf32>"), "test.mlir:2: stablehlo.not: element type not taken by this op: tensor<2x3xf32>");
  const std::pair<const char*, const char*> cases[] = {
      {"%b = stablehlo.transpose %a, dims = [0, 0] : (tensor<2x3xf32>) -> tensor<2x2xf32>", "dimension given twice in permutation: 0"},
      {"%b = stablehlo.transpose %a, dims = [0, 1] : (tensor<2x3xf32>) -> tensor<3x2xf32>", "the op gives: tensor<2x3xf32>"},
      {"%b = stablehlo.reshape %a : (tensor<2x3xf32>) -> tensor<7xf32>", "differ in element type or count"},
      {"%b = stablehlo.slice %a [0:3, 0:3] : (tensor<2x3xf32>) -> tensor<3x3xf32>", "slice out of range"},
      {"%b = stablehlo.broadcast_in_dim %a, dims = [0, 2] : (tensor<2x3xf32>) -> tensor<2x4x4xf32>", "neither 1 nor the result's"},
      {"%b = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>", "contracting sizes differ"},
      {"%b = stablehlo.iota dim = 1 : tensor<4xi32>", "dimension out of range: 1"},
      {"%b = stablehlo.concatenate %a, %z, dim = 0 : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>", "differ in rank"},
      {"%b = stablehlo.select %p, %a, %a : (tensor<i1>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<3x2xf32>", "the op gives: tensor<2x3xf32>"},
      {"%b = \"stablehlo.slice\"(%a) : (tensor<2x3xf32>) -> tensor<2x3xf32>", "missing attribute: start_indices"},
      {"%b = \"stablehlo.transpose\"(%a) {permutation = \"x\"} : (tensor<2x3xf32>) -> tensor<2x3xf32>", "attribute of another kind"},
      {"%b = func.call @nowhere(%a) : (tensor<2x3xf32>) -> tensor<2x3xf32>", "no such function: @nowhere"},
      {"func.call @main(%a, %i, %z, %p) : (tensor<2x3xf32>, tensor<i32>, tensor<f32>, tensor<i1>) -> ()", "function calls itself: @main"},
      {"%b = stablehlo.pad %a, %z, low = [-3, 0], high = [0, 0], interior = [0, 0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<0x3xf32>",
       "removes more than there is"},
      {"%b = stablehlo.compare LX, %a, %a : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>", "unknown comparison direction: LX"},
      {"%b = \"stablehlo.if\"(%p) ({ stablehlo.return %a : tensor<2x3xf32> }, { stablehlo.return %z : tensor<f32> }) : (tensor<i1>) -> tensor<2x3xf32>",
       "different types"},
  };
  for (const auto& [ops, part] : cases) {
    const std::string message = verdict(ops);
    EXPECT_NE(message.find(part), std::string::npos) << ops << "\n" << message;
  }
}

TEST(Verifier, FindsUseBeforeDefinition) {
  Function function;
  function.name = "main";
  Value* a = function.body.add_arg(tensor(DType::F32, {2}));
  Builder builder(function.body);
  Value* b = builder.unary(OpCode::Negate, a);
  Value* c = builder.unary(OpCode::Abs, b);
  builder.ret({c});
  EXPECT_NO_THROW(verify(function));
  std::swap(function.body.ops[0], function.body.ops[1]);
  EXPECT_THROW(verify(function), Error);
}

TEST(Builder, InfersShapes) {
  Block block;
  Builder b(block);
  Value* x = block.add_arg(tensor(DType::BF16, {4, 5, 6}));
  Value* y = block.add_arg(tensor(DType::BF16, {4, 6, 7}));
  EXPECT_EQ(b.dot(x, y, {{0}, {0}, {2}, {1}})->type, tensor(DType::BF16, {4, 5, 7}));
  EXPECT_EQ(b.dot(x, y, {{0}, {0}, {2}, {1}}, DType::F32)->type, tensor(DType::F32, {4, 5, 7}));
  EXPECT_EQ(b.sum(x, {1})->type, tensor(DType::BF16, {4, 6}));
  EXPECT_EQ(b.broadcast_to(b.reshape(b.sum(x, {2}), {4, 5, 1}), {4, 5, 6})->type, x->type);
  EXPECT_EQ(b.pad(x, b.splat(tensor(DType::BF16), 0), {1, 0, -1}, {0, 2, 0}, {1, 0, 0})->type, tensor(DType::BF16, {8, 7, 5}));
  EXPECT_EQ(b.compare(Comparison::LT, x, x)->type, tensor(DType::I1, {4, 5, 6}));
  ConvDims conv;
  conv.input_spatial = conv.kernel_spatial = conv.output_spatial = {2, 3};
  conv.stride = {2, 2};
  conv.pad_low = conv.pad_high = {1, 1};
  conv.lhs_dilation = conv.rhs_dilation = {1, 1};
  Value* image = block.add_arg(tensor(DType::F32, {2, 3, 9, 8}));
  Value* kernel = block.add_arg(tensor(DType::F32, {5, 3, 3, 3}));
  EXPECT_EQ(b.convolution(image, kernel, conv)->type, tensor(DType::F32, {2, 5, 5, 4}));
  EXPECT_EQ(b.reduce_window(OpCode::Maximum, image, b.splat(tensor(DType::F32), 0), {1, 1, 3, 3}, {1, 1, 2, 2}, {0, 0, 1, 1}, {0, 0, 1, 1})->type,
            tensor(DType::F32, {2, 3, 5, 4}));
  EXPECT_THROW(b.binary(OpCode::Add, x, y), Error);
  EXPECT_THROW(b.transpose(x, {0, 1}), Error);
}

}  // namespace
}  // namespace thalweg::ir
