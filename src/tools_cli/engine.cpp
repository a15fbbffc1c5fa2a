// The interpreter, and the compiler with a device, as engines.
#include "tools_cli/engine.h"

#include <chrono>
#include <cstring>
#include <sstream>

#include "compiler/compiler.h"
#include "interp/interpreter.h"
#include "runtime/cpu/cpu_device.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/staging.h"
#include "support/error.h"

namespace thalweg::tools_cli {
namespace {

class InterpreterEngine : public Engine {
 public:
  explicit InterpreterEngine(const ir::Module& module) : module_(module) {}
  std::vector<ir::Literal> run(const std::vector<ir::Literal>& inputs) override { return interp::run(module_, module_.main(), inputs); }
  std::vector<double> time(const std::vector<ir::Literal>& inputs, int64_t count) override {
    std::vector<double> seconds;
    for (int64_t i = 0; i < count; ++i) {
      const auto start = std::chrono::steady_clock::now();
      run(inputs);
      seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    return seconds;
  }

 private:
  const ir::Module& module_;
};

class CompiledEngine : public Engine {
 public:
  CompiledEngine(const ir::Module& module, runtime::Device& device) : device_(device), gpu_(runtime::cuda::is_cuda(device)) {
    compiler::Options options;
    options.device = &device;
    executable_ = compiler::compile(ir::clone(module.main()), options, &module);
    for (const auto& arg : module.main().body.args) arguments_.push_back(arg->type);
    results_ = module.main().result_types();
  }

  std::vector<ir::Literal> run(const std::vector<ir::Literal>& inputs) override {
    runtime::Stream& stream = device_.compute_stream();
    const exec::LaunchResult launched = executable_->launch(stream, place(inputs));
    std::vector<ir::Literal> out;
    for (size_t i = 0; i < results_.size(); ++i) {
      out.emplace_back(results_[i]);
      std::vector<std::byte>& data = out.back().data;
      launched.outputs[i]->wait_written();
      if (gpu_) {
        runtime::cuda::copy_to_host(stream, launched.outputs[i], 0, data.data(), data.size());
      } else {
        std::memcpy(data.data(), launched.outputs[i]->data(), data.size());
      }
    }
    return out;
  }

  std::vector<double> time(const std::vector<ir::Literal>& inputs, int64_t count) override {
    runtime::Stream& stream = device_.compute_stream();
    const std::vector<exec::Argument> arguments = place(inputs);
    stream.synchronize();
    std::vector<double> seconds;
    for (int64_t i = 0; i < count; ++i) {
      const auto start = std::chrono::steady_clock::now();
      const exec::LaunchResult launched = executable_->launch(stream, arguments);
      for (const auto& output : launched.outputs) output->wait_written();
      seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    return seconds;
  }

  std::string report() const override {
    const exec::ExecutableInfo& info = executable_->info();
    std::ostringstream text;
    text << info.kernels << " kernels, " << info.library_calls << " library calls, " << info.opaque_calls << " opaque calls, " << info.temporary_bytes
         << " temporary bytes, compiled in " << info.compile_seconds << " s";
    for (size_t i = 0; i < info.opaque_names.size(); ++i) text << (i ? ", " : "; opaque: ") << info.opaque_names[i];
    return text.str();
  }

 private:
  // The inputs in device memory.
  std::vector<exec::Argument> place(const std::vector<ir::Literal>& inputs) const {
    runtime::Stream& stream = device_.compute_stream();
    THALWEG_CHECK(inputs.size() == arguments_.size(), Invalid, "wrong number of inputs: ", inputs.size(), ", the program takes ", arguments_.size());
    std::vector<exec::Argument> arguments;
    for (size_t i = 0; i < inputs.size(); ++i) {
      THALWEG_CHECK(inputs[i].type == arguments_[i], Invalid, "input ", i, " has the wrong type: ", to_string(inputs[i].type), ", the program takes ",
                    to_string(arguments_[i]));
      const ir::Literal full = expand(inputs[i]);
      exec::Argument argument;
      if (full.type.rank() == 0 && full.data.size() <= sizeof argument.scalar) {
        std::memcpy(&argument.scalar, full.data.data(), full.data.size());
      } else {
        argument.buffer = gpu_ ? stream.allocate(full.data.size()) : stream.allocate_for_host(full.data.size());
        if (gpu_) {
          runtime::cuda::copy_from_host(stream, argument.buffer, 0, full.data.data(), full.data.size());
        } else {
          std::memcpy(argument.buffer->data(), full.data.data(), full.data.size());
        }
      }
      arguments.push_back(std::move(argument));
    }
    return arguments;
  }

  runtime::Device& device_;
  const bool gpu_;
  std::shared_ptr<const exec::Executable> executable_;
  std::vector<ir::Type> arguments_, results_;
};

}  // namespace

std::unique_ptr<Engine> make_engine(const ir::Module& module, const std::string& device) {
  if (device == "interpreter") return std::make_unique<InterpreterEngine>(module);
  if (device == "cpu") return std::make_unique<CompiledEngine>(module, runtime::cpu::device());
  if (device == "cuda") return std::make_unique<CompiledEngine>(module, runtime::cuda::device());
  raise(ErrorKind::Invalid, "no such device: ", device, "; use interpreter, cpu or cuda");
}

}  // namespace thalweg::tools_cli
