// What kernels for GPUs cost beside copying as many bytes: rows, columns, elementwise, moved elements, scatter, sort. With --compile they are only compiled,
// for an H200, which needs no GPU; --compile FOLDER leaves text and machine code there.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "bench/kernel_steps.h"
#include "bench/training_graphs.h"
#include "codegen/cuda/jit.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/kernel.h"
#include "runtime/cuda/staging.h"

namespace {

using namespace thalweg;
using bench::Graph;
using ir::Dims;
using ir::DType;
using ir::OpCode;
using V = ir::Value*;
using namespace runtime::cuda;

constexpr int kLocalBytes = 3;  // CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES

// Memory of the GPU; lives as long as the program.
class Card {
 public:
  Card() : device_(device(0)), scope_(context(device_)) { check(driver().stream_create(&stream_, kStreamNonBlocking, 0), "create a stream"); }

  char* allocate(size_t bytes) {
    held_.push_back(device_.compute_stream().allocate(std::max<size_t>(bytes, 16)));
    return static_cast<char*>(held_.back()->data());
  }
  void release() { held_.clear(); }
  void upload(char* to, const std::vector<char>& bytes) {
    check(driver().copy_to_device(reinterpret_cast<DevicePtr>(to), bytes.data(), bytes.size(), stream_), "copy");
    synchronize();
  }
  void copy(void* to, const void* from, size_t bytes) {
    check(driver().copy(reinterpret_cast<DevicePtr>(to), reinterpret_cast<DevicePtr>(from), bytes, stream_), "copy");
  }
  void synchronize() { check(driver().stream_synchronize(stream_), "wait"); }
  int multiprocessors() const { return properties(device_).multiprocessors; }
  int architecture() const { return properties(device_).major * 10 + properties(device_).minor; }
  runtime::Device& device_;

  // Milliseconds of one call of `work`, the least of several rounds.
  template <class Work>
  double milliseconds(const Work& work) {
    const auto timed = [&](int calls) {
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < calls; ++i) work();
      synchronize();
      return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count() / calls;
    };
    timed(1);
    double best = timed(1);
    if (best > 50) return best;
    for (int round = 0; round < 7; ++round) best = std::min(best, timed(20));
    return best;
  }
  StreamHandle stream() const { return stream_; }

 private:
  ContextScope scope_;
  StreamHandle stream_ = nullptr;
  std::vector<runtime::BufferPtr> held_;
};

// One kernel with its arguments, ready to go.
struct Ready {
  std::unique_ptr<Module> module;
  Kernel kernel;
  LaunchShape shape;
  std::vector<void*> args;
  size_t copied = 0;
};

std::vector<char> random_bytes(const ir::Type& type, std::mt19937& random, int64_t below) {
  std::vector<char> bytes(static_cast<size_t>(type.bytes()));
  std::normal_distribution<float> normal;
  // A few thousand different values do.
  std::vector<std::byte> some(4096 * 16);
  for (int64_t i = 0; i < 4096; ++i) {
    std::byte* at = some.data() + i * ir::byte_size(type.dtype);
    if (ir::is_float(type.dtype)) {
      ir::store_double(type.dtype, at, normal(random));
    } else {
      ir::store_int(type.dtype, at, static_cast<int64_t>(random() % static_cast<uint64_t>(below)));
    }
  }
  const size_t period = 4096 * static_cast<size_t>(ir::byte_size(type.dtype));
  for (size_t at = 0; at < bytes.size(); at += period) std::memcpy(bytes.data() + at, some.data(), std::min(period, bytes.size() - at));
  return bytes;
}

class Bench {
 public:
  Bench(bool compile_only, std::string folder) : folder_(std::move(folder)) {
    if (compile_only) return;
    card_.emplace();
    const size_t bytes = size_t{1} << 30;
    char *a = card_->allocate(bytes), *b = card_->allocate(bytes);
    const double ms = card_->milliseconds([&] { card_->copy(b, a, bytes); });
    copy_ = 2.0 * static_cast<double>(bytes) / ms * 1e-6;
    card_->release();
    std::printf("copy of 1 GiB: %.0f GB/s read and written\n%-44s %8s %9s %8s %7s %9s %7s\n", copy_, "kernel", "ms", "GB/s", "of copy", "kernels", "registers",
                "spilled");
  }

