// The steps of a program before buffers have places: what each computes and which values it reads and writes.
#pragma once

#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "codegen/nest.h"
#include "exec/cuda_program.h"
#include "exec/program.h"

namespace thalweg::compiler {

// A buffer of the program before it has a place: a value's, or a temporary of one step or two.
struct BufferKey {
  const ir::Value* value = nullptr;
  int temporary = -1;
  auto operator<=>(const BufferKey&) const = default;
};

struct StepArg {
  BufferKey buffer;
  int64_t bytes = 0;
  bool write = false;
  bool same_index = false;  // read or written only at the element being computed, see codegen::NestArg
};

// One nest of a kernel step; `args` are its argument array.
struct KernelPart {
  std::string body;
  std::string what;  // for people: "12 ops: reduce f32[197], add bf16[197x768]"
  std::vector<StepArg> args;
  int64_t units = 0;
  double unit_cost = 1;
  int lanes = 1, shared_bytes = 0;  // on a GPU, see codegen::NestCode
  double cost() const { return static_cast<double>(units) * unit_cost; }
};

// One command to be. Exactly one of parts, gemm, call, device_call is used.
struct Step {
  std::vector<KernelPart> parts;
  std::optional<exec::GemmCommand> gemm;        // args: a, b, c
  std::function<void(void* const* args)> call;  // of the host; args in order of `args`
  exec::CudaCall device_call;                   // of a GPU's program
  std::string name;
  std::vector<StepArg> args;  // of gemm and calls
  bool fallible = false;
  bool opaque = false;   // a whole operation of somebody else, counted by name
  bool library = false;  // a library's product or convolution
  bool copies = false;   // a call that copies its first argument to its second one, and does nothing where both are one place

  bool is_kernel() const { return !parts.empty(); }
  double cost() const;
  // Calls fn for each argument, with the part's number (0 for gemm and call).
  void each_arg(const std::function<void(const StepArg&, size_t part)>& fn) const;
};

// What a kernel computes, for people: of its parts, the costliest first, three at most.
std::string summary(const std::vector<KernelPart>& parts);

// Moves small kernels that only feed the program's end to the end and merges independent small kernels into one.
void bundle(std::vector<Step>& steps);

// The text of a kernel of these parts: a range of slots of about equal cost over all parts, one after the other.
struct KernelText {
  std::string name, text;
  int64_t units = 0;
};
KernelText kernel_text(const std::vector<KernelPart>& parts);

}  // namespace thalweg::compiler
