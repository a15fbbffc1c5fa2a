// compile(): the pipeline from a function to an executable.
#include "compiler/compiler.h"

#include <chrono>

#include "codegen/cuda/nvrtc.h"
#include "compiler/assembly.h"
#include "compiler/heavy.h"
#include "libs/cuda/cublaslt.h"
#include "passes/decompose.h"
#include "passes/pass.h"

namespace thalweg::compiler {

std::shared_ptr<const exec::Executable> compile(std::unique_ptr<ir::Function> function, const Options& options, const ir::Module* module) {
  const auto start = std::chrono::steady_clock::now();
  if (may_use_cudnn(options)) take_attention(*function);
  passes::simplify(*function, module);
  auto timed = [&](auto program) {
    program.info.compile_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return program;
  };
  if (on_gpu(options)) return exec::make_executable(timed(compile_cuda_program(std::move(function), options, module)), *options.device);
  return exec::make_executable(timed(compile_program(std::move(function), options, module)));
}

bool can_compile_for_gpus(std::string* why) { return codegen::cuda::has_nvrtc(why) && libs::cuda::has_cublaslt(why); }

void make_portable(ir::Function& function) { passes::decompose(function); }

}  // namespace thalweg::compiler
