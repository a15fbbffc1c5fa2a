// Text of accumulators.
#include "codegen/reducer.h"

#include "codegen/scalar_text.h"

namespace thalweg::codegen {

using ir::DType;
using ir::OpCode;

std::optional<Reducer> reducer_of(const ir::Block& region) {
  if (region.args.size() != 2 || region.ops.size() != 2) return {};
  const ir::Op& op = *region.ops[0];
  switch (op.code) {
    case OpCode::Add:
    case OpCode::Multiply:
    case OpCode::Maximum:
    case OpCode::Minimum:
    case OpCode::And:
    case OpCode::Or:
    case OpCode::Xor:
      break;
    default:
      return {};
  }
  const ir::Value *a = region.args[0].get(), *b = region.args[1].get();
  bool both = (op.operand(0) == a && op.operand(1) == b) || (op.operand(0) == b && op.operand(1) == a);
  if (!both || region.terminator().operands.size() != 1 || region.terminator().operand(0) != op.result() || !has_scalar_type(op.result()->type.dtype))
    return {};
  if (ir::is_complex(op.result()->type.dtype) && op.code != OpCode::Add) return {};
  return Reducer{op.code, op.result()->type.dtype};
}

// Maximum and minimum of floats run on integers in IEEE's total order: branch-free, NaN wins, -0 < +0, and the compiler vectorises it.
bool Reducer::ordered() const { return ir::is_float(dtype) && (op == OpCode::Maximum || op == OpCode::Minimum); }

DType Reducer::memory_dtype() const { return dtype == DType::BF16 || dtype == DType::F16 ? DType::F32 : dtype; }
std::string Reducer::memory_type() const { return scalar_type(memory_dtype()); }
std::string Reducer::register_type() const {
  if (ordered()) return memory_dtype() == DType::F64 ? "int64_t" : "int32_t";
  return memory_type();
}

std::string Reducer::identity(bool in_register) const {
  const std::string type = memory_type();
  const bool wide = memory_dtype() == DType::F64;
  const std::string infinity = wide ? "kWideInfinity" : "kInfinity";
  auto cast = [&](const char* value) { return "s_convert<" + type + ">(" + value + ")"; };
  switch (op) {
    case OpCode::Add:
      return ir::is_float(dtype) ? (wide ? "-0.0" : "-0.0f") : cast("0");
    case OpCode::Multiply:
      return cast("1");
    case OpCode::And:
      return dtype == DType::I1 ? "true" : "(" + type + ")~(" + type + ")0";
    case OpCode::Or:
    case OpCode::Xor:
      return dtype == DType::I1 ? "false" : "(" + type + ")0";
    default:
      break;
  }
  const bool max = op == OpCode::Maximum;
  if (ordered()) return in_register ? "s_total_order(" + std::string(max ? "-" : "") + infinity + ")" : (max ? "-" : "") + infinity;
  if (dtype == DType::I1) return max ? "false" : "true";
  if (ir::dtype_class(dtype) == ir::DTypeClass::Unsigned) return max ? "(" + type + ")0" : "(" + type + ")~(" + type + ")0";
  std::string lowest = "(" + type + ")(1ull << " + std::to_string(ir::byte_size(dtype) * 8 - 1) + ")";
  return max ? lowest : "(" + type + ")~" + lowest;
}

std::string Reducer::accumulate(const std::string& accumulator, const std::string& x, bool in_register) const {
  std::string value = memory_dtype() != dtype ? "s_convert<float>(" + x + ")" : x;
  if (ordered() && in_register) {
    const bool wide = memory_dtype() == DType::F64, max = op == OpCode::Maximum;
    const std::string extreme =
        wide ? (max ? "(int64_t)0x7fffffffffffffff" : "(int64_t)0x8000000000000000") : (max ? "(int32_t)0x7fffffff" : "(int32_t)0x80000000");
    return "{ const " + memory_type() + " v = " + value + "; const " + register_type() + " k = v != v ? " + extreme + " : s_total_order(v); " + accumulator +
           " = k " + (max ? ">" : "<") + " " + accumulator + " ? k : " + accumulator + "; }";
  }
  return merge(accumulator, value, in_register);
}

std::string Reducer::merge(const std::string& accumulator, const std::string& other, bool in_register) const {
  const std::string update = accumulator + " = ";
  if (ordered() && in_register) return update + other + (op == OpCode::Maximum ? " > " : " < ") + accumulator + " ? " + other + " : " + accumulator + ";";
  const bool real = ir::is_float(dtype);
  const char* open = real && in_register ? "{\n#pragma clang fp reassociate(on)\n" : "{ ";
  switch (op) {
    case OpCode::Add:
      return real ? open + update + accumulator + " + " + other + "; }" : update + "s_add(" + accumulator + ", " + other + ");";
    case OpCode::Multiply:
      return real ? open + update + accumulator + " * " + other + "; }" : update + "s_mul(" + accumulator + ", " + other + ");";
    case OpCode::Maximum:
      return update + "s_max(" + accumulator + ", " + other + ");";
    case OpCode::Minimum:
      return update + "s_min(" + accumulator + ", " + other + ");";
    case OpCode::And:
      return update + "s_and(" + accumulator + ", " + other + ");";
    case OpCode::Or:
      return update + "s_or(" + accumulator + ", " + other + ");";
    default:
      return update + "s_xor(" + accumulator + ", " + other + ");";
  }
}

std::string Reducer::result(const std::string& accumulator, bool in_register) const {
  std::string value = accumulator;
  if (ordered() && in_register) {
    const bool wide = memory_dtype() == DType::F64;
    value = "s_bitcast<" + memory_type() + ">(" + accumulator + " < 0 ? " + accumulator + " ^ " + (wide ? "0x7fffffffffffffff" : "0x7fffffff") + " : " +
            accumulator + ")";
  }
  return memory_dtype() != dtype ? "s_convert<" + scalar_type(dtype) + ">(" + value + ")" : value;
}

}  // namespace thalweg::codegen
