// Milliseconds of cuDNN's plans as programs use them: attention of ViT-B/16 and convolutions of ResNet-50, bf16; beside bench/cudnn_peers.py.
#include <chrono>
#include <cstdio>
#include <vector>

#include "libs/cuda/cudnn_attention.h"
#include "libs/cuda/cudnn_convolution.h"
#include "libs/cuda/measured_choice.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/staging.h"
#include "runtime/stream.h"

namespace {

using namespace thalweg;
using namespace thalweg::libs::cuda;
using namespace thalweg::libs::cuda::cudnn;

using Buffers = std::vector<std::pair<int64_t, size_t>>;

// Small numbers without order: nothing of zeros, nothing that overflows.
std::vector<uint16_t> numbers(size_t count) {
  std::vector<uint16_t> codes(count);
  uint32_t state = 12345;
  for (uint16_t& code : codes) {
    state = state * 1664525 + 1013904223;
    code = static_cast<uint16_t>((state >> 16 & 0x8000) | (0x3e00 + (state >> 20 & 0x1ff)));
  }
  return codes;
}

void report(const std::shared_ptr<const Graph>& graph, bool deterministic, bool measured, const Buffers& buffers, double flops) {
  runtime::Device& device = runtime::cuda::device();
  runtime::Stream& stream = device.compute_stream();
  const auto start = std::chrono::steady_clock::now();
  Plan plan(Gpu(device), graph, {.deterministic = deterministic});
  if (measured) plan.measure(stream, buffers);
  const double ready = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::vector<runtime::BufferPtr> memory;
  std::vector<Argument> arguments;
  for (const auto& [id, bytes] : buffers) {
    arguments.push_back({id, memory.emplace_back(stream.allocate(bytes))->data()});
    const std::vector<uint16_t> host = numbers(bytes / 2);
    runtime::cuda::copy_from_host(stream, memory.back(), 0, host.data(), bytes);
  }
  void* const scratch = memory.emplace_back(stream.allocate(plan.workspace_bytes()))->data();
  const double seconds = seconds_of(stream, memory, "bench", [&](void* native) { plan.run(arguments, scratch, native); });
  std::printf("%8.4f ms %7.1f TFLOP/s %8.1f MiB scratch, ready in %.2f s  %s%s\n", seconds * 1e3, flops / seconds * 1e-12,
              static_cast<double>(plan.workspace_bytes()) / (1 << 20), ready,
              deterministic ? ""
              : measured    ? "measured, "
                            : "free, ",
              graph->text.c_str());
}

void attention() {
  AttentionShape s;
  s.batch = 128, s.heads = 12, s.rows = s.columns = 197, s.width = s.value_width = 64, s.scale = 0.125;
  s.q = s.k = s.v = {197 * 2304, 64, 2304, 1}, s.y = {197 * 768, 64, 768, 1};
  const size_t packed = size_t{128} * 197 * 2304 * 2, one = packed / 3, sums = size_t{128} * 12 * 197 * 4;
  const double flops = 4.0 * 128 * 12 * 197 * 197 * 64;
  const Buffers forward{{kAttentionQ, packed}, {kAttentionK, packed}, {kAttentionV, packed}, {kAttentionY, one}, {kAttentionStats, sums}};
  report(attention_graph(s, true), true, false, forward, flops);
  report(attention_graph(s, true), false, true, forward, flops);
  Buffers backward = forward;
  backward.insert(backward.end(), {{kAttentionDy, one}, {kAttentionDq, packed}, {kAttentionDk, packed}, {kAttentionDv, packed}});
  AttentionGradShape grad{s, s.y, s.q, s.k, s.v};
  report(attention_grad_graph(grad), false, false, backward, 2.5 * flops);
  report(attention_grad_graph(grad), false, true, backward, 2.5 * flops);
  grad.deterministic = true;
  report(attention_grad_graph(grad), true, false, backward, 2.5 * flops);
}

void convolution(Dims x, Dims w, int64_t stride, int64_t padding) {
  ConvolutionShape s;
  s.element = Type::BF16, s.x = x, s.w = w;
  const int64_t places = (x[2] + 2 * padding - w[2]) / stride + 1;
  s.y = {x[0], w[0], places, places};
  auto last = [](const Dims& d) { return Dims{d[1] * d[2] * d[3], 1, d[1] * d[3], d[1]}; };
  s.x_strides = last(s.x), s.w_strides = last(s.w), s.y_strides = last(s.y);
  s.stride = {stride, stride}, s.before = s.after = {padding, padding}, s.dilation = {1, 1};
  auto bytes = [](const Dims& d) { return static_cast<size_t>(d[0] * d[1] * d[2] * d[3]) * 2; };
  const double flops = 2.0 * static_cast<double>(s.y[0] * s.y[1] * s.y[2] * s.y[3] * w[1] * w[2] * w[3]);
  for (const auto kind : {ConvolutionShape::Kind::Forward, ConvolutionShape::Kind::DataGrad, ConvolutionShape::Kind::FilterGrad}) {
    s.kind = kind;
    if (kind == ConvolutionShape::Kind::DataGrad && x[1] < 64) continue;  // nobody asks for the images' gradient
    const Buffers buffers{{kConvolutionX, bytes(s.x)}, {kConvolutionW, bytes(s.w)}, {kConvolutionY, bytes(s.y)}};
    report(convolution_graph(s), true, false, buffers, flops);
    report(convolution_graph(s), false, true, buffers, flops);
  }
}

}  // namespace

int main() {
  attention();
  convolution({256, 3, 224, 224}, {64, 3, 7, 7}, 2, 3);
  convolution({256, 4, 224, 224}, {64, 4, 7, 7}, 2, 3);
  convolution({256, 8, 224, 224}, {64, 8, 7, 7}, 2, 3);
  convolution({256, 16, 115, 115}, {64, 16, 4, 4}, 1, 0);
  convolution({256, 64, 56, 56}, {64, 64, 3, 3}, 1, 1);
  convolution({256, 64, 56, 56}, {256, 64, 1, 1}, 1, 0);
  convolution({256, 256, 14, 14}, {256, 256, 3, 3}, 1, 1);
  return 0;
}
