// Composites found in plain programs of the forms that JAX and hand-written models have: the names that are found, and the same values before and after.
#include "passes/recognize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "interp/interpreter.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "passes/dce.h"
#include "passes/decompose.h"
#include "passes/pass.h"

namespace thalweg::passes {
namespace {

constexpr uint32_t kSeed = 31;

std::vector<ir::Literal> random_inputs(const ir::Function& function) {
  std::mt19937 random(kSeed);
  std::normal_distribution<double> normal;
  std::vector<ir::Literal> inputs;
  for (const auto& arg : function.body.args) {
    inputs.emplace_back(arg->type);
    const int64_t size = ir::byte_size(arg->type.dtype);
    for (int64_t i = 0; i < arg->type.size(); ++i) ir::store_double(arg->type.dtype, inputs.back().data.data() + i * size, normal(random));
  }
  return inputs;
}

// The names of the composites that recognize() finds in the simplified body of a function; checks that values stay.
std::string found(const std::string& signature, const std::string& ops) {
  auto module = ir::parse("func.func public @main(" + signature + " {\n" + ops + "\n}", "test");
  ir::Function& function = module->main();
  simplify(function);
  const auto inputs = random_inputs(function);
  const auto want = interp::run(function, inputs);
  recognize(function);
  dce(function);
  ir::verify(function);
  std::string names;
  for (const auto& op : function.body.ops)
    if (op->code == ir::OpCode::Composite) names += (names.empty() ? "" : " ") + op->attrs.string("name").substr(8);
  const std::string text = ir::print(function);
  decompose(function);
  const auto got = interp::run(function, inputs);
  for (size_t r = 0; r < want.size(); ++r)
    for (int64_t i = 0; i < want[r].type.size(); ++i) {
      const double a = ir::to_double(got[r], i), b = ir::to_double(want[r], i);
      EXPECT_NEAR(a, b, 3e-6 * (1 + std::abs(b))) << "result " << r << " element " << i << "\n" << text;
      if (!(std::abs(a - b) < 1)) return names + " wrong";
    }
  return names;
}

constexpr const char* kSoftmax =
    "%low = stablehlo.constant dense<0xFF800000> : tensor<f32>\n%zero = stablehlo.constant dense<0.0> : tensor<f32>\n"
    "%m = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [2] : (tensor<2x3x5xf32>, tensor<f32>) -> tensor<2x3xf32>\n"
    "%m1 = stablehlo.broadcast_in_dim %m, dims = [0, 1] : (tensor<2x3xf32>) -> tensor<2x3x1xf32>\n"
    "%m2 = stablehlo.broadcast_in_dim %m1, dims = [0, 1, 2] : (tensor<2x3x1xf32>) -> tensor<2x3x5xf32>\n"
    "%d = stablehlo.subtract %x, %m2 : tensor<2x3x5xf32>\n%e = stablehlo.exponential %d : tensor<2x3x5xf32>\n"
    "%s = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<2x3x5xf32>, tensor<f32>) -> tensor<2x3xf32>\n"
    "%s1 = stablehlo.broadcast_in_dim %s, dims = [0, 1] : (tensor<2x3xf32>) -> tensor<2x3x1xf32>\n";
constexpr const char* kSpread = "%s2 = stablehlo.broadcast_in_dim %s1, dims = [0, 1, 2] : (tensor<2x3x1xf32>) -> tensor<2x3x5xf32>\n";

TEST(Recognize, SoftmaxAndItsLogarithm) {
  const std::string signature = "%x: tensor<2x3x5xf32>) -> tensor<2x3x5xf32>";
  EXPECT_EQ(found(signature, std::string(kSoftmax) + kSpread + "%y = stablehlo.divide %e, %s2 : tensor<2x3x5xf32>\nreturn %y : tensor<2x3x5xf32>"), "softmax");
  EXPECT_EQ(found(signature, std::string(kSoftmax) + "%l = stablehlo.log %s1 : tensor<2x3x1xf32>\n"
                                                     "%l2 = stablehlo.broadcast_in_dim %l, dims = [0, 1, 2] : (tensor<2x3x1xf32>) -> tensor<2x3x5xf32>\n"
                                                     "%y = stablehlo.subtract %d, %l2 : tensor<2x3x5xf32>\nreturn %y : tensor<2x3x5xf32>"),
            "log_softmax");
}

TEST(Recognize, WhatOthersReadStaysPlain) {
  EXPECT_EQ(found("%x: tensor<2x3x5xf32>) -> (tensor<2x3x5xf32>, tensor<2x3x5xf32>)",
                  std::string(kSoftmax) + kSpread + "%y = stablehlo.divide %e, %s2 : tensor<2x3x5xf32>\nreturn %y, %e : tensor<2x3x5xf32>, tensor<2x3x5xf32>"),
            "");
  EXPECT_EQ(found("%x: tensor<2x3x5xf32>) -> (tensor<2x3x5xf32>, tensor<2x3x1xf32>)",
                  std::string(kSoftmax) + kSpread + "%y = stablehlo.divide %e, %s2 : tensor<2x3x5xf32>\nreturn %y, %s1 : tensor<2x3x5xf32>, tensor<2x3x1xf32>"),
            "");
  // Another tensor's powers over this one's sum.
  EXPECT_EQ(found("%x: tensor<2x3x5xf32>, %w: tensor<2x3x5xf32>) -> tensor<2x3x5xf32>",
                  std::string(kSoftmax) + kSpread + "%y = stablehlo.divide %w, %s2 : tensor<2x3x5xf32>\nreturn %y : tensor<2x3x5xf32>"),
            "");
}

// Normalisation of [2, 3, 8] over the last dim: the mean by a product or a quotient, the deviation as rsqrt or sqrt.
std::string norm(const std::string& count, const std::string& by, const std::string& root, const std::string& last, const std::string& rest) {
  return "%zero = stablehlo.constant dense<0.0> : tensor<f32>\n%n = stablehlo.constant dense<" + count +
         "> : tensor<2x3x1xf32>\n%eps = stablehlo.constant dense<1.0e-5> : tensor<2x3x1xf32>\n"
         "%s = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<2x3x8xf32>, tensor<f32>) -> tensor<2x3xf32>\n"
         "%s1 = stablehlo.reshape %s : (tensor<2x3xf32>) -> tensor<2x3x1xf32>\n%mean = stablehlo." +
         by +
         " %s1, %n : tensor<2x3x1xf32>\n%m = stablehlo.broadcast_in_dim %mean, dims = [0, 1, 2] : (tensor<2x3x1xf32>) -> tensor<2x3x8xf32>\n"
         "%c = stablehlo.subtract %x, %m : tensor<2x3x8xf32>\n%q = stablehlo.multiply %c, %c : tensor<2x3x8xf32>\n"
         "%v = stablehlo.reduce(%q init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<2x3x8xf32>, tensor<f32>) -> tensor<2x3xf32>\n"
         "%v1 = stablehlo.broadcast_in_dim %v, dims = [0, 1] : (tensor<2x3xf32>) -> tensor<2x3x1xf32>\n%v2 = stablehlo." +
         by + " %v1, %n : tensor<2x3x1xf32>\n%v3 = stablehlo.add %v2, %eps : tensor<2x3x1xf32>\n%r = stablehlo." + root +
         " %v3 : tensor<2x3x1xf32>\n%r1 = stablehlo.broadcast_in_dim %r, dims = [0, 1, 2] : (tensor<2x3x1xf32>) -> tensor<2x3x8xf32>\n%y = stablehlo." + last +
         " %c, %r1 : tensor<2x3x8xf32>\n" + rest;
}

TEST(Recognize, LayerNormWithWeightAndBias) {
  const std::string weights =
      "%g1 = stablehlo.broadcast_in_dim %g, dims = [2] : (tensor<8xf32>) -> tensor<2x3x8xf32>\n%z = stablehlo.multiply %y, %g1 : tensor<2x3x8xf32>\n"
      "%b1 = stablehlo.broadcast_in_dim %b, dims = [2] : (tensor<8xf32>) -> tensor<2x3x8xf32>\n%o = stablehlo.add %b1, %z : tensor<2x3x8xf32>\n"
      "return %o : tensor<2x3x8xf32>";
  const std::string signature = "%x: tensor<2x3x8xf32>, %g: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<2x3x8xf32>";
  EXPECT_EQ(found(signature, norm("0.125", "multiply", "rsqrt", "multiply", weights)), "layer_norm");
  EXPECT_EQ(found(signature, norm("8.0", "divide", "sqrt", "divide", weights)), "layer_norm");
  EXPECT_EQ(found(signature, norm("8.0", "divide", "rsqrt", "multiply", "return %y : tensor<2x3x8xf32>")), "layer_norm");
  // Not the mean.
  EXPECT_EQ(found(signature, norm("7.0", "divide", "rsqrt", "multiply", weights)), "");
  // The normalised input is read by somebody else too: the weight stays outside.
  const std::string both = "%x: tensor<2x3x8xf32>, %g: tensor<8xf32>, %b: tensor<8xf32>) -> (tensor<2x3x8xf32>, tensor<2x3x8xf32>)";
  EXPECT_EQ(found(both, norm("8.0", "divide", "rsqrt", "multiply",
                             "%g1 = stablehlo.broadcast_in_dim %g, dims = [2] : (tensor<8xf32>) -> tensor<2x3x8xf32>\n%z = stablehlo.multiply %y, %g1 : "
                             "tensor<2x3x8xf32>\nreturn %z, %y : tensor<2x3x8xf32>, tensor<2x3x8xf32>")),
            "layer_norm");
}

TEST(Recognize, GeluInAllForms) {
  const std::string signature = "%x: tensor<4x6xf32>) -> tensor<4x6xf32>", half = "%h = stablehlo.constant dense<0.5> : tensor<4x6xf32>\n";
  const std::string one = "%one = stablehlo.constant dense<1.0> : tensor<4x6xf32>\n", root = "%k = stablehlo.constant dense<0.707106769> : tensor<4x6xf32>\n";
  EXPECT_EQ(found(signature, half + root +
                                 "%a = stablehlo.multiply %h, %x : tensor<4x6xf32>\n%n = stablehlo.negate %x : tensor<4x6xf32>\n"
                                 "%u = stablehlo.multiply %n, %k : tensor<4x6xf32>\n%e = chlo.erfc %u : tensor<4x6xf32> -> tensor<4x6xf32>\n"
                                 "%y = stablehlo.multiply %a, %e : tensor<4x6xf32>\nreturn %y : tensor<4x6xf32>"),
            "gelu");
  EXPECT_EQ(found(signature, half + one + root +
                                 "%u = stablehlo.multiply %x, %k : tensor<4x6xf32>\n%e = chlo.erf %u : tensor<4x6xf32> -> tensor<4x6xf32>\n"
                                 "%g = stablehlo.add %e, %one : tensor<4x6xf32>\n%a = stablehlo.multiply %x, %g : tensor<4x6xf32>\n"
                                 "%y = stablehlo.multiply %a, %h : tensor<4x6xf32>\nreturn %y : tensor<4x6xf32>"),
            "gelu");
  const std::string cubic = "%q = stablehlo.constant dense<0.044715> : tensor<4x6xf32>\n%p = stablehlo.constant dense<0.797884583> : tensor<4x6xf32>\n";
  auto tanh_form = [&](const std::string& scale) {
    return half + one + cubic +
           "%x2 = stablehlo.multiply %x, %x : tensor<4x6xf32>\n%x3 = stablehlo.multiply %x2, %x : tensor<4x6xf32>\n"
           "%c = stablehlo.multiply %q, %x3 : tensor<4x6xf32>\n%w = stablehlo.add %x, %c : tensor<4x6xf32>\n%u = stablehlo.multiply %" +
           scale +
           ", %w : tensor<4x6xf32>\n%t = stablehlo.tanh %u : tensor<4x6xf32>\n%g = stablehlo.add %one, %t : tensor<4x6xf32>\n"
           "%a = stablehlo.multiply %h, %g : tensor<4x6xf32>\n%y = stablehlo.multiply %x, %a : tensor<4x6xf32>\nreturn %y : tensor<4x6xf32>";
  };
  EXPECT_EQ(found(signature, tanh_form("p")), "gelu");
  EXPECT_EQ(found(signature, tanh_form("h")), "");
}

// Scores of shape `shape` with the last of `rank` dims reduced.
std::string softmax_of(const std::string& from, const std::string& shape, const std::string& reduced, int64_t rank) {
  std::string dims;
  for (int64_t d = 0; d + 1 < rank; ++d) dims += (d ? ", " : "") + std::to_string(d);
  const std::string full = "tensor<" + shape + "xf32>", rows = "tensor<" + reduced + "xf32>", last = std::to_string(rank - 1);
  auto reduce = [&](const char* to, const std::string& x, const char* init, const char* op) {
    return std::string(to) + " = stablehlo.reduce(" + x + " init: " + init + ") applies stablehlo." + op + " across dimensions = [" + last + "] : (" + full +
           ", tensor<f32>) -> " + rows + "\n" + to + "b = stablehlo.broadcast_in_dim " + to + ", dims = [" + dims + "] : (" + rows + ") -> " + full + "\n";
  };
  return "%low = stablehlo.constant dense<0xFF800000> : tensor<f32>\n%zero = stablehlo.constant dense<0.0> : tensor<f32>\n" +
         reduce("%m", from, "%low", "maximum") + "%d = stablehlo.subtract " + from + ", %mb : " + full + "\n%e = stablehlo.exponential %d : " + full + "\n" +
         reduce("%s", "%e", "%zero", "add") + "%p = stablehlo.divide %e, %sb : " + full + "\n";
}

TEST(Recognize, AttentionOfPackedHeads) {
  // Tokens before heads, as einsum("bthd,bshd->bhts") gives it; values first in the second product.
  const std::string scores =
      "%s0 = stablehlo.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x5x3x4xf32>, tensor<2x7x3x4xf32>) -> "
      "tensor<2x3x5x7xf32>\n%f = stablehlo.constant dense<0.5> : tensor<2x3x5x7xf32>\n%x = stablehlo.multiply %s0, %f : tensor<2x3x5x7xf32>\n";
  const std::string second =
      "%o = stablehlo.dot_general %v, %p, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3] : (tensor<2x7x3x6xf32>, tensor<2x3x5x7xf32>) -> "
      "tensor<2x3x6x5xf32>\n%y = stablehlo.transpose %o, dims = [0, 3, 1, 2] : (tensor<2x3x6x5xf32>) -> tensor<2x5x3x6xf32>\n";
  const std::string operands = "%q: tensor<2x5x3x4xf32>, %k: tensor<2x7x3x4xf32>, %v: tensor<2x7x3x6xf32>) -> ",
                    softmax = softmax_of("%x", "2x3x5x7", "2x3x5", 4);
  EXPECT_EQ(found(operands + "tensor<2x5x3x6xf32>", scores + softmax + second + "return %y : tensor<2x5x3x6xf32>"), "attention");
  // The backward pass wants the probabilities: only the softmax goes by name.
  EXPECT_EQ(
      found(operands + "(tensor<2x5x3x6xf32>, tensor<2x3x5x7xf32>)", scores + softmax + second + "return %y, %p : tensor<2x5x3x6xf32>, tensor<2x3x5x7xf32>"),
      "softmax");
}

TEST(Recognize, AttentionOfMatrices) {
  const std::string scores =
      "%x = stablehlo.dot_general %q, %k, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<6x5x4xf32>, tensor<6x7x4xf32>) -> "
      "tensor<6x5x7xf32>\n";
  auto second = [](const char* contracted, const char* v) {
    return std::string("%y = stablehlo.dot_general %p, %v, batching_dims = [0] x [0], contracting_dims = [2] x [") + contracted + "] : (tensor<6x5x7xf32>, " +
           v + ") -> tensor<6x5x8xf32>\nreturn %y : tensor<6x5x8xf32>";
  };
  const std::string operands = "%q: tensor<6x5x4xf32>, %k: tensor<6x7x4xf32>, %v: ", softmax = softmax_of("%x", "6x5x7", "6x5", 3);
  EXPECT_EQ(found(operands + "tensor<6x7x8xf32>) -> tensor<6x5x8xf32>", scores + softmax + second("1", "tensor<6x7x8xf32>")), "attention");
  EXPECT_EQ(found(operands + "tensor<6x8x7xf32>) -> tensor<6x5x8xf32>", scores + softmax + second("2", "tensor<6x8x7xf32>")), "attention");
}

}  // namespace
}  // namespace thalweg::passes
