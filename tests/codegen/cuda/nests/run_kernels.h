// Functions run through kernels for GPUs, on a GPU where there is one and else by the emulator.
#pragma once

#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/kernel_steps.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/kernel.h"
#include "runtime/cuda/staging.h"
#include "tests/codegen/cuda/nests/emulated_gpu.h"

namespace thalweg::testing {

// What there is: a GPU, or the emulator. Its multiprocessors decide how work is dealt out, so that small tensors can be dealt out as large ones are.
class Kernels {
 public:
  explicit Kernels(int multiprocessors) : multiprocessors_(multiprocessors) {
    std::string why;
    if (runtime::cuda::device_count(&why) > 0) device_ = &runtime::cuda::device(0);
  }
  // False when there is neither a GPU nor a compiler for the emulator.
  bool available(std::string* why) const { return device_ || codegen::cpu::available(why); }
  bool on_gpu() const { return device_ != nullptr; }
  int multiprocessors() const { return multiprocessors_; }

  // Memory that the host and the kernels reach, filled with bytes that no result has by chance.
  std::shared_ptr<char> allocate(size_t bytes) {
    const size_t size = (bytes + 63) / 64 * 64 + 64;
    std::shared_ptr<char> memory;
    if (device_) {
      runtime::cuda::ContextScope scope(runtime::cuda::context(*device_));
      memory = runtime::cuda::pinned_memory(*device_, size);
    } else {
      memory.reset(static_cast<char*>(std::aligned_alloc(64, size)), std::free);
    }
    std::memset(memory.get(), 0xcd, size);
    return memory;
  }

  void run(std::span<const codegen::cuda::Part> parts, const std::vector<void*>& args) {
    const codegen::cuda::KernelText kernel = codegen::cuda::kernel_text(parts, multiprocessors_);
    ++kernels;
    if (!device_) return emulated_.run(kernel, args);
    using namespace runtime::cuda;
    const Properties& gpu = properties(*device_);
    const codegen::cuda::Image image = codegen::cuda::compile({&kernel.source, 1}, gpu.major * 10 + gpu.minor)[0];
    const Module module(*device_, {image->data(), image->size()});
    ContextScope scope(context(*device_));
    std::vector<void*> addresses = args;
    addresses.push_back(nullptr);
    void* parameters[] = {addresses.data()};
    StreamHandle stream = nullptr;
    check(driver().stream_create(&stream, kStreamNonBlocking, 0), "create a stream");
    launch(module.kernel(kernel.source.name.c_str()), {{kernel.blocks, 1, 1}, {kernel.threads, 1, 1}, 0}, stream, parameters);
    check(driver().stream_synchronize(stream), "run a kernel");
    driver().stream_destroy(stream);
  }

  int kernels = 0;  // run so far

 private:
  int multiprocessors_;
  runtime::Device* device_ = nullptr;
  EmulatedGpu emulated_;
};

// Runs a function's kernels one after the other.
class KernelProgram {
 public:
  KernelProgram(Kernels& kernels, const ir::Function& function) : kernels_(kernels), function_(function), steps_(function, kernels.multiprocessors()) {}

  // The function's results, or nothing when something in it is no kernel.
  std::optional<std::vector<ir::Literal>> run(const std::vector<ir::Literal>& inputs) {
    if (!steps_.complete()) return {};
    for (size_t i = 0; i < inputs.size(); ++i) fill(function_.body.args[i].get(), inputs[i]);
    for (const bench::KernelStep& step : steps_.steps()) {
      std::vector<void*> args;
      for (size_t i = 0; i < step.args.size(); ++i) args.push_back(place(step.args[i], step.bytes[i]));
      if (step.copy) {
        std::memcpy(args[1], args[0], static_cast<size_t>(step.bytes[0]));
      } else {
        kernels_.run({&step.part, 1}, args);
      }
    }
    std::vector<ir::Literal> results;
    for (const ir::Value* value : function_.body.terminator().operands) {
      ir::Literal literal(value->type);
      const char* from = place({codegen::canonical(value), -1}, value->type.bytes());
      if (!literal.data.empty()) std::memcpy(literal.data.data(), from, literal.data.size());
      results.push_back(std::move(literal));
    }
    return results;
  }

 private:
  char* place(const bench::KernelPlace& at, int64_t bytes) {
    auto [it, fresh] = memory_.try_emplace(at);
    if (fresh) {
      it->second = kernels_.allocate(static_cast<size_t>(bytes));
      if (at.first && at.first->def && at.first->def->code == ir::OpCode::Constant) fill(at.first, *at.first->def->attrs.literal("value"));
    }
    return it->second.get();
  }
  void fill(const ir::Value* value, const ir::Literal& literal) {
    const ir::Literal all = ir::expand(literal);
    auto& memory = memory_[{value, -1}] = kernels_.allocate(all.data.size());
    if (!all.data.empty()) std::memcpy(memory.get(), all.data.data(), all.data.size());
  }

  Kernels& kernels_;
  const ir::Function& function_;
  bench::KernelSteps steps_;
  std::map<bench::KernelPlace, std::shared_ptr<char>> memory_;
};

}  // namespace thalweg::testing