  // Integers of the inputs lie in [0, below). GB/s counts arguments read once and results written once.
  void run(const std::string& name, const Graph& graph, int64_t below = 7) {
    const int multiprocessors = card_ ? card_->multiprocessors() : 132;
    const bench::KernelSteps steps(*graph.function, multiprocessors);
    if (!steps.complete()) return (void)std::printf("%-44s is no kernel\n", name.c_str());
    std::vector<codegen::cuda::KernelText> texts;
    std::vector<codegen::cuda::KernelSource> sources;
    for (const bench::KernelStep& step : steps.steps()) {
      if (step.copy) continue;
      texts.push_back(codegen::cuda::kernel_text({&step.part, 1}, multiprocessors));
      sources.push_back(texts.back().source);
    }
    const auto start = std::chrono::steady_clock::now();
    const std::vector<codegen::cuda::Image> images = codegen::cuda::compile(sources, card_ ? card_->architecture() : 90);
    if (!card_) {
      for (size_t i = 0; i < sources.size() && !folder_.empty(); ++i) {
        std::ofstream(folder_ + "/" + sources[i].name + ".cu") << "// " << name << "\n" << sources[i].text;
        std::ofstream(folder_ + "/" + sources[i].name + ".cubin", std::ios::binary) << *images[i];
      }
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      return (void)std::printf("%-44s %zu kernels, %.2f s\n", name.c_str(), sources.size(), seconds);
    }
    measure(name, graph, below, steps, texts, images);
    card_->release();
  }

 private:
  void measure(const std::string& name, const Graph& graph, int64_t below, const bench::KernelSteps& steps, const std::vector<codegen::cuda::KernelText>& texts,
               const std::vector<codegen::cuda::Image>& images) {
    std::mt19937 random(7);
    std::map<bench::KernelPlace, char*> places;
    double bytes = 0;
    for (const auto& arg : graph.function->body.args) {
      const std::vector<char> values = random_bytes(arg->type, random, below);
      card_->upload(places[{arg.get(), -1}] = card_->allocate(values.size()), values);
      bytes += static_cast<double>(values.size());
    }
    for (const ir::Value* result : graph.function->body.terminator().operands) bytes += static_cast<double>(result->type.bytes());
    std::vector<Ready> kernels;
    size_t next = 0;
    int registers = 0, spilled = 0;
    for (const bench::KernelStep& step : steps.steps()) {
      Ready ready;
      for (size_t i = 0; i < step.args.size(); ++i) {
        auto [it, fresh] = places.try_emplace(step.args[i]);
        if (fresh) it->second = card_->allocate(static_cast<size_t>(step.bytes[i]));
        ready.args.push_back(it->second);
      }
      ready.args.push_back(nullptr);
      if (step.copy) {
        ready.copied = static_cast<size_t>(step.bytes[0]);
      } else {
        ready.module = std::make_unique<Module>(card_->device_, std::span<const char>(images[next]->data(), images[next]->size()));
        ready.kernel = ready.module->kernel(texts[next].source.name.c_str());
        ready.shape = {{texts[next].blocks, 1, 1}, {texts[next].threads, 1, 1}, 0};
        registers = std::max(registers, ready.kernel.registers());
        int local = 0;
        check(driver().function_attribute(&local, kLocalBytes, ready.kernel.handle()), "read an attribute of a kernel");
        spilled = std::max(spilled, local);
        ++next;
      }
      kernels.push_back(std::move(ready));
    }
    const double ms = card_->milliseconds([&] {
      for (Ready& ready : kernels) {
        void* parameters[] = {ready.args.data()};
        if (ready.copied) {
          card_->copy(ready.args[1], ready.args[0], ready.copied);
        } else {
          launch(ready.kernel, ready.shape, card_->stream(), parameters);
        }
      }
    });
    const double rate = bytes / ms * 1e-6;
    std::printf("%-44s %8.4f %9.0f %7.0f%% %7zu %9d %7d\n", name.c_str(), ms, rate, 100 * rate / copy_, kernels.size(), registers, spilled);
    std::fflush(stdout);
  }

