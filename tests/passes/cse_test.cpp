// What may be merged or dropped and what may not: groups, side effects, randomness, regions.
#include "passes/cse.h"

#include <gtest/gtest.h>

#include "ir/builder.h"
#include "ir/verifier.h"
#include "passes/dce.h"

namespace thalweg::passes {
namespace {

using ir::Builder;
using ir::DType;
using ir::OpCode;
using ir::Value;

struct Program {
  ir::Function function;
  Builder builder{function.body};
  Value* x = function.body.add_arg(ir::tensor(DType::F32, {4}));
  Value* y = function.body.add_arg(ir::tensor(DType::F32, {4}));

  size_t ops_after(bool (*pass)(ir::Function&, const ir::Module*)) {
    pass(function, nullptr);
    ir::verify(function);
    return function.body.ops.size() - 1;  // without the return
  }
};

TEST(Cse, MergesEqualOpsOfOneGroupAndCommutedOperands) {
  Program p;
  Value* a = p.builder.binary(OpCode::Add, p.x, p.y);
  Value* b = p.builder.binary(OpCode::Add, p.y, p.x);
  Value* c = p.builder.binary(OpCode::Subtract, p.x, p.y);
  Value* d = p.builder.binary(OpCode::Subtract, p.y, p.x);
  p.builder.ret({a, b, c, d});
  EXPECT_EQ(p.ops_after(cse), 3u);
}

TEST(Cse, KeepsWhatTheBackwardPassRecomputes) {
  Program p;
  Value* forward = p.builder.unary(OpCode::Tanh, p.x);
  Value* one = p.builder.splat(p.x->type, 1);
  p.builder.group = 1;
  Value* backward = p.builder.unary(OpCode::Tanh, p.x);
  Value* one_again = p.builder.splat(p.x->type, 1);
  p.builder.ret({forward, backward, one, one_again});
  EXPECT_EQ(p.ops_after(cse), 3u);  // only the constants became one
}

TEST(Cse, ComparesRegions) {
  Program p;
  Value* zero = p.builder.splat(ir::tensor(DType::F32), 0);
  Value* sum = p.builder.reduce(OpCode::Add, p.x, zero, {0});
  Value* same = p.builder.reduce(OpCode::Add, p.x, zero, {0});
  Value* product = p.builder.reduce(OpCode::Multiply, p.x, zero, {0});
  p.builder.ret({sum, same, product});
  EXPECT_EQ(p.ops_after(cse), 3u);  // the constant and two reductions
}

TEST(Cse, NeverMergesChecksOrRandomNumbers) {
  Program p;
  Value* index = p.function.body.add_arg(ir::tensor(DType::S64, {4}));
  for (int i = 0; i < 2; ++i) p.builder.custom_call("thalweg.check_index", {index}, {ir::tensor(DType::I1)});
  Value* low = p.builder.splat(ir::tensor(DType::F32), 0);
  Value* high = p.builder.splat(ir::tensor(DType::F32), 1);
  Value* shape = p.builder.constant(ir::make_ints(DType::S64, {4}));
  ir::Attributes attrs;
  attrs.set("rng_distribution", ir::EnumWord{"rng_distribution", "UNIFORM"});
  Value* first = p.builder.make(OpCode::Rng, {low, high, shape}, attrs, {p.x->type})->result();
  Value* second = p.builder.make(OpCode::Rng, {low, high, shape}, attrs, {p.x->type})->result();
  p.builder.ret({first, second});
  EXPECT_EQ(p.ops_after(cse), 7u);
}

TEST(Dce, DropsTheUnusedAndKeepsTheEffectful) {
  Program p;
  Value* used = p.builder.unary(OpCode::Tanh, p.x);
  p.builder.unary(OpCode::Exponential, p.builder.unary(OpCode::Sine, p.x));
  p.builder.custom_call("thalweg.check_finite", {p.builder.unary(OpCode::Cosine, p.x)}, {ir::tensor(DType::I1)});
  ir::Attributes effect;
  effect.set("has_side_effect", true);
  p.builder.custom_call("somebody.writes", {p.y}, {ir::tensor(DType::F32)}, effect);
  p.builder.custom_call("somebody.computes", {p.y}, {ir::tensor(DType::F32)});
  p.builder.ret({used});
  EXPECT_EQ(p.ops_after(dce), 4u);  // tanh, cosine and its check, the call that writes
}

}  // namespace
}  // namespace thalweg::passes
