// Functions run through kernels for GPUs, on a GPU where there is one and else by the emulator.
#pragma once

#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codegen/cuda/nest.h"
#include "codegen/fusion.h"
#include "codegen/scanning.h"
#include "codegen/scatter.h"
#include "codegen/sorting.h"
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

// Runs a function's works one after the other.
class KernelProgram {
 public:
  KernelProgram(Kernels& kernels, const ir::Function& function) : kernels_(kernels), function_(function) {}

  // The function's results, or nothing when a work is no kernel.
  std::optional<std::vector<ir::Literal>> run(const std::vector<ir::Literal>& inputs) {
    codegen::FusionOptions options;
    options.heavy = [](const ir::Op& op) -> std::optional<std::vector<const ir::Value*>> {
      if (!codegen::is_scan(op) && !codegen::is_small_update(op) && (codegen::is_pullable(op) || codegen::is_contraction(op))) return {};
      if (op.code == ir::OpCode::Reduce && codegen::has_scalar_type(op.result()->type.dtype)) return {};
      return std::vector<const ir::Value*>(op.operands.begin(), op.operands.end());
    };
    const codegen::FusionResult fusion = codegen::fuse(function_, options);
    is_buffer_ = [&](const ir::Value* value) { return fusion.buffers.count(value) != 0; };
    for (size_t i = 0; i < inputs.size(); ++i) fill(function_.body.args[i].get(), inputs[i]);
    for (const codegen::Work& work : fusion.works)
      if (!run(work)) return {};
    std::vector<ir::Literal> results;
    for (const ir::Value* value : function_.body.terminator().operands) {
      ir::Literal literal(value->type);
      const char* from = place(codegen::canonical(value), literal.data.size());
      if (!literal.data.empty()) std::memcpy(literal.data.data(), from, literal.data.size());
      results.push_back(std::move(literal));
    }
    return results;
  }

 private:
  char* place(const ir::Value* value, size_t bytes) {
    auto [it, fresh] = memory_.try_emplace(value);
    if (fresh) {
      it->second = kernels_.allocate(bytes);
      if (value->def && value->def->code == ir::OpCode::Constant) fill(value, *value->def->attrs.literal("value"));
    }
    return it->second.get();
  }
  void fill(const ir::Value* value, const ir::Literal& literal) {
    const ir::Literal all = ir::expand(literal);
    auto& memory = memory_[value] = kernels_.allocate(all.data.size());
    if (!all.data.empty()) std::memcpy(memory.get(), all.data.data(), all.data.size());
  }

  // `partial`: the memory of the one partial result, when the code is a combination.
  void run(const codegen::NestCode& code, std::map<size_t, std::shared_ptr<char>>& partials, const std::shared_ptr<char>& partial) {
    if (code.units == 0) return;
    std::vector<void*> args;
    for (size_t i = 0; i < code.args.size(); ++i) {
      const codegen::NestArg& a = code.args[i];
      if (a.role != codegen::NestArg::Role::Partial) {
        args.push_back(place(a.role == codegen::NestArg::Role::Read ? codegen::canonical(a.value) : a.value, static_cast<size_t>(a.bytes)));
      } else if (partial) {
        args.push_back(partial.get());
      } else {
        partials[i] = kernels_.allocate(static_cast<size_t>(a.bytes));
        args.push_back(partials[i].get());
      }
    }
    const codegen::cuda::Part part{code.body, code.units, code.args.size(), code.lanes, code.shared_bytes};
    kernels_.run({&part, 1}, args);
  }

  bool run(const codegen::Work& work) {
    std::map<size_t, std::shared_ptr<char>> partials;
    if (work.is_nest()) {
      for (const codegen::Nest& piece : codegen::cuda::pieces(work.nest, is_buffer_, kernels_.multiprocessors())) {
        const codegen::NestCode code = codegen::cuda::write_nest(piece, is_buffer_, kernels_.multiprocessors());
        partials.clear();
        run(code, partials, nullptr);
        for (const codegen::NestPartial& partial : code.partials) {
          const ir::Op& op = *partial.result->def;
          const codegen::NestCode combine = codegen::cuda::write_combine(partial, codegen::canonical(op.operands[op.results.size() + partial.result->index]));
          run(combine, partials, partials.at(partial.arg));
        }
      }
      return true;
    }
    const ir::Op& op = *work.op;
    auto copy = [&](const ir::Value* from, const ir::Value* to) {
      const size_t bytes = static_cast<size_t>(to->type.bytes());
      char* source = place(codegen::canonical(from), bytes);
      std::memcpy(place(to, bytes), source, bytes);
    };
    if (codegen::is_scatter(op)) {
      if (op.code == ir::OpCode::SelectAndScatter) return run(codegen::write_select_and_scatter(op), partials, nullptr), true;
      for (size_t i = 0; i < op.results.size(); ++i) copy(op.operand(i), op.result(i));
      if (op.result()->type.size() > 0 && op.operand(op.results.size() + 1)->type.size() > 0) run(codegen::write_scatter(op), partials, nullptr);
    } else if (codegen::is_scan(op)) {
      run(codegen::write_scan(op), partials, nullptr);
    } else if (codegen::is_small_update(op)) {
      copy(op.operand(0), op.result());
      run(codegen::write_small_update(op), partials, nullptr);
    } else if (codegen::is_sort(op)) {
      run(codegen::write_sort(op), partials, nullptr);
    } else {
      return false;
    }
    return true;
  }

  Kernels& kernels_;
  const ir::Function& function_;
  std::function<bool(const ir::Value*)> is_buffer_;
  std::map<const ir::Value*, std::shared_ptr<char>> memory_;
};

}  // namespace thalweg::testing
