// From attributes to the calls of libs/cpu.
#include "compiler/library_steps.h"

#include "codegen/expression.h"
#include "libs/cpu/blas.h"
#include "libs/cpu/fourier.h"
#include "libs/cpu/lapack.h"

namespace thalweg::compiler {
namespace {

using ir::DType;
using ir::OpCode;

Step step_of(const ir::Op& op, std::string name) {
  Step step;
  step.name = std::move(name);
  step.library = step.fallible = true;
  for (const ir::Value* operand : op.operands) step.args.push_back({{codegen::canonical(operand), -1}, operand->type.bytes(), false, false});
  for (const auto& result : op.results) step.args.push_back({{result.get(), -1}, result->type.bytes(), true, false});
  return step;
}

std::optional<libs::cpu::Number> number_of(DType dtype) {
  switch (dtype) {
    case DType::F32:
      return libs::cpu::Number::F32;
    case DType::F64:
      return libs::cpu::Number::F64;
    case DType::C64:
      return libs::cpu::Number::C64;
    case DType::C128:
      return libs::cpu::Number::C128;
    default:
      return {};
  }
}

int64_t batch_of(const ir::Dims& dims) {
  int64_t n = 1;
  for (size_t d = 0; d + 2 < dims.size(); ++d) n *= dims[d];
  return n;
}

Step fourier_step(const ir::Op& op) {
  const std::string& type = op.attrs.string("fft_type");
  const libs::cpu::Fourier kind = type == "FFT"    ? libs::cpu::Fourier::Forward
                                  : type == "IFFT" ? libs::cpu::Fourier::Inverse
                                  : type == "RFFT" ? libs::cpu::Fourier::RealForward
                                                   : libs::cpu::Fourier::RealInverse;
  const ir::Dims &length = op.attrs.ints("fft_length"), &dims = op.operand(0)->type.dims;
  const DType from = op.operand(0)->type.dtype;
  Step step = step_of(op, "fft");
  step.call = [kind, wide = from == DType::F64 || from == DType::C128, dims, axes = static_cast<int64_t>(length.size()),
               last = length.back()](void* const* args) { libs::cpu::fourier(kind, wide, dims, axes, last, args[0], args[1]); };
  return step;
}

Step cholesky_step(const ir::Op& op, libs::cpu::Number number) {
  const ir::Dims& dims = op.result()->type.dims;
  Step step = step_of(op, "cholesky");
  step.call = [number, batch = batch_of(dims), n = dims.back(), lower = op.attrs.boolean("lower", false)](void* const* args) {
    libs::cpu::cholesky(number, batch, n, lower, args[0], args[1]);
  };
  return step;
}

Step triangular_step(const ir::Op& op, libs::cpu::Number number) {
  using Form = libs::cpu::TriangularSystem::Form;
  const ir::Dims& dims = op.result()->type.dims;
  const std::string transpose = op.attrs.string("transpose_a", "NO_TRANSPOSE");
  libs::cpu::TriangularSystem system;
  system.batch = batch_of(dims), system.rows = dims[dims.size() - 2], system.columns = dims.back();
  system.left = op.attrs.boolean("left_side", false), system.lower = op.attrs.boolean("lower", false), system.unit = op.attrs.boolean("unit_diagonal", false);
  system.form = transpose == "TRANSPOSE" ? Form::Transposed : transpose == "ADJOINT" ? Form::Adjoint : Form::Plain;
  Step step = step_of(op, "triangular_solve");
  step.call = [number, system](void* const* args) { libs::cpu::triangular_solve(number, system, args[0], args[1], args[2]); };
  return step;
}

}  // namespace

bool add_library_step(const ir::Op& op, std::vector<Step>& steps) {
  if (op.code == OpCode::Fft) return steps.push_back(fourier_step(op)), true;
  if (op.code != OpCode::Cholesky && op.code != OpCode::TriangularSolve) return false;
  const std::optional<libs::cpu::Number> number = number_of(op.result()->type.dtype);
  if (!number || !libs::cpu::blas_available()) return false;
  steps.push_back(op.code == OpCode::Cholesky ? cholesky_step(op, *number) : triangular_step(op, *number));
  return true;
}

}  // namespace thalweg::compiler
