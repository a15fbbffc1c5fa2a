// The commands of a compiled program over slots, and the executable that launches them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "exec/executable.h"

namespace thalweg::exec {

// An address: `offset` bytes into a slot. Slots are, in this order: arguments, outputs, constants, the arena.
struct Ref {
  int32_t slot = 0;
  int64_t offset = 0;
};

// A generated kernel over [0, units), split over the pool in ranges of at least `grain` units.
struct KernelCommand {
  std::string name;
  void (*fn)(void* const* args, int64_t begin, int64_t end) = nullptr;
  int64_t units = 0, grain = 1;
  std::vector<Ref> args;
};

// Elements of a product's matrices. The CPU's library takes the first two.
enum class Element : uint8_t { F32, F64, F16, BF16 };

// C = A · B for each batch entry, whose places differ by the offsets given (elements).
struct GemmCommand {
  Element element = Element::F32;
  bool wide_result = false;  // of 16-bit floats: C is F32
  bool trans_a = false, trans_b = false;
  int64_t m = 0, n = 0, k = 0, lda = 0, ldb = 0, ldc = 0;
  Ref a, b, c;
  std::vector<int64_t> a_offsets, b_offsets, c_offsets;  // one an entry
};

// Anything else, called with the addresses of `args` on the stream's thread; may throw.
struct CallCommand {
  std::string name;
  std::function<void(void* const* args)> fn;
  std::vector<Ref> args;
};

using Command = std::variant<KernelCommand, GemmCommand, CallCommand>;

// One result of a program.
struct OutputPlan {
  size_t bytes = 0;
  int alias = -1;        // argument whose donated buffer may become this output: the commands are ordered so that this is safe
  bool forward = false;  // with alias: the output is that argument unchanged; copied when it is not donated
};

// What programs for any device have: arguments, results, constants and scratch memory.
struct Frame {
  std::vector<size_t> argument_bytes;
  std::vector<bool> argument_scalar;  // may come as Argument::scalar
  std::vector<OutputPlan> outputs;
  std::vector<std::vector<std::byte>> constants;
  size_t arena_bytes = 0;
  ExecutableInfo info;

  int32_t argument_slot(size_t i) const { return static_cast<int32_t>(i); }
  int32_t output_slot(size_t i) const { return static_cast<int32_t>(argument_bytes.size() + i); }
  int32_t constant_slot(size_t i) const { return static_cast<int32_t>(argument_bytes.size() + outputs.size() + i); }
  int32_t arena_slot() const { return static_cast<int32_t>(argument_bytes.size() + outputs.size() + constants.size()); }
  size_t slots() const { return argument_bytes.size() + outputs.size() + constants.size() + 1; }
};

// Everything that a launch on the CPU needs; plain data, made by compiler/.
struct Program : Frame {
  std::vector<Command> commands;
};

// Runs the commands on the calling thread and the pool; `slots` holds the address of each slot. Rethrows what a command throws.
void run(const Program& program, void* const* slots);
// A program inside another one: arguments and outputs are given by address, the arena is taken from the heap and kept between runs. One thread at a time.
class NestedRun {
 public:
  // `program` outlives this.
  explicit NestedRun(const Program& program);
  // An output may lie where its plan's `alias` argument does, which is then lost; else outputs overlap no argument.
  void operator()(void* const* arguments, void* const* outputs);

 private:
  const Program& program_;
  std::vector<void*> slots_;
  std::unique_ptr<std::byte[]> arena_;
};

// The executable that launches the program.
std::shared_ptr<const Executable> make_executable(Program program);

}  // namespace thalweg::exec