  std::string folder_;
  std::optional<Card> card_;
  double copy_ = 1;
};

Graph bias_gradient(int64_t rows, int64_t width) {
  Graph g;
  g.b.ret({g.b.sum(g.arg({rows, width}), {0})});
  return g;
}

Graph add_and_scale(int64_t rows, int64_t width) {
  Graph g;
  V x = g.arg({rows, width}), y = g.arg({rows, width});
  g.b.ret({g.add(g.mul(x, 0.5), y)});
  return g;
}

Graph transposed(int64_t batch, int64_t rows, int64_t width, DType dtype) {
  Graph g;
  g.b.ret({g.b.transpose(g.b.binary(OpCode::Add, g.arg({batch, rows, width}, dtype), g.b.splat(ir::tensor(dtype, {batch, rows, width}), 1)), {0, 2, 1})});
  return g;
}

// q, k and v by heads from the packed layout.
Graph split_heads(int64_t batch, int64_t tokens, int64_t heads, int64_t depth) {
  Graph g;
  V packed = g.arg({batch, tokens, 3 * heads * depth}, DType::BF16);
  g.b.ret({g.b.transpose(g.b.reshape(packed, {batch, tokens, 3, heads, depth}), {2, 0, 3, 1, 4})});
  return g;
}

// Gradients of q, k and v by heads, put together in the packed layout.
Graph joined_heads(int64_t batch, int64_t tokens, int64_t heads, int64_t depth) {
  Graph g;
  std::vector<V> parts;
  for (int i = 0; i < 3; ++i)
    parts.push_back(g.b.reshape(g.b.transpose(g.arg({batch, heads, tokens, depth}, DType::BF16), {0, 2, 1, 3}), {batch, tokens, 1, heads * depth}));
  g.b.ret({g.b.concatenate(parts, 2)});
  return g;
}

Graph embedding_gradient(int64_t words, int64_t width, int64_t tokens) {
  Graph g;
  V indices = g.arg({tokens, 1}, DType::S64), updates = g.arg({tokens, width});
  ir::ScatterDims dims;
  dims.update_window_dims = {1}, dims.inserted_window_dims = {0}, dims.scatter_dims_to_operand_dims = {0}, dims.index_vector_dim = 1;
  g.b.ret({g.b.scatter(g.b.splat(ir::tensor(DType::F32, {words, width}), 0), indices, updates, dims,
                       [](ir::Builder& b, V a, V c) { return b.binary(OpCode::Add, a, c); })});
  return g;
}

Graph sorted(int64_t rows, int64_t width) {
  Graph g;
  V x = g.arg({rows, width});
  std::vector<V> out = g.b.sort({x, g.b.iota(ir::tensor(DType::S32, {rows, width}), 1)}, 1, true,
                                [](ir::Builder& b, std::vector<V> a) { return b.compare(ir::Comparison::LT, a[0], a[1]); });
  g.b.ret(out);
  return g;
}

Graph running_total(int64_t rows, int64_t width) {
  Graph g;
  V x = g.arg({rows, width});
  g.b.ret({g.b.reduce_window(OpCode::Add, x, g.b.splat(ir::tensor(DType::F32, {}), 0), {1, width}, {1, 1}, {0, width - 1}, {0, 0})});
  return g;
}

Graph sum_of_squares(int64_t n) {
  Graph g;
  V x = g.arg({n});
  g.b.ret({g.b.sum(g.mul(x, x), {0})});
  return g;
}

