// Channels that lie last stay there: the same values, and the transposes at the ends.
#include "compiler/channels_last.h"

#include <gtest/gtest.h>

#include <random>

#include "compiler/rewrite.h"
#include "interp/interpreter.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "passes/dce.h"

namespace thalweg::compiler {
namespace {

const char* const kSignature = "func.func public @main(%x: tensor<2x3x4x5xf32>, %y: tensor<2x5x3x4xf32>, %c: tensor<5xf32>) -> ";
const char* const kHead = "%t = stablehlo.transpose %x, dims = [0, 3, 1, 2] : (tensor<2x3x4x5xf32>) -> tensor<2x5x3x4xf32>\n";

// The ops' names after the pass, in order, constants left out; checks that the meaning stays, bit for bit.
std::string kept(const std::string& results, const std::string& ops) {
  auto module = ir::parse(kSignature + results + " {\n" + kHead + ops + "\n}", "test");
  ir::Function& function = module->main();
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  std::vector<ir::Literal> inputs;
  for (const auto& arg : function.body.args) {
    inputs.emplace_back(arg->type);
    for (int64_t i = 0; i < arg->type.size(); ++i) inputs.back().set<float>(i, static_cast<float>(static_cast<int>(random() % 9) - 4));
  }
  const auto want = interp::run(function, inputs);
  rewrite(function, keep_channels_last);
  passes::dce(function);
  ir::verify(function);
  const auto got = interp::run(function, inputs);
  for (size_t r = 0; r < want.size(); ++r) EXPECT_EQ(ir::expand(got[r]).data, ir::expand(want[r]).data) << "seed " << seed << "\n" << ir::print(function);
  std::string names;
  for (const auto& op : function.body.ops)
    if (op->code != ir::OpCode::Return && op->code != ir::OpCode::Constant) names += (names.empty() ? "" : " ") + std::string(ir::name(op->code));
  return names;
}

TEST(ChannelsLast, ElementwiseOpsWithNumbersChannelsAndPlaces) {
  EXPECT_EQ(kept("tensor<2x5x3x4xf32>", R"(%b = stablehlo.broadcast_in_dim %c, dims = [1] : (tensor<5xf32>) -> tensor<2x5x3x4xf32>
%k = stablehlo.constant dense<0.5> : tensor<2x5x3x4xf32>
%i = stablehlo.iota dim = 3 : tensor<2x5x3x4xf32>
%0 = stablehlo.add %t, %b : tensor<2x5x3x4xf32>
%1 = stablehlo.multiply %0, %k : tensor<2x5x3x4xf32>
%2 = stablehlo.maximum %1, %i : tensor<2x5x3x4xf32>
return %2 : tensor<2x5x3x4xf32>)"),
            "broadcast_in_dim add multiply iota maximum transpose");
}

TEST(ChannelsLast, OthersAreLaidTheSame) {
  EXPECT_EQ(kept("tensor<2x5x3x4xf32>", "%0 = stablehlo.add %t, %y : tensor<2x5x3x4xf32>\nreturn %0 : tensor<2x5x3x4xf32>"), "transpose add transpose");
}

TEST(ChannelsLast, WhatGoesBackIsNoMove) {
  EXPECT_EQ(kept("tensor<2x3x4x5xf32>", R"(%0 = stablehlo.negate %t : tensor<2x5x3x4xf32>
%1 = stablehlo.transpose %0, dims = [0, 2, 3, 1] : (tensor<2x5x3x4xf32>) -> tensor<2x3x4x5xf32>
return %1 : tensor<2x3x4x5xf32>)"),
            "negate");
}

TEST(ChannelsLast, WindowsUnrolledIntoPadsAndSlices) {
  EXPECT_EQ(kept("tensor<2x5x2x3xf32>", R"(%z = stablehlo.constant dense<0.0> : tensor<f32>
%0 = stablehlo.pad %t, %z, low = [0, 0, 1, 0], high = [0, 0, 0, 1], interior = [0, 0, 1, 0] : (tensor<2x5x3x4xf32>, tensor<f32>) -> tensor<2x5x6x5xf32>
%1 = stablehlo.slice %0 [0:2, 0:5, 1:5:2, 1:4] : (tensor<2x5x6x5xf32>) -> tensor<2x5x2x3xf32>
return %1 : tensor<2x5x2x3xf32>)"),
            "pad slice transpose");
}

TEST(ChannelsLast, SumsOverPlacesOverChannelsAndJoints) {
  EXPECT_EQ(kept("tensor<5xf32>", R"(%z = stablehlo.constant dense<0.0> : tensor<f32>
%0 = stablehlo.reduce(%t init: %z) applies stablehlo.add across dimensions = [0, 2, 3] : (tensor<2x5x3x4xf32>, tensor<f32>) -> tensor<5xf32>
return %0 : tensor<5xf32>)"),
            "reduce");
  EXPECT_EQ(kept("tensor<5x4xf32>", R"(%z = stablehlo.constant dense<0.0> : tensor<f32>
%0 = stablehlo.reduce(%t init: %z) applies stablehlo.add across dimensions = [0, 2] : (tensor<2x5x3x4xf32>, tensor<f32>) -> tensor<5x4xf32>
return %0 : tensor<5x4xf32>)"),
            "reduce transpose");
  EXPECT_EQ(kept("tensor<2x10x3x4xf32>", R"(%0 = stablehlo.concatenate %t, %y, dim = 1 : (tensor<2x5x3x4xf32>, tensor<2x5x3x4xf32>) -> tensor<2x10x3x4xf32>
return %0 : tensor<2x10x3x4xf32>)"),
            "transpose concatenate transpose");
}

TEST(ChannelsLast, OtherOrdersStay) {
  EXPECT_EQ(kept("tensor<5x2x4x3xf32>", R"(%0 = stablehlo.transpose %y, dims = [1, 0, 3, 2] : (tensor<2x5x3x4xf32>) -> tensor<5x2x4x3xf32>
%1 = stablehlo.negate %0 : tensor<5x2x4x3xf32>
return %1 : tensor<5x2x4x3xf32>)"),
            "transpose negate");
}

}  // namespace
}  // namespace thalweg::compiler
