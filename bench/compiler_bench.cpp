// Times the fused kernels of training steps on the CPU: bytes that must move, GB/s, against memcpy. Usage: compiler_bench [name-part]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>
#include <string>

#include "bench/training_graphs.h"
#include "compiler/compiler.h"
#include "libs/cpu/parallel.h"
#include "runtime/cpu/cpu_device.h"

namespace {

using namespace thalweg;
using Clock = std::chrono::steady_clock;

double best_of(const std::function<void()>& run) {
  double best = 1e9;
  const auto start = Clock::now();
  for (int i = 0; i < 2000 && (i < 5 || Clock::now() - start < std::chrono::milliseconds(400)); ++i) {
    const auto t = Clock::now();
    run();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - t).count());
  }
  return best;
}

void time_graph(const char* name, bench::Graph graph, bool donate = false) {
  runtime::Stream& stream = runtime::cpu::device().compute_stream();
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<exec::Argument> arguments;
  double bytes = 0;
  for (const auto& arg : graph.function->body.args) {
    exec::Argument argument;
    const size_t size = static_cast<size_t>(arg->type.bytes());
    bytes += static_cast<double>(size);
    if (arg->type.rank() == 0) {
      const float value = 0.01f;
      std::memcpy(&argument.scalar, &value, 4);
    } else {
      argument.buffer = stream.allocate(size);
      argument.buffer->wait_unused();
      for (int64_t i = 0; i < arg->type.size(); ++i) {
        if (arg->type.dtype == ir::DType::F32) static_cast<float*>(argument.buffer->data())[i] = std::abs(uniform(random));
        if (arg->type.dtype == ir::DType::S64) static_cast<int64_t*>(argument.buffer->data())[i] = i % 10;
      }
      argument.donated = donate;
    }
    arguments.push_back(argument);
  }
  for (const ir::Type& type : graph.function->result_types()) bytes += static_cast<double>(type.bytes());
  auto executable = compiler::compile(std::move(graph.function));
  const double seconds = best_of([&] {
    exec::LaunchResult result = executable->launch(stream, arguments);
    stream.synchronize();
  });
  std::printf("%-34s %9.1f us  %6.1f MB  %6.1f GB/s  %ld kernels  compiled in %.3f s\n", name, seconds * 1e6, bytes / 1e6, bytes / seconds / 1e9,
              executable->info().kernels, executable->info().compile_seconds);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string only = argc > 1 ? argv[1] : "";
  auto wanted = [&](const char* name) { return std::string(name).find(only) != std::string::npos; };
  std::vector<char> a(64 << 20), b(64 << 20);
  const double copy = best_of([&] {
    libs::cpu::parallel_for(static_cast<int64_t>(a.size()), 1 << 16,
                            [&](int64_t begin, int64_t end) { std::memcpy(b.data() + begin, a.data() + begin, static_cast<size_t>(end - begin)); });
  });
  std::printf("memcpy 64 MiB: %.1f GB/s read + written, %d threads\n", 2.0 * static_cast<double>(a.size()) / copy / 1e9, libs::cpu::threads());
  std::vector<bench::Dims> vit, mlp{{128, 64}, {128}, {10, 128}, {10}};
  for (int layer = 0; layer < 6; ++layer)
    for (bench::Dims d :
         std::initializer_list<bench::Dims>{{576, 192}, {576}, {192, 192}, {192}, {768, 192}, {768}, {192, 768}, {192}, {192}, {192}, {192}, {192}})
      vit.push_back(d);
  struct Case {
    const char* name;
    std::function<bench::Graph()> make;
    bool donate = false;
  };
  const Case cases[] = {
      {"layer_norm 2080x192", [] { return bench::layer_norm(2080, 192); }},
      {"layer_norm_grad 2080x192", [] { return bench::layer_norm_grad(2080, 192); }},
      {"softmax 6240x65", [] { return bench::softmax(6240, 65); }},
      {"softmax_grad 6240x65", [] { return bench::softmax_grad(6240, 65); }},
      {"gelu 2080x768", [] { return bench::gelu(2080, 768); }},
      {"gelu_grad 2080x768", [] { return bench::gelu_grad(2080, 768); }},
      {"cross_entropy 64x10", [] { return bench::cross_entropy(64, 10); }},
      {"cross_entropy 1024x1000", [] { return bench::cross_entropy(1024, 1000); }},
      {"batch_norm 16x64x32x32", [] { return bench::batch_norm(16, 64, 32, 32); }},
      {"batch_norm_grad 16x64x32x32", [] { return bench::batch_norm_grad(16, 64, 32, 32); }},
      {"batch_norm 16x512x2x2", [] { return bench::batch_norm(16, 512, 2, 2); }},
      {"sgd vit", [&] { return bench::sgd(vit); }, true},
      {"adamw vit", [&] { return bench::adamw(vit); }, true},
      {"sgd mlp", [&] { return bench::sgd(mlp); }, true},
  };
  for (const Case& c : cases)
    if (wanted(c.name)) time_graph(c.name, c.make(), c.donate);
}
