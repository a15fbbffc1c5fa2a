// What fusion puts together and what it keeps apart.
#include "codegen/fusion.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "bench/training_graphs.h"

namespace thalweg::codegen {
namespace {

using bench::Graph;
using V = ir::Value*;

// Products are heavy and read their operands.
FusionResult fused(const Graph& graph) {
  FusionOptions options;
  options.heavy = [](const ir::Op& op) -> std::optional<std::vector<const ir::Value*>> {
    if (op.code != ir::OpCode::DotGeneral) return {};
    return std::vector<const ir::Value*>(op.operands.begin(), op.operands.end());
  };
  return fuse(*graph.function, options);
}

bool stores(const Work& work, const ir::Value* value) {
  return std::find(work.nest.stored.begin(), work.nest.stored.end(), canonical(value)) != work.nest.stored.end();
}

TEST(Fusion, RowsOfOneSpaceAreOneNest) {
  for (Graph (*make)(int64_t, int64_t) :
       {&bench::softmax, &bench::softmax_grad, &bench::layer_norm, &bench::layer_norm_grad, &bench::gelu, &bench::gelu_grad}) {
    FusionResult result = fused(make(48, 80));
    EXPECT_EQ(result.works.size(), 1u);
  }
  EXPECT_EQ(fused(bench::batch_norm(2, 3, 4, 5)).works.size(), 1u);
  EXPECT_EQ(fused(bench::batch_norm_grad(2, 3, 4, 5)).works.size(), 1u);
}

TEST(Fusion, OnlyWhatIsReadOutsideIsStored) {
  Graph g;
  V x = g.arg({48, 80});
  V y = bench::softmax_of(g, x);
  g.b.ret({y});
  FusionResult result = fused(g);
  ASSERT_EQ(result.works.size(), 1u);
  EXPECT_EQ(result.works[0].nest.stored.size(), 1u);
  EXPECT_TRUE(stores(result.works[0], y));
}

// exp(x) feeds a product and is added to its result: both sides cannot be one nest.
TEST(Fusion, NoCyclesThroughHeavyOps) {
  Graph g;
  V x = g.arg({40, 40});
  V e = g.exp(x);
  V p = g.b.dot(e, e, {{}, {}, {1}, {0}});
  V sum = g.add(e, p);
  g.b.ret({sum});
  FusionResult result = fused(g);
  ASSERT_EQ(result.works.size(), 3u);
  EXPECT_TRUE(stores(result.works[0], e));
  EXPECT_EQ(result.works[1].op, p->def);
  EXPECT_TRUE(stores(result.works[2], sum));
}

// Two views of one tensor in orders that share no loops stay two nests, though both read it.
TEST(Fusion, LoopsThatDoNotFitStayApart) {
  Graph g;
  V x = g.arg({96, 65, 64});
  g.b.ret({g.exp(g.b.transpose(x, {1, 0, 2})), g.exp(g.b.transpose(x, {0, 2, 1}))});
  EXPECT_EQ(fused(g).works.size(), 2u);
}

TEST(Fusion, CheapProducersAreRepeatedCostlyOnesStored) {
  for (bool costly : {false, true}) {
    Graph g;
    V x = g.arg({64, 64}), w = g.arg({64, 64});
    V y = costly ? g.exp(x) : g.mul(x, 2.0);
    V a = g.b.sum(y, {0}), c = g.b.dot(w, w, {{}, {}, {1}, {0}}), z = g.b.transpose(g.add(y, c), {1, 0});
    g.b.ret({a, z});
    FusionResult result = fused(g);
    EXPECT_EQ(result.buffers.count(y), costly ? 1u : 0u);
  }
}

TEST(Fusion, DeadOpsGetNoWork) {
  Graph g;
  V x = g.arg({8, 8});
  g.b.sum(g.exp(x), {0});
  V y = g.add(x, 1.0);
  g.b.ret({y});
  FusionResult result = fused(g);
  ASSERT_EQ(result.works.size(), 1u);
  EXPECT_EQ(result.works[0].nest.members.size(), 1u);
}

TEST(Fusion, SharedLayoutsNeedNoDivision) {
  Graph g;
  V packed = g.arg({4, 10, 3 * 2 * 8});
  V split = g.b.transpose(g.b.reshape(packed, {4, 10, 3, 2, 8}), {2, 0, 3, 1, 4});
  g.b.ret({g.exp(g.b.slice(split, {1, 0, 0, 0, 0}, {2, 4, 2, 10, 8}, {1, 1, 1, 1, 1}))});
  FusionResult result = fused(g);
  ASSERT_EQ(result.works.size(), 1u);
  NestCode code = write_nest(result.works[0].nest, [&](const ir::Value* v) { return result.buffers.count(v) != 0; });
  EXPECT_EQ(code.divisions, 0);
}

}  // namespace
}  // namespace thalweg::codegen
