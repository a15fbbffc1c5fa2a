// Each rule once: what a small program becomes. (That nothing changes its meaning is tested on random programs in pass_test.cpp.)
#include "passes/canonicalize.h"

#include <gtest/gtest.h>

#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "passes/pass.h"

namespace thalweg::passes {
namespace {

// The names of the ops left after simplify() in the body `ops` of a function of %a : tensor<2x3xf32>, %i : tensor<4xi32>, %s : tensor<3xf32>, whose result is
// %r.
std::string left(const std::string& type, const std::string& ops) {
  std::string text =
      "func.func public @main(%a: tensor<2x3xf32>, %i: tensor<4xi32>, %s: tensor<3xf32>) -> " + type + " {\n" + ops + "\nreturn %r : " + type + "\n}";
  auto module = ir::parse(text, "test");
  ir::Function& function = module->main();
  simplify(function);
  ir::verify(function);
  std::string names;
  for (const auto& op : function.body.ops)
    if (op->code != ir::OpCode::Return) names += (names.empty() ? "" : " ") + std::string(ir::name(op->code));
  return names;
}

TEST(Canonicalize, Arithmetic) {
  const char* type = "tensor<2x3xf32>";
  auto with = [&](const char* op, const char* number) {
    return left(type, std::string("%c = stablehlo.constant dense<") + number + "> : tensor<2x3xf32>\n%r = stablehlo." + op + " %a, %c : tensor<2x3xf32>");
  };
  EXPECT_EQ(with("add", "-0.0"), "");
  EXPECT_EQ(with("add", "0.0"), "constant add");
  EXPECT_EQ(with("subtract", "0.0"), "");
  EXPECT_EQ(with("multiply", "1.0"), "");
  EXPECT_EQ(with("multiply", "-1.0"), "negate");
  EXPECT_EQ(with("multiply", "0.0"), "constant multiply");
  EXPECT_EQ(with("divide", "4.0"), "constant multiply");
  EXPECT_EQ(with("divide", "3.0"), "constant divide");
  EXPECT_EQ(with("power", "2.0"), "multiply");
  EXPECT_EQ(with("maximum", "0xFF800000"), "");
  EXPECT_EQ(left("tensor<4xi32>", "%r = stablehlo.subtract %i, %i : tensor<4xi32>"), "constant");
  EXPECT_EQ(left(type, "%0 = stablehlo.negate %a : tensor<2x3xf32>\n%r = stablehlo.negate %0 : tensor<2x3xf32>"), "");
}

TEST(Canonicalize, Conversions) {
  EXPECT_EQ(left("tensor<2x3xf32>",
                 "%0 = stablehlo.convert %a : (tensor<2x3xf32>) -> tensor<2x3xf64>\n%r = stablehlo.convert %0 : (tensor<2x3xf64>) -> tensor<2x3xf32>"),
            "");
  EXPECT_EQ(left("tensor<2x3xf32>",
                 "%0 = stablehlo.convert %a : (tensor<2x3xf32>) -> tensor<2x3xbf16>\n%r = stablehlo.convert %0 : (tensor<2x3xbf16>) -> tensor<2x3xf32>"),
            "convert convert");
  EXPECT_EQ(left("tensor<4xui8>", "%0 = stablehlo.convert %i : (tensor<4xi32>) -> tensor<4xf64>\n%r = stablehlo.convert %0 : (tensor<4xf64>) -> tensor<4xui8>"),
            "convert convert");
}

TEST(Canonicalize, Movement) {
  EXPECT_EQ(
      left("tensor<2x3xf32>", "%0 = stablehlo.reshape %a : (tensor<2x3xf32>) -> tensor<6xf32>\n%r = stablehlo.reshape %0 : (tensor<6xf32>) -> tensor<2x3xf32>"),
      "");
  EXPECT_EQ(left("tensor<2x3xf32>",
                 "%0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>\n%r = stablehlo.transpose %0, dims = [1, 0] : "
                 "(tensor<3x2xf32>) -> tensor<2x3xf32>"),
            "");
  EXPECT_EQ(
      left("tensor<3x1xf32>",
           "%0 = stablehlo.reshape %s : (tensor<3xf32>) -> tensor<1x3xf32>\n%r = stablehlo.transpose %0, dims = [1, 0] : (tensor<1x3xf32>) -> tensor<3x1xf32>"),
      "reshape");
  EXPECT_EQ(left("tensor<5x2x3xf32>",
                 "%0 = stablehlo.broadcast_in_dim %s, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>\n"
                 "%r = stablehlo.broadcast_in_dim %0, dims = [1, 2] : (tensor<2x3xf32>) -> tensor<5x2x3xf32>"),
            "broadcast_in_dim");
  EXPECT_EQ(left("tensor<2x3xf32>", "%0 = stablehlo.reverse %a, dims = [0] : tensor<2x3xf32>\n%r = stablehlo.reverse %0, dims = [0] : tensor<2x3xf32>"), "");
  EXPECT_EQ(left("tensor<2x3xf32>",
                 "%0 = stablehlo.broadcast_in_dim %s, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>\n%r = stablehlo.exponential %0 : tensor<2x3xf32>"),
            "exponential broadcast_in_dim");
}

TEST(Canonicalize, ChainsAndProducts) {
  // Heads split off, moved, merged, and moved back.
  EXPECT_EQ(left("tensor<2x3xf32>",
                 "%0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>\n%1 = stablehlo.reshape %0 : (tensor<3x2xf32>) -> "
                 "tensor<3x1x2xf32>\n"
                 "%2 = stablehlo.transpose %1, dims = [2, 1, 0] : (tensor<3x1x2xf32>) -> tensor<2x1x3xf32>\n%r = stablehlo.reshape %2 : (tensor<2x1x3xf32>) -> "
                 "tensor<2x3xf32>"),
            "");
  EXPECT_EQ(left("tensor<2x2xf32>",
                 "%0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>\n"
                 "%r = stablehlo.dot_general %a, %0, contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>"),
            "dot_general");
}

TEST(Canonicalize, Pieces) {
  EXPECT_EQ(left("tensor<1x1xf32>",
                 "%0 = stablehlo.slice %a [1:2, 0:3] : (tensor<2x3xf32>) -> tensor<1x3xf32>\n%r = stablehlo.slice %0 [0:1, 2:3] : (tensor<1x3xf32>) -> "
                 "tensor<1x1xf32>"),
            "slice");
  EXPECT_EQ(left("tensor<2x3xf32>",
                 "%0 = stablehlo.slice %a [0:1, 0:3] : (tensor<2x3xf32>) -> tensor<1x3xf32>\n%1 = stablehlo.slice %a [1:2, 0:3] : (tensor<2x3xf32>) -> "
                 "tensor<1x3xf32>\n"
                 "%r = stablehlo.concatenate %0, %1, dim = 0 : (tensor<1x3xf32>, tensor<1x3xf32>) -> tensor<2x3xf32>"),
            "");
  EXPECT_EQ(left("tensor<3xf32>",
                 "%0 = stablehlo.broadcast_in_dim %s, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>\n%1 = stablehlo.slice %0 [1:2, 0:3] : (tensor<2x3xf32>) "
                 "-> tensor<1x3xf32>\n"
                 "%r = stablehlo.reshape %1 : (tensor<1x3xf32>) -> tensor<3xf32>"),
            "");
  EXPECT_EQ(left("tensor<2x3xf32>",
                 "%z = stablehlo.constant dense<0.0> : tensor<f32>\n"
                 "%0 = stablehlo.pad %a, %z, low = [1, 1], high = [0, 2], interior = [0, 0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<3x6xf32>\n"
                 "%r = stablehlo.slice %0 [1:3, 1:4] : (tensor<3x6xf32>) -> tensor<2x3xf32>"),
            "");
}

TEST(Canonicalize, ConstantsFoldAndSelectsChoose) {
  EXPECT_EQ(
      left("tensor<2x3xf32>",
           "%c = stablehlo.constant dense<2.0> : tensor<f32>\n%d = stablehlo.constant dense<3.0> : tensor<f32>\n%0 = stablehlo.multiply %c, %d : tensor<f32>\n"
           "%1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<2x3xf32>\n%2 = stablehlo.exponential %1 : tensor<2x3xf32>\n"
           "%r = stablehlo.add %a, %2 : tensor<2x3xf32>"),
      "constant add");
  EXPECT_EQ(left("tensor<2x3xf32>",
                 "%p = stablehlo.constant dense<true> : tensor<2x3xi1>\n%0 = stablehlo.negate %a : tensor<2x3xf32>\n%r = stablehlo.select %p, %a, %0 : "
                 "tensor<2x3xi1>, tensor<2x3xf32>"),
            "");
}

}  // namespace
}  // namespace thalweg::passes
