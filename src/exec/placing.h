// The memory of one launch: where its arguments, outputs and scratch memory lie.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "exec/program.h"
#include "runtime/stream.h"

namespace thalweg::exec {

// Addresses by slot; those of scalars and constants are the caller's to fill in.
struct Placed {
  std::vector<void*> slots;
  std::vector<uint64_t> scalars;  // by argument; those without a buffer count
  struct Copy {
    int32_t to, from;  // slots
    size_t bytes;
  };
  std::vector<Copy> copies;  // of arguments that are outputs but are not handed on; to be made first
};

// Allocates what a launch needs on `stream`, and declares to `submission` what it reads and writes. `result` gets the outputs. Checks the arguments as
// Executable::launch() says.
Placed place(const Frame& frame, runtime::Stream& stream, std::span<const Argument> arguments, runtime::Submission& submission, LaunchResult& result);

}  // namespace thalweg::exec
