// Steps to a program for the host's processor.
#include "codegen/cpu/jit.h"
#include "compiler/assembly.h"
#include "compiler/heavy.h"

namespace thalweg::compiler {

exec::Program compile_program(std::unique_ptr<ir::Function> function, const Options& options, const ir::Module* module) {
  Assembly assembly = assemble(*function, options, module);
  exec::Program program{std::move(assembly.frame), {}};
  std::vector<codegen::cpu::KernelSource> sources;
  std::vector<size_t> commands;
  for (const Step& step : assembly.steps) {
    if (step.is_kernel()) {
      KernelText text = kernel_text(step.parts);
      exec::KernelCommand command;
      command.name = text.name + " " + summary(step.parts), command.units = text.units, command.grain = 2;
      for (const KernelPart& part : step.parts)
        for (const StepArg& arg : part.args) command.args.push_back(assembly.places.at(arg.buffer));
      sources.push_back({text.name, text.text});
      commands.push_back(program.commands.size());
      program.commands.push_back(std::move(command));
      ++program.info.kernels;
    } else if (step.gemm) {
      exec::GemmCommand command = *step.gemm;
      const std::vector<exec::Ref> refs = assembly.refs(step.args);
      command.a = refs[0], command.b = refs[1], command.c = refs[2];
      program.commands.push_back(std::move(command));
      ++program.info.library_calls;
    } else {
      program.commands.push_back(exec::CallCommand{step.name, step.call, assembly.refs(step.args)});
      if (step.library) ++program.info.library_calls;
      if (step.opaque) ++program.info.opaque_calls, program.info.opaque_names.push_back(step.name);
    }
  }
  for (const codegen::cpu::KernelSource& source : sources) dump_kernel(source.name + ".cpp", source.text);
  std::vector<codegen::cpu::KernelFn> functions = codegen::cpu::compile(sources);
  for (size_t i = 0; i < functions.size(); ++i) std::get<exec::KernelCommand>(program.commands[commands[i]]).fn = functions[i];
  return program;
}

}  // namespace thalweg::compiler
