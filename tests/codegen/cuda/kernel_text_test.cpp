// Kernels for GPUs: every nest of the training graphs is taken by NVRTC, elementwise nests give a thread one element, units of several parts are dispatched.
#include "codegen/cuda/kernel_text.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "bench/training_graphs.h"
#include "codegen/cuda/nvrtc.h"
#include "codegen/fusion.h"
#include "support/error.h"

namespace thalweg::codegen::cuda {
namespace {

constexpr int kHopper = 90, kMultiprocessors = 132;

class CudaKernelText : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (!has_nvrtc(&why)) GTEST_SKIP() << why;
  }
};

std::vector<Part> parts_of(const bench::Graph& graph) {
  FusionOptions options;
  options.heavy = [](const ir::Op&) -> std::optional<std::vector<const ir::Value*>> { return {}; };
  const FusionResult result = fuse(*graph.function, options);
  std::vector<Part> parts;
  auto add = [&](const NestCode& code) { parts.push_back({code.body, code.units, code.args.size()}); };
  for (const Work& work : result.works) {
    Nest nest = work.nest;
    nest.single = true;
    const NestCode code = write_nest(nest, [&](const ir::Value* value) { return result.buffers.count(value) != 0; });
    add(code);
    for (const NestPartial& partial : code.partials) {
      const ir::Op& op = *partial.result->def;
      add(write_combine(partial, canonical(op.operands[op.results.size() + partial.result->index])));
    }
  }
  return parts;
}

TEST_F(CudaKernelText, NvrtcTakesTheTrainingGraphs) {
  const std::vector<bench::Graph (*)(int64_t, int64_t)> rows = {&bench::softmax,         &bench::softmax_grad, &bench::layer_norm,
                                                                &bench::layer_norm_grad, &bench::gelu,         &bench::gelu_grad};
  std::vector<KernelSource> sources;
  auto add = [&](const bench::Graph& graph) {
    for (const Part& part : parts_of(graph)) sources.push_back(kernel_text({&part, 1}, kMultiprocessors).source);
  };
  for (auto make : rows) add(make(48, 80));
  add(bench::batch_norm(2, 3, 4, 5));
  add(bench::batch_norm_grad(2, 3, 4, 5));
  for (const Image& image : compile(sources, kHopper)) EXPECT_FALSE(image->empty());
}

TEST_F(CudaKernelText, AThreadTakesOneElement) {
  const std::vector<Part> parts = parts_of(bench::gelu(1000, 1000));
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].units, 1000 * 1000);
  const KernelText kernel = kernel_text(parts, kMultiprocessors);
  EXPECT_EQ(kernel.threads, 256u);
  EXPECT_EQ(kernel.blocks, 132u * 16u);
  EXPECT_EQ(kernel.args, parts[0].args);
}

TEST_F(CudaKernelText, EqualPartsShareOneFunction) {
  const Part add = parts_of(bench::gelu(8, 8))[0], other = parts_of(bench::softmax(8, 8))[0];
  const std::vector<Part> parts = {add, other, add};
  const KernelText kernel = kernel_text(parts, kMultiprocessors);
  EXPECT_EQ(kernel.args, 2 * add.args + other.args);
  EXPECT_EQ(kernel.source.text.find("part2"), std::string::npos);
  EXPECT_NE(kernel.source.text.find("part0(all.args + " + std::to_string(add.args + other.args)), std::string::npos);
  EXPECT_FALSE(compile({&kernel.source, 1}, kHopper)[0]->empty());
  EXPECT_THROW(kernel_text({}, kMultiprocessors), Error);
}

}  // namespace
}  // namespace thalweg::codegen::cuda
