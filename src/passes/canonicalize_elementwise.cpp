// Rules for elementwise ops.
#include <cmath>
#include <limits>

#include "passes/canonicalize_rules.h"
#include "passes/constants.h"
#include "passes/op_kinds.h"

namespace thalweg::passes {
namespace {

using ir::Builder;
using ir::Dims;
using ir::DType;
using ir::DTypeClass;
using ir::Op;
using ir::OpCode;
using ir::Value;

bool is_real(DType dtype) { return ir::is_float(dtype) || ir::is_integer(dtype); }

// For commutative ops: calls `rule(x, constant)` with the constant operand last, whichever side it is on.
template <class Rule>
Replacement with_constant(const Op& op, const Rule& rule) {
  if (uniform_of(op.operand(1))) return rule(op.operand(0), op.operand(1));
  if (uniform_of(op.operand(0))) return rule(op.operand(1), op.operand(0));
  return {};
}

Replacement simplify_add(Builder&, Op& op) {
  DType dtype = op.result()->type.dtype;
  return with_constant(op, [&](Value* x, Value* c) -> Replacement {
    if (ir::is_float(dtype) ? is_uniform(c, -0.0) : ir::is_integer(dtype) && is_uniform(c, 0)) return {x};
    return {};
  });
}

Replacement simplify_subtract(Builder& b, Op& op) {
  DType dtype = op.result()->type.dtype;
  if (is_real(dtype) && is_uniform(op.operand(1), 0.0)) return {op.operand(0)};
  if (ir::is_integer(dtype) && op.operand(0) == op.operand(1)) return {b.splat(op.result()->type, 0)};
  return {};
}

Replacement simplify_multiply(Builder& b, Op& op) {
  DType dtype = op.result()->type.dtype;
  return with_constant(op, [&](Value* x, Value* c) -> Replacement {
    if (!is_real(dtype)) return {};
    if (is_uniform(c, 1)) return {x};
    if (is_uniform(c, -1) && ir::dtype_class(dtype) != DTypeClass::Unsigned) return {b.unary(OpCode::Negate, x)};
    if (ir::is_integer(dtype) && is_uniform(c, 0)) return {c};
    return {};
  });
}

// Division by a power of two is the product with its inverse, exactly, unless that inverse is not a normal number.
Replacement simplify_divide(Builder& b, Op& op) {
  const ir::Type& type = op.result()->type;
  auto divisor = uniform_number(op.operand(1));
  if (!is_real(type.dtype) || !divisor) return {};
  if (*divisor == 1) return {op.operand(0)};
  if (type.dtype != DType::F32 && type.dtype != DType::F64 && type.dtype != DType::BF16) return {};
  int exponent;
  if (std::abs(std::frexp(*divisor, &exponent)) != 0.5 || std::abs(exponent) > 100) return {};
  return {b.binary(OpCode::Multiply, op.operand(0), b.splat(type, 1 / *divisor))};
}

Replacement simplify_power(Builder& b, Op& op) {
  Value* x = op.operand(0);
  if (!is_real(x->type.dtype)) return {};
  if (is_uniform(op.operand(1), 1)) return {x};
  if (is_uniform(op.operand(1), 0) || is_uniform(op.operand(1), -0.0)) return {b.splat(x->type, 1)};
  // A square is exact before its one rounding in both forms, and the product is much cheaper.
  if (is_uniform(op.operand(1), 2)) return {b.binary(OpCode::Multiply, x, x)};
  return {};
}

// The value that min or max leaves alone everywhere.
bool is_neutral(const Value* c, bool maximum) {
  DType dtype = c->type.dtype;
  if (ir::is_float(dtype))
    return (dtype == DType::F32 || dtype == DType::F64 || dtype == DType::BF16 || dtype == DType::F16) && is_uniform(c, maximum ? -INFINITY : INFINITY);
  return dtype == DType::U8 ? is_uniform(c, maximum ? 0 : 255) : dtype == DType::S32 && is_uniform(c, maximum ? INT32_MIN : INT32_MAX);
}

Replacement simplify_extremum(Builder&, Op& op) {
  if (op.operand(0) == op.operand(1)) return {op.operand(0)};
  return with_constant(op, [&](Value* x, Value* c) -> Replacement {
    if (is_neutral(c, op.code == OpCode::Maximum)) return {x};
    return {};
  });
}

Replacement simplify_logic(Builder& b, Op& op) {
  if (op.operand(0) == op.operand(1)) return {op.code == OpCode::Xor ? b.splat(op.result()->type, 0) : op.operand(0)};
  return with_constant(op, [&](Value* x, Value* c) -> Replacement {
    if (is_uniform(c, 0)) return {op.code == OpCode::And ? c : x};
    if (x->type.dtype == DType::I1 && is_uniform(c, 1)) return {op.code == OpCode::And ? x : op.code == OpCode::Or ? c : b.unary(OpCode::Not, x)};
    return {};
  });
}

// -(-x), not(not(x)).
Replacement simplify_involution(Builder&, Op& op) {
  if (const Op* inner = made_by(op.operand(0), op.code)) return {inner->operand(0)};
  return {};
}

Replacement simplify_shift(Builder&, Op& op) {
  if (is_uniform(op.operand(1), 0)) return {op.operand(0)};
  return {};
}

// True when every value of `from` is a value of `to`.
bool is_exact(DType from, DType to) {
  auto fraction_bits = [](DType d) { return d == DType::F64 ? 53 : d == DType::F32 ? 24 : d == DType::F16 ? 11 : d == DType::BF16 ? 8 : 0; };
  auto exponent_bits = [](DType d) { return d == DType::F64 ? 11 : d == DType::F32 ? 8 : d == DType::F16 ? 5 : d == DType::BF16 ? 8 : 0; };
  auto integer_bits = [](DType d) { return d == DType::I1 ? 1 : static_cast<int>(8 * ir::byte_size(d)); };
  if (from == to) return true;
  bool counted = from == DType::I1 || (ir::is_integer(from) && from >= DType::S8 && from != DType::U2 && from != DType::U4);
  if (fraction_bits(from) && fraction_bits(to)) return fraction_bits(to) >= fraction_bits(from) && exponent_bits(to) >= exponent_bits(from);
  if (counted && fraction_bits(to)) return fraction_bits(to) >= integer_bits(from) && exponent_bits(to) >= 8;
  if (counted && ir::is_integer(to) && ir::byte_size(to) > (from == DType::I1 ? 0 : ir::byte_size(from)))
    return ir::dtype_class(from) != DTypeClass::Signed || ir::dtype_class(to) == DTypeClass::Signed;
  return false;
}

Replacement simplify_convert(Builder& b, Op& op) {
  Value* x = op.operand(0);
  if (x->type == op.result()->type) return {x};
  const Op* inner = made_by(x, OpCode::Convert);
  if (!inner) return {};
  Value* source = inner->operand(0);
  const DType from = source->type.dtype, to = op.result()->type.dtype;
  if (!is_exact(from, x->type.dtype)) return {};
  // From a float an integer is saturated, from an integer it wraps.
  if (ir::is_integer(from) && ir::is_float(x->type.dtype) && ir::is_integer(to) && !is_exact(from, to)) return {};
  return {b.convert(source, op.result()->type.dtype)};
}

Replacement simplify_bitcast(Builder& b, Op& op) {
  Value* x = op.operand(0);
  if (x->type == op.result()->type) return {x};
  const Op* inner = made_by(x, OpCode::BitcastConvert);
  if (!inner || inner->operand(0)->type.dims != x->type.dims || x->type.dims != op.result()->type.dims) return {};
  return {b.bitcast(inner->operand(0), op.result()->type)};
}

Replacement simplify_select(Builder& b, Op& op) {
  Value *p = op.operand(0), *x = op.operand(1), *y = op.operand(2);
  if (x == y) return {x};
  if (const ir::Literal* literal = uniform_of(p)) return {ir::to_int(*literal, 0) ? x : y};
  if (const Op* inner = made_by(p, OpCode::Not)) return {b.select(inner->operand(0), y, x)};
  if (x->type.dtype == DType::I1 && p->type == x->type && is_uniform(x, 1) && is_uniform(y, 0)) return {p};
  return {};
}

Replacement simplify_parts(Builder&, Op& op) {
  Value* x = op.operand(0);
  if (x->type == op.result()->type && op.code == OpCode::Real) return {x};
  if (const Op* made = made_by(x, OpCode::Complex)) return {made->operand(op.code == OpCode::Real ? 0 : 1)};
  return {};
}

// The broadcast behind a value that repeats one element everywhere; null when it is not such a value.
const Op* scalar_broadcast(const Value* value) {
  const Op* broadcast = made_by(value, OpCode::BroadcastInDim);
  return broadcast && broadcast->operand(0)->type.size() == 1 ? broadcast : nullptr;
}

// op(broadcast(x), broadcast(y)) is broadcast(op(x, y)) when both repeat in the same way, or one is the same everywhere: fewer elements to compute.
Replacement sink_broadcast(Builder& b, Op& op) {
  if (op.operands.empty() || op.results.size() != 1) return {};
  const Op* pattern = nullptr;
  for (const Value* operand : op.operands) {
    if (operand->type.dims != op.result()->type.dims) return {};
    const Op* broadcast = made_by(operand, OpCode::BroadcastInDim);
    if (!broadcast) {
      if (!uniform_of(operand)) return {};
      continue;
    }
    if (!pattern || scalar_broadcast(pattern->result())) pattern = broadcast;
    if (scalar_broadcast(operand)) continue;
    if (broadcast->operand(0)->type.dims != pattern->operand(0)->type.dims || !(broadcast->attrs == pattern->attrs)) return {};
  }
  if (!pattern || pattern->operand(0)->type.size() >= op.result()->type.size()) return {};
  const Dims& small = pattern->operand(0)->type.dims;
  std::vector<Value*> operands;
  for (Value* operand : op.operands) {
    const Op* broadcast = made_by(operand, OpCode::BroadcastInDim);
    if (!broadcast)
      operands.push_back(b.constant(splat_of(ir::tensor(operand->type.dtype, small), *uniform_of(operand))));
    else if (broadcast->operand(0)->type.dims == small)
      operands.push_back(broadcast->operand(0));
    else
      operands.push_back(b.broadcast(b.reshape(broadcast->operand(0), {}), small, {}));
  }
  Value* computed = b.make(op.code, std::move(operands), op.attrs, {ir::tensor(op.result()->type.dtype, small)})->result();
  return {b.broadcast(computed, op.result()->type.dims, pattern->attrs.ints("broadcast_dimensions"))};
}

Replacement simplify_one(Builder& b, Op& op) {
  switch (op.code) {
    case OpCode::Add:
      return simplify_add(b, op);
    case OpCode::Subtract:
      return simplify_subtract(b, op);
    case OpCode::Multiply:
      return simplify_multiply(b, op);
    case OpCode::Divide:
      return simplify_divide(b, op);
    case OpCode::Power:
      return simplify_power(b, op);
    case OpCode::Maximum:
    case OpCode::Minimum:
      return simplify_extremum(b, op);
    case OpCode::And:
    case OpCode::Or:
    case OpCode::Xor:
      return simplify_logic(b, op);
    case OpCode::Negate:
    case OpCode::Not:
      return simplify_involution(b, op);
    case OpCode::ShiftLeft:
    case OpCode::ShiftRightArithmetic:
    case OpCode::ShiftRightLogical:
      return simplify_shift(b, op);
    case OpCode::Convert:
      return simplify_convert(b, op);
    case OpCode::BitcastConvert:
      return simplify_bitcast(b, op);
    case OpCode::Select:
      return simplify_select(b, op);
    case OpCode::Real:
    case OpCode::Imag:
      return simplify_parts(b, op);
    default:
      return {};
  }
}

}  // namespace

Replacement simplify_elementwise(Builder& builder, Op& op) {
  if (Replacement values = simplify_one(builder, op); !values.empty()) return values;
  return is_elementwise(op) ? sink_broadcast(builder, op) : Replacement{};
}

}  // namespace thalweg::passes
