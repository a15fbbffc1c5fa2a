// Where transposes go: into products and behind elementwise ops; which views BLAS reads where they lie, and which need a copy.
#include "compiler/layouts.h"

#include <gtest/gtest.h>

#include <random>

#include "compiler/products.h"
#include "interp/interpreter.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "passes/dce.h"

namespace thalweg::compiler {
namespace {

constexpr uint32_t kSeed = 99;

std::vector<ir::Literal> random_inputs(const ir::Function& function) {
  std::mt19937 random(kSeed);
  std::vector<ir::Literal> inputs;
  for (const auto& arg : function.body.args) {
    inputs.emplace_back(arg->type);
    // Small integers: sums are exact in any order.
    for (int64_t i = 0; i < arg->type.size(); ++i) inputs.back().set<float>(i, static_cast<float>(static_cast<int>(random() % 9) - 4));
  }
  return inputs;
}

std::unique_ptr<ir::Module> program(const std::string& signature, const std::string& ops) {
  return ir::parse("func.func public @main(" + signature + " {\n" + ops + "\n}", "test");
}

// The names of the ops left after settle_layouts(); checks that the meaning stays, bit for bit.
std::string settled(const std::string& signature, const std::string& ops) {
  auto module = program(signature, ops);
  ir::Function& function = module->main();
  const auto inputs = random_inputs(function);
  const auto want = interp::run(function, inputs);
  settle_layouts(function);
  passes::dce(function);
  ir::verify(function);
  const auto got = interp::run(function, inputs);
  for (size_t r = 0; r < want.size(); ++r) EXPECT_EQ(ir::expand(got[r]).data, ir::expand(want[r]).data) << ir::print(function);
  std::string names;
  for (const auto& op : function.body.ops)
    if (op->code != ir::OpCode::Return && op->code != ir::OpCode::Constant) names += (names.empty() ? "" : " ") + std::string(ir::name(op->code));
  return names;
}

TEST(Layouts, ATransposedProductIsTheProductOfTheSwappedOperands) {
  const std::string dot = "%0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<5x3xf32>, tensor<3x4xf32>) -> tensor<5x4xf32>\n";
  const std::string signature = "%a: tensor<5x3xf32>, %b: tensor<3x4xf32>) -> tensor<4x5xf32>";
  EXPECT_EQ(settled(signature, dot + "%r = stablehlo.transpose %0, dims = [1, 0] : (tensor<5x4xf32>) -> tensor<4x5xf32>\nreturn %r : tensor<4x5xf32>"),
            "dot_general");
  EXPECT_EQ(settled(signature, dot + "%c = stablehlo.constant dense<0.25> : tensor<5x4xf32>\n%1 = stablehlo.multiply %0, %c : tensor<5x4xf32>\n"
                                     "%r = stablehlo.transpose %1, dims = [1, 0] : (tensor<5x4xf32>) -> tensor<4x5xf32>\nreturn %r : tensor<4x5xf32>"),
            "dot_general multiply");
  // Others read the product as it is.
  EXPECT_EQ(
      settled("%a: tensor<5x3xf32>, %b: tensor<3x4xf32>) -> (tensor<4x5xf32>, tensor<5x4xf32>)",
              dot + "%r = stablehlo.transpose %0, dims = [1, 0] : (tensor<5x4xf32>) -> tensor<4x5xf32>\nreturn %r, %0 : tensor<4x5xf32>, tensor<5x4xf32>"),
      "dot_general transpose");
}

TEST(Layouts, ElementwiseOpsAreComputedBeforeTheTranspose) {
  const std::string signature = "%a: tensor<2x3x4xf32>, %b: tensor<2x3x4xf32>) -> tensor<4x2x3xf32>";
  const std::string moved =
      "%0 = stablehlo.transpose %a, dims = [2, 0, 1] : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>\n"
      "%1 = stablehlo.transpose %b, dims = [2, 0, 1] : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>\n";
  EXPECT_EQ(
      settled(signature, moved + "%2 = stablehlo.add %0, %1 : tensor<4x2x3xf32>\n%r = stablehlo.negate %2 : tensor<4x2x3xf32>\nreturn %r : tensor<4x2x3xf32>"),
      "add negate transpose");
  EXPECT_EQ(settled("%a: tensor<2x3x4xf32>, %b: tensor<4x2x3xf32>) -> tensor<4x2x3xf32>",
                    "%0 = stablehlo.transpose %a, dims = [2, 0, 1] : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>\n"
                    "%r = stablehlo.add %0, %b : tensor<4x2x3xf32>\nreturn %r : tensor<4x2x3xf32>"),
            "transpose add");
}

// The one product's plan, and how many transposes plan_products() left for copies.
struct Planned {
  std::unique_ptr<ir::Module> module;
  exec::GemmCommand gemm;
  int copies = 0;
  const ir::Value *lhs, *rhs;
};

Planned planned(const std::string& signature, const std::string& ops) {
  Planned p{program(signature, ops), {}, 0, nullptr, nullptr};
  ir::Function& function = p.module->main();
  const auto inputs = random_inputs(function);
  const auto want = interp::run(function, inputs);
  const ProductPlans plans = plan_products(function);
  passes::dce(function);
  ir::verify(function);
  EXPECT_EQ(interp::run(function, inputs)[0].data, want[0].data);
  EXPECT_EQ(plans.size(), 1u);
  for (const auto& [op, plan] : plans) p.gemm = plan.command, p.lhs = plan.lhs, p.rhs = plan.rhs;
  for (const ir::Value* operand : {p.lhs, p.rhs}) p.copies += operand->def != nullptr;
  return p;
}

TEST(Products, ReadsTransposesSlicesAndHeadsWhereTheyLie) {
  Planned p = planned("%a: tensor<30x20xf32>, %b: tensor<40x30xf32>) -> tensor<20x40xf32>",
                      "%0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<30x20xf32>) -> tensor<20x30xf32>\n"
                      "%r = stablehlo.dot_general %0, %b, contracting_dims = [1] x [1] : (tensor<20x30xf32>, tensor<40x30xf32>) -> tensor<20x40xf32>\n"
                      "return %r : tensor<20x40xf32>");
  EXPECT_TRUE(p.gemm.trans_a && p.gemm.trans_b);
  EXPECT_EQ(p.copies, 0);
  EXPECT_EQ(std::vector<int64_t>({p.gemm.m, p.gemm.n, p.gemm.k, p.gemm.lda, p.gemm.ldb, p.gemm.ldc}), std::vector<int64_t>({20, 40, 30, 20, 30, 40}));

  p = planned("%a: tensor<6x50xf32>, %b: tensor<20x7xf32>) -> tensor<6x7xf32>",
              "%0 = stablehlo.slice %a [0:6, 20:40] : (tensor<6x50xf32>) -> tensor<6x20xf32>\n"
              "%r = stablehlo.dot_general %0, %b, contracting_dims = [1] x [0] : (tensor<6x20xf32>, tensor<20x7xf32>) -> tensor<6x7xf32>\n"
              "return %r : tensor<6x7xf32>");
  EXPECT_EQ(p.copies, 0);
  EXPECT_EQ(p.gemm.lda, 50);
  EXPECT_EQ(p.gemm.a_offsets, std::vector<int64_t>{20});

  // Heads packed as [batch, tokens, heads, width].
  p = planned(
      "%a: tensor<2x5x3x4xf32>, %b: tensor<2x6x3x4xf32>) -> tensor<2x3x5x6xf32>",
      "%r = stablehlo.dot_general %a, %b, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x5x3x4xf32>, tensor<2x6x3x4xf32>) -> "
      "tensor<2x3x5x6xf32>\nreturn %r : tensor<2x3x5x6xf32>");
  EXPECT_EQ(p.copies, 0);
  EXPECT_EQ(p.gemm.lda, 12);
  EXPECT_EQ(p.gemm.a_offsets, std::vector<int64_t>({0, 4, 8, 60, 64, 68}));
}

TEST(Products, CopiesWhatHasNoLeadingDimension) {
  // Every second column.
  const Planned p = planned("%a: tensor<6x40xf32>, %b: tensor<20x7xf32>) -> tensor<6x7xf32>",
                            "%0 = stablehlo.slice %a [0:6, 0:40:2] : (tensor<6x40xf32>) -> tensor<6x20xf32>\n"
                            "%r = stablehlo.dot_general %0, %b, contracting_dims = [1] x [0] : (tensor<6x20xf32>, tensor<20x7xf32>) -> tensor<6x7xf32>\n"
                            "return %r : tensor<6x7xf32>");
  EXPECT_EQ(p.copies, 1);
  EXPECT_EQ(p.gemm.lda, 20);
}

}  // namespace
}  // namespace thalweg::compiler
