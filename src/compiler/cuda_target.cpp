// Steps to a program for a GPU.
#include "codegen/cuda/kernel_text.h"
#include "compiler/assembly.h"
#include "compiler/cuda_code.h"
#include "compiler/heavy.h"
#include "runtime/cuda/cuda_device.h"
#include "support/error.h"

namespace thalweg::compiler {
namespace {

exec::CudaCallCommand call_of(const Step& step, const Assembly& assembly, runtime::Device& device) {
  exec::CudaCallCommand command{step.name, step.device_call, assembly.refs(step.args)};
  if (step.copies) {
    command.fn = exec::device_copy(static_cast<size_t>(step.args[1].bytes));
  } else if (!command.fn) {
    std::vector<exec::HostArg> args;
    for (const StepArg& arg : step.args) args.push_back({static_cast<size_t>(arg.bytes), arg.write});
    command.fn = exec::host_call(device, step.call, std::move(args));
  }
  return command;
}

}  // namespace

exec::CudaProgram compile_cuda_program(std::unique_ptr<ir::Function> function, const Options& options, const ir::Module* module) {
  runtime::Device& device = *options.device;
  Assembly assembly = assemble(*function, options, module);
  exec::CudaProgram program{std::move(assembly.frame), {}, {}, {}, std::move(assembly.held)};
  std::vector<codegen::cuda::KernelSource> sources;
  std::vector<size_t> commands;
  for (const Step& step : assembly.steps) {
    if (!step.is_kernel()) {
      THALWEG_ASSERT(!step.gemm, "products of GPUs are calls");
      program.commands.push_back(call_of(step, assembly, device));
      if (step.library) ++program.info.library_calls;
      // Whatever the host computes is somebody else's work here.
      if (step.opaque || (step.call && !step.copies)) ++program.info.opaque_calls, program.info.opaque_names.push_back(step.name);
      continue;
    }
    exec::CudaKernelCommand command;
    std::vector<codegen::cuda::Part> parts;
    for (const KernelPart& part : step.parts) {
      parts.push_back({part.body, part.units, part.args.size(), part.lanes, part.shared_bytes});
      for (const StepArg& arg : part.args) command.args.push_back(assembly.places.at(arg.buffer));
    }
    codegen::cuda::KernelText text = codegen::cuda::kernel_text(parts, runtime::cuda::properties(device).multiprocessors);
    command.name = text.source.name + " " + summary(step.parts);
    command.shape.grid[0] = text.blocks, command.shape.block[0] = text.threads;
    commands.push_back(program.commands.size());
    sources.push_back(std::move(text.source));
    program.commands.push_back(std::move(command));
    ++program.info.kernels;
  }
  for (const codegen::cuda::KernelSource& source : sources) dump_kernel(source.name + ".cu", source.text);
  const std::vector<runtime::cuda::Kernel> kernels = load_kernels(device, sources);
  for (size_t i = 0; i < kernels.size(); ++i) std::get<exec::CudaKernelCommand>(program.commands[commands[i]]).kernel = kernels[i];
  exec::upload_constants(program, device.compute_stream());
  return program;
}

}  // namespace thalweg::compiler
