// Runs functions through the CPU compiler, for tests: literals in, literals out.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "compiler/compiler.h"
#include "ir/graph.h"
#include "runtime/cpu/cpu_device.h"

namespace thalweg::testing {

// Launches with every input in a buffer of its own (rank-0 inputs as scalars when `scalars`) and waits for the outputs.
inline std::vector<ir::Literal> launch(const exec::Executable& executable, const std::vector<ir::Literal>& inputs, const std::vector<ir::Type>& results,
                                       bool scalars = true, const std::vector<bool>& donated = {}) {
  runtime::Stream& stream = runtime::cpu::device().compute_stream();
  std::vector<exec::Argument> arguments;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ir::Literal& input = inputs[i];
    exec::Argument argument;
    const size_t bytes = static_cast<size_t>(input.type.bytes());
    if (scalars && input.type.rank() == 0 && bytes <= 8) {
      std::memcpy(&argument.scalar, input.data.data(), bytes);
    } else {
      argument.buffer = stream.allocate(bytes);
      argument.buffer->wait_unused();
      for (size_t at = 0; at < bytes; at += input.data.size())
        std::memcpy(static_cast<char*>(argument.buffer->data()) + at, input.data.data(), std::min(input.data.size(), bytes - at));
      argument.donated = i < donated.size() && donated[i];
    }
    arguments.push_back(std::move(argument));
  }
  exec::LaunchResult launched = executable.launch(stream, arguments);
  arguments.clear();
  std::vector<ir::Literal> out;
  for (size_t i = 0; i < results.size(); ++i) {
    launched.outputs[i]->wait_written();
    out.emplace_back(results[i]);
    if (!out.back().data.empty()) std::memcpy(out.back().data.data(), launched.outputs[i]->data(), out.back().data.size());
  }
  return out;
}

inline std::vector<ir::Literal> compile_and_run(const ir::Function& function, const std::vector<ir::Literal>& inputs, const ir::Module* module = nullptr) {
  std::vector<ir::Type> results = function.result_types();
  auto executable = compiler::compile(ir::clone(function), {}, module);
  return launch(*executable, inputs, results);
}

}  // namespace thalweg::testing
