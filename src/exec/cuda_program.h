// Compiled programs for GPUs: kernels and calls in stream order, and the executable that launches them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "exec/program.h"
#include "runtime/cuda/kernel.h"

namespace thalweg::exec {

// A generated kernel. Its one parameter is the array of all its arguments' addresses.
struct CudaKernelCommand {
  std::string name;
  runtime::cuda::Kernel kernel;
  runtime::cuda::LaunchShape shape;
  std::vector<Ref> args;
};

// Puts work on the stream `native`; `args` are addresses on the device. Called on the submitting thread, as work of a submission.
using CudaCall = std::function<void(void* const* args, void* native)>;

// Anything else: products, copies, calls of libraries, control flow, work of the host.
struct CudaCallCommand {
  std::string name;
  CudaCall fn;
  std::vector<Ref> args;
};

using CudaCommand = std::variant<CudaKernelCommand, CudaCallCommand>;

// Everything that a launch on one GPU needs, made by compiler/. Constants lie on the device.
struct CudaProgram : Frame {
  std::vector<CudaCommand> commands;
  std::vector<size_t> constant_offsets;  // of each constant in the buffer of constants
  runtime::BufferPtr constant_buffer;    // null without constants
  std::vector<runtime::BufferPtr> held;  // what the commands read besides: constants of programs inside this one
};

// Packs `constants` into a buffer of the device, which is filled by a submission on `stream`; the host's copies are dropped.
void upload_constants(CudaProgram& program, runtime::Stream& stream);

// Puts the commands on `native`; `slots`: the address of each slot but the constants'.
void run(const CudaProgram& program, std::vector<void*> slots, void* native);

// What the host does in the middle of a program: `fn` gets host addresses of its arguments' bytes, in stream order, on a thread of the driver, while the
// submitting thread goes on. An Error that it throws becomes the error of the launch; what follows in the program runs nevertheless.
struct HostArg {
  size_t bytes = 0;
  bool write = false;
};
CudaCall host_call(runtime::Device& device, std::function<void(void* const* args)> fn, std::vector<HostArg> args);

// Copies `bytes` from its first argument to its second one; nothing where both are one place.
CudaCall device_copy(size_t bytes);

// What libraries ask of scratch memory; every buffer of the arena begins at a multiple of it.
inline constexpr size_t kScratchAlignment = 256;

// The executable that launches the program on streams of `device`. Arguments that do not begin at a multiple of kArgumentAlignment are copied first.
inline constexpr size_t kArgumentAlignment = 16;
std::shared_ptr<const Executable> make_executable(CudaProgram program, runtime::Device& device);

}  // namespace thalweg::exec
