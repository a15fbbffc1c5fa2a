// Ops that no nest computes: BLAS products, scatters, checks, library calls, control flow and what runs on the reference interpreter.
#pragma once

#include <optional>
#include <vector>

#include "compiler/compiler.h"
#include "compiler/cudnn_calls.h"
#include "compiler/products.h"
#include "compiler/steps.h"

namespace thalweg::compiler {

// What a function's heavy ops need to know.
struct HeavyContext {
  const ProductPlans* products = nullptr;
  const Options* options = nullptr;
  const ir::Module* module = nullptr;
  exec::ExecutableInfo* info = nullptr;
  int* temporaries = nullptr;                       // how many scratch buffers the steps have so far
  std::vector<runtime::BufferPtr>* held = nullptr;  // Assembly::held
  const CudnnCalls* cudnn_calls = nullptr;          // null or empty: none
};

// The values that the op reads from buffers, or nothing when a nest can compute it.
std::optional<std::vector<const ir::Value*>> heavy_operands(const ir::Op& op, const HeavyContext& context);
// The backend_config dictionary of a custom call, empty when there is none.
const ir::Attributes& config_of(const ir::Op& op);
// True for checks, which run as early as they can.
bool is_check(const ir::Op& op);
// Appends the steps of a heavy op.
void add_heavy_steps(const ir::Op& op, const HeavyContext& context, std::vector<Step>& steps);

// The program of a function, for whole executables and for regions of control flow.
exec::Program compile_program(std::unique_ptr<ir::Function> function, const Options& options, const ir::Module* module);
// The same for the GPU of `options`.
exec::CudaProgram compile_cuda_program(std::unique_ptr<ir::Function> function, const Options& options, const ir::Module* module);

}  // namespace thalweg::compiler
