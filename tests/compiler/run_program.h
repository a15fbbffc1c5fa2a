// Runs functions through the compiler, for tests: literals in, literals out. On the CPU, or with THALWEG_TEST_DEVICE=cuda on the first GPU.
#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "compiler/compiler.h"
#include "ir/graph.h"
#include "runtime/cpu/cpu_device.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/staging.h"

namespace thalweg::testing {

inline bool on_gpu() {
  static const char* const device = std::getenv("THALWEG_TEST_DEVICE");
  return device && std::string(device) == "cuda";
}
inline runtime::Device& device() { return on_gpu() ? runtime::cuda::device() : runtime::cpu::device(); }
inline compiler::Options options() {
  compiler::Options options;
  options.device = &device();
  return options;
}

inline runtime::BufferPtr upload(runtime::Stream& stream, const ir::Literal& input) {
  const ir::Literal full = expand(input);
  const size_t bytes = full.data.size();
  runtime::BufferPtr buffer = on_gpu() ? stream.allocate(bytes) : stream.allocate_for_host(bytes);
  if (on_gpu()) {
    runtime::cuda::copy_from_host(stream, buffer, 0, full.data.data(), bytes);
  } else if (bytes) {
    std::memcpy(buffer->data(), full.data.data(), bytes);
  }
  return buffer;
}

inline ir::Literal download(runtime::Stream& stream, const runtime::BufferPtr& buffer, const ir::Type& type) {
  ir::Literal out(type);
  buffer->wait_written();
  if (on_gpu()) {
    runtime::cuda::copy_to_host(stream, buffer, 0, out.data.data(), out.data.size());
  } else if (!out.data.empty()) {
    std::memcpy(out.data.data(), buffer->data(), out.data.size());
  }
  return out;
}

// Launches with every input in a buffer of its own (rank-0 inputs as scalars when `scalars`) and waits for the outputs.
inline std::vector<ir::Literal> launch(const exec::Executable& executable, const std::vector<ir::Literal>& inputs, const std::vector<ir::Type>& results,
                                       bool scalars = true, const std::vector<bool>& donated = {}) {
  runtime::Stream& stream = device().compute_stream();
  std::vector<exec::Argument> arguments;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ir::Literal& input = inputs[i];
    exec::Argument argument;
    const size_t bytes = static_cast<size_t>(input.type.bytes());
    if (scalars && input.type.rank() == 0 && bytes <= 8) {
      std::memcpy(&argument.scalar, input.data.data(), bytes);
    } else {
      argument.buffer = upload(stream, input);
      argument.donated = i < donated.size() && donated[i];
    }
    arguments.push_back(std::move(argument));
  }
  exec::LaunchResult launched = executable.launch(stream, arguments);
  arguments.clear();
  std::vector<ir::Literal> out;
  for (size_t i = 0; i < results.size(); ++i) out.push_back(download(stream, launched.outputs[i], results[i]));
  return out;
}

inline std::vector<ir::Literal> compile_and_run(const ir::Function& function, const std::vector<ir::Literal>& inputs, const ir::Module* module = nullptr) {
  std::vector<ir::Type> results = function.result_types();
  auto executable = compiler::compile(ir::clone(function), options(), module);
  return launch(*executable, inputs, results);
}

}  // namespace thalweg::testing