Graph argmax(int64_t rows, int64_t width) {
  Graph g;
  V x = g.arg({rows, width}), places = g.b.iota(ir::tensor(DType::S64, {rows, width}), 1);
  V low = g.b.splat(ir::tensor(DType::F32, {}), -1e30), nowhere = g.b.splat(ir::tensor(DType::S64, {}), 0);
  g.b.ret(g.b.reduce({x, places}, {low, nowhere}, {1}, [](ir::Builder& b, std::vector<V> a) -> std::vector<V> {
    V keep = b.compare(ir::Comparison::GE, a[0], a[2]);
    return {b.select(keep, a[0], a[2]), b.select(keep, a[1], a[3])};
  }));
  return g;
}

}  // namespace

int main(int count, char** arguments) {
  Bench bench(count > 1 && std::string(arguments[1]) == "--compile", count > 2 ? arguments[2] : "");
  const int64_t tokens = 25216;
  bench.run("add f32 25216 x 3072", add_and_scale(tokens, 3072));
  bench.run("add bf16 25216 x 3072", in_bf16(add_and_scale(tokens, 3072)));
  bench.run("gelu f32 25216 x 3072", bench::gelu(tokens, 3072));
  bench.run("gelu bf16 25216 x 3072", in_bf16(bench::gelu(tokens, 3072)));
  bench.run("gelu_grad, bias bf16 25216 x 3072", in_bf16(bench::gelu_grad(tokens, 3072)));
  bench.run("softmax f32 25216 x 768", bench::softmax(tokens, 768));
  bench.run("softmax bf16 25216 x 768", in_bf16(bench::softmax(tokens, 768)));
  bench.run("softmax f32 8192 x 30522", bench::softmax(8192, 30522));
  bench.run("softmax bf16 8192 x 30522", in_bf16(bench::softmax(8192, 30522)));
  bench.run("softmax f32 1000000 x 12", bench::softmax(1000000, 12));
  bench.run("cross_entropy f32 8192 x 30522", bench::cross_entropy(8192, 30522));
  bench.run("layer_norm f32 25216 x 768", bench::layer_norm(tokens, 768));
  bench.run("layer_norm bf16 25216 x 768", in_bf16(bench::layer_norm(tokens, 768)));
  bench.run("layer_norm_grad f32 25216 x 768", bench::layer_norm_grad(tokens, 768));
  bench.run("layer_norm_grad bf16 25216 x 768", in_bf16(bench::layer_norm_grad(tokens, 768)));
  bench.run("bias gradient f32 25216 x 768", bias_gradient(tokens, 768));
  bench.run("bias gradient bf16 25216 x 3072", in_bf16(bias_gradient(tokens, 3072)));
  bench.run("column sums f32 4000000 x 8", bias_gradient(4000000, 8));
  bench.run("batch_norm f32 64 x 64 x 56 x 56", bench::batch_norm(64, 64, 56, 56));
  bench.run("batch_norm_grad f32 64 x 64 x 56 x 56", bench::batch_norm_grad(64, 64, 56, 56));
  bench.run("sum of squares f32 86000000", sum_of_squares(86000000));
  bench.run("adamw f32 86000000", bench::adamw({{86000000}}));
  bench.run("transpose f32 64 x 1024 x 1024", transposed(64, 1024, 1024, DType::F32));
  bench.run("transpose bf16 64 x 1024 x 1024", transposed(64, 1024, 1024, DType::BF16));
  bench.run("split heads bf16 128 x 197 x 3 x 12 x 64", split_heads(128, 197, 12, 64));
  bench.run("joined heads bf16 128 x 197 x 3 x 12 x 64", joined_heads(128, 197, 12, 64));
  bench.run("argmax f32 1024 x 30522", argmax(1024, 30522));
  bench.run("running total f32 4096 x 4096", running_total(4096, 4096));
  bench.run("embedding gradient f32 30522 x 768, 8192", embedding_gradient(30522, 768, 8192), 30522);
  bench.run("sort f32 4096 x 1024", sorted(4096, 1024));
  bench.run("sort f32 1 x 1000000", sorted(1, 1000000));
  return 0;
}
