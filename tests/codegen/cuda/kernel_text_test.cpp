// Kernels for GPUs: every nest of the training graphs is taken by NVRTC, loads and stores move 16 bytes, each part has blocks of its own.
#include "codegen/cuda/kernel_text.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "bench/training_graphs.h"
#include "codegen/cuda/nest.h"
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
  auto add = [&](const NestCode& code) { parts.push_back({code.body, code.units, code.args.size(), code.lanes, code.shared_bytes}); };
  const auto is_buffer = [&](const ir::Value* value) { return result.buffers.count(value) != 0; };
  for (const Work& work : result.works)
    for (const Nest& nest : pieces(work.nest, is_buffer, kMultiprocessors)) {
      const NestCode code = cuda::write_nest(nest, is_buffer, kMultiprocessors);
      add(code);
      for (const NestPartial& partial : code.partials) {
        const ir::Op& op = *partial.result->def;
        add(cuda::write_combine(partial, canonical(op.operands[op.results.size() + partial.result->index])));
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

TEST_F(CudaKernelText, AThreadMovesSixteenBytes) {
  const std::vector<Part> parts = parts_of(bench::gelu(4000, 1000));
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].units, 4000 * 1000 / 4);
  EXPECT_NE(parts[0].body.find("vec<float, 4>"), std::string::npos);
  const KernelText kernel = kernel_text(parts, kMultiprocessors);
  EXPECT_EQ(kernel.threads, 256u);
  EXPECT_EQ(kernel.blocks, (4000u * 1000u / 4 + 255) / 256);
  EXPECT_EQ(kernel.args, parts[0].args);
}

TEST_F(CudaKernelText, PartsOfDifferentLanesGetBlocksOfTheirOwn) {
  const Part rows = parts_of(bench::softmax(1000, 768))[0], elements = parts_of(bench::gelu(10, 10))[0];
  EXPECT_GE(rows.lanes, 32);
  EXPECT_EQ(elements.lanes, 1);
  const std::vector<Part> parts = {rows, elements};
  const KernelText kernel = kernel_text(parts, kMultiprocessors);
  EXPECT_EQ(kernel.threads % static_cast<unsigned>(rows.lanes), 0u);
  EXPECT_EQ(kernel.blocks, (1000u * static_cast<unsigned>(rows.lanes) + kernel.threads - 1) / kernel.threads + 1);
  EXPECT_FALSE(compile({&kernel.source, 1}, kHopper)[0]->empty());
}

TEST_F(CudaKernelText, LargeTensorsAreCountedInWideIntegers) {
  EXPECT_EQ(parts_of(bench::gelu(1 << 15, 1 << 15))[0].body.find("const int64_t c = "), std::string::npos);
  const Part part = parts_of(bench::gelu(1 << 16, 1 << 16))[0];
  EXPECT_NE(part.body.find("const int64_t c = "), std::string::npos);
  const KernelText kernel = kernel_text({&part, 1}, kMultiprocessors);
  EXPECT_FALSE(compile({&kernel.source, 1}, kHopper)[0]->empty());
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
