// Graphs that cuDNN takes for an H200, which need a cuDNN but no GPU.
#include <gtest/gtest.h>

#include "libs/cuda/cudnn_attention.h"
#include "libs/cuda/cudnn_convolution.h"
#include "runtime/cuda/driver.h"
#include "support/error.h"
#include "tests/libs/cuda/described_gpu.h"

namespace thalweg::libs::cuda::cudnn {
namespace {

class CudnnGraph : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (!has_cudnn(&why)) GTEST_SKIP() << why;
  }
};

Dims row_major(const Dims& dims) {
  Dims strides(dims.size(), 1);
  for (size_t d = dims.size(); d-- > 1;) strides[d - 1] = strides[d] * dims[d];
  return strides;
}

AttentionShape attention(int64_t batch, int64_t heads, int64_t tokens, int64_t width) {
  AttentionShape s;
  s.batch = batch, s.heads = heads, s.rows = s.columns = tokens, s.width = s.value_width = width, s.scale = 0.125;
  // Packed as [batch, tokens, 3, heads, width].
  s.q = s.k = s.v = {tokens * 3 * heads * width, width, 3 * heads * width, 1};
  s.y = {tokens * heads * width, width, heads * width, 1};
  return s;
}

// Fused attention is compiled with the help of the driver, and so its plans need one, though no GPU.
bool has_driver() {
  std::string reason;
  return runtime::cuda::device_count(&reason) > 0;
}

void expect_plan(const std::shared_ptr<const Graph>& graph, const PlanWishes& wishes, bool needs_driver) {
  SCOPED_TRACE(graph->text);
  if (needs_driver && !has_driver()) {
    try {
      const Plan plan(Gpu::described(kH200), graph, wishes);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Unsupported);
      EXPECT_NE(std::string(error.what()).find(graph->text), std::string::npos) << error.what();
    }
    return;
  }
  EXPECT_NO_THROW(Plan(Gpu::described(kH200), graph, wishes));
}

TEST_F(CudnnGraph, AttentionOfEveryKindHasAPlan) {
  for (const bool causal : {false, true})
    for (const bool biased : {false, true}) {
      AttentionShape s = attention(128, 12, 197, 64);
      s.causal = causal;
      if (biased) s.bias = Dims{1, 12, 197, 197}, s.bias_strides = row_major(*s.bias);
      expect_plan(attention_graph(s, true), {}, true);
      expect_plan(attention_graph(s, false), {}, true);
      AttentionGradShape grad{s, s.y, s.q, s.k, s.v};
      expect_plan(attention_grad_graph(grad), {.deterministic = false}, true);
      grad.deterministic = true;
      expect_plan(attention_grad_graph(grad), {}, true);
      if (!biased) continue;
      grad.bias_grad = true;
      expect_plan(attention_grad_graph(grad), {}, true);
    }
}

TEST_F(CudnnGraph, ConvolutionsHavePlans) {
  for (const Type element : {Type::F32, Type::F16, Type::BF16})
    for (const auto kind : {ConvolutionShape::Kind::Forward, ConvolutionShape::Kind::DataGrad, ConvolutionShape::Kind::FilterGrad}) {
      ConvolutionShape s;
      s.kind = kind, s.element = element;
      s.x = {32, 64, 56, 56}, s.w = {128, 64, 3, 3}, s.y = {32, 128, 28, 28};
      s.x_strides = row_major(s.x), s.w_strides = row_major(s.w), s.y_strides = row_major(s.y);
      s.stride = {2, 2}, s.before = s.after = {1, 1}, s.dilation = {1, 1};
      expect_plan(convolution_graph(s), {.exact_f32 = true}, false);
    }
}

TEST_F(CudnnGraph, RefusesNonsenseWithTheShape) {
  ConvolutionShape s;
  s.x = {32, 64, 56, 56}, s.w = {128, 64, 3, 3}, s.y = {32, 128, 99, 28};
  s.x_strides = row_major(s.x), s.w_strides = row_major(s.w), s.y_strides = row_major(s.y);
  s.stride = {2, 2}, s.before = s.after = {1, 1}, s.dilation = {1, 1};
  try {
    const Plan plan(Gpu::described(kH200), convolution_graph(s), {});
    FAIL() << "a convolution of impossible size has a plan";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Unsupported);
    EXPECT_NE(std::string(error.what()).find("32x128x99x28"), std::string::npos) << error.what();
  }
}

TEST_F(CudnnGraph, DescriptionsOfGpusAreChecked) { EXPECT_THROW(Gpu::described("{}"), Error); }

}  // namespace
}  // namespace thalweg::libs::cuda::cudnn
