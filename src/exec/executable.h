// A compiled program: a list of commands over planned buffers, launched on a stream.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/device.h"

namespace thalweg::exec {

// One argument of a launch.
struct Argument {
  runtime::BufferPtr buffer;  // null for a scalar
  uint64_t scalar = 0;        // bits of a rank-0 argument of at most 8 bytes, read at launch
  bool donated = false;       // the launch may overwrite the buffer and hand it back as an output; the caller holds no other claim on its old bytes
};

// What launching gives: one buffer an output, in the program's order. They carry the launch's error if it fails (Buffer::wait_written rethrows).
// A donated argument is overwritten only after every fallible command has succeeded, so on failure its old content is intact.
struct LaunchResult {
  std::vector<runtime::BufferPtr> outputs;
};

// Figures about one executable, for reports.
struct ExecutableInfo {
  int64_t kernels = 0, library_calls = 0, opaque_calls = 0;
  size_t temporary_bytes = 0;  // of the planned arena
  double compile_seconds = 0;
  std::vector<std::string> opaque_names;
};

// Immutable and thread-safe. Arguments and outputs are row-major.
class Executable {
 public:
  virtual ~Executable() = default;
  // Allocates outputs and the arena on `stream`, puts the whole program on it and returns; never waits for the device. Throws Error(OutOfMemory) before
  // anything is overwritten. Checks count and byte sizes of the arguments (Error(Internal)).
  virtual LaunchResult launch(runtime::Stream& stream, std::span<const Argument> arguments) const = 0;
  virtual const ExecutableInfo& info() const = 0;
};

}  // namespace thalweg::exec
