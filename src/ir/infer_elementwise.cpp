// Shape rules of elementwise ops.
#include "ir/infer.h"

namespace thalweg::ir {
namespace {

using Types = std::optional<std::vector<Type>>;

enum class ElementClass { Any, Bool, Integer, BoolInteger, Float, FloatComplex, Numeric, Ordered, SignedNumeric };

bool takes(ElementClass cls, DType dtype) {
  const bool integer = is_integer(dtype), real = is_float(dtype), complex = is_complex(dtype), boolean = dtype == DType::I1;
  switch (cls) {
    case ElementClass::Any:
      return true;
    case ElementClass::Bool:
      return boolean;
    case ElementClass::Integer:
      return integer;
    case ElementClass::BoolInteger:
      return boolean || integer;
    case ElementClass::Float:
      return real;
    case ElementClass::FloatComplex:
      return real || complex;
    case ElementClass::Numeric:
      return integer || real || complex;
    case ElementClass::Ordered:
      return !complex;
    case ElementClass::SignedNumeric:
      return dtype_class(dtype) == DTypeClass::Signed || real || complex;
  }
  return false;
}

ElementClass class_of(OpCode code) {
  switch (code) {
#define THALWEG_OP(name, text, ...)
#define THALWEG_UNARY(name, text, cls, expression) \
  case OpCode::name:                               \
    return ElementClass::cls;
#define THALWEG_BINARY(name, text, cls, expression) \
  case OpCode::name:                                \
    return ElementClass::cls;
#include "ir/ops.def"
#undef THALWEG_OP
#undef THALWEG_UNARY
#undef THALWEG_BINARY
    default:
      return ElementClass::Any;
  }
}

void require_class(const OpView& op, ElementClass cls) {
  require(takes(cls, op.type(0).dtype), op, "element type not taken by this op: ", to_string(op.type(0)));
}

Types unary(const OpView& op) {
  require_operands(op, 1);
  require_tensors(op);
  require_class(op, class_of(op.code));
  Type result = op.type(0);
  if (op.code == OpCode::Abs) result.dtype = real_dtype(result.dtype);
  return {{result}};
}

Types binary(const OpView& op) {
  require_operands(op, 2);
  require_tensors(op);
  require(op.type(0) == op.type(1), op, "operand types differ: ", to_string(op.type(0)), " and ", to_string(op.type(1)));
  require_class(op, class_of(op.code));
  return {{op.type(0)}};
}

Types part(const OpView& op) {  // real, imag
  require_operands(op, 1);
  require_tensors(op);
  require_class(op, ElementClass::FloatComplex);
  Type result = op.type(0);
  result.dtype = real_dtype(result.dtype);
  return {{result}};
}

Types is_finite(const OpView& op) {
  require_operands(op, 1);
  require_tensors(op);
  require_class(op, ElementClass::Float);
  return {{tensor(DType::I1, op.type(0).dims)}};
}

Types reduce_precision(const OpView& op) {
  require_operands(op, 1);
  require_tensors(op);
  require_class(op, ElementClass::Float);
  require(op.attrs.integer("exponent_bits") >= 1 && op.attrs.integer("mantissa_bits") >= 0, op,
          "format needs at least one exponent bit and no negative mantissa");
  return {{op.type(0)}};
}

Types compare(const OpView& op) {
  require_operands(op, 2);
  require_tensors(op);
  require(op.type(0) == op.type(1), op, "operand types differ: ", to_string(op.type(0)), " and ", to_string(op.type(1)));
  const std::string& direction = op.attrs.string("comparison_direction");
  require(direction == "EQ" || direction == "NE" || direction == "GE" || direction == "GT" || direction == "LE" || direction == "LT", op,
          "unknown comparison direction: ", direction);
  require(!is_complex(op.type(0).dtype) || direction == "EQ" || direction == "NE", op, "complex values have no order; direction: ", direction);
  return {{tensor(DType::I1, op.type(0).dims)}};
}

Types select(const OpView& op) {
  require_operands(op, 3);
  require_tensors(op);
  require(op.type(0).dtype == DType::I1, op, "the predicate must be of i1: ", to_string(op.type(0)));
  require(op.type(1) == op.type(2), op, "the two values' types differ: ", to_string(op.type(1)), " and ", to_string(op.type(2)));
  require(op.type(0).rank() == 0 || op.type(0).dims == op.type(1).dims, op, "the predicate's shape is neither the values' nor rank 0: ", to_string(op.type(0)),
          " and ", to_string(op.type(1)));
  return {{op.type(1)}};
}

Types clamp(const OpView& op) {
  require_operands(op, 3);
  require_tensors(op);
  for (size_t bound : {0, 2}) {
    require(op.type(bound).dtype == op.type(1).dtype && (op.type(bound).rank() == 0 || op.type(bound).dims == op.type(1).dims), op,
            "a bound's type fits neither the operand nor one element: ", to_string(op.type(bound)), " and ", to_string(op.type(1)));
  }
  return {{op.type(1)}};
}

Types complex(const OpView& op) {
  require_operands(op, 2);
  require_tensors(op);
  require(op.type(0) == op.type(1), op, "operand types differ: ", to_string(op.type(0)), " and ", to_string(op.type(1)));
  require(op.type(0).dtype == DType::F32 || op.type(0).dtype == DType::F64, op, "parts must be f32 or f64: ", to_string(op.type(0)));
  return {{tensor(op.type(0).dtype == DType::F32 ? DType::C64 : DType::C128, op.type(0).dims)}};
}

Types convert(const OpView& op) {
  require_operands(op, 1);
  require_tensors(op);
  const Type& to = op.declared_type();
  require(to.is_tensor() && to.dims == op.type(0).dims, op, "operand and result shapes differ: ", to_string(op.type(0)), " and ", to_string(to));
  return std::nullopt;
}

int bits_of(DType dtype) {
  switch (dtype) {
    case DType::S2:
    case DType::U2:
      return 2;
    case DType::S4:
    case DType::U4:
    case DType::F4E2M1FN:
      return 4;
    case DType::F6E2M3FN:
    case DType::F6E3M2FN:
      return 6;
    case DType::I1:
      return 1;
    default:
      return static_cast<int>(8 * byte_size(dtype));
  }
}

Types bitcast(const OpView& op) {
  require_operands(op, 1);
  require_tensors(op);
  const Type &from = op.type(0), &to = op.declared_type();
  require(to.is_tensor(), op, "the result must be a tensor: ", to_string(to));
  const int from_bits = bits_of(from.dtype), to_bits = bits_of(to.dtype);
  Dims expected = from.dims;
  if (from_bits > to_bits) {
    expected.push_back(from_bits / to_bits);
  } else if (from_bits < to_bits) {
    require(!expected.empty() && expected.back() == to_bits / from_bits, op, "the last dimension must hold one result element: ", to_string(from), " and ",
            to_string(to));
    expected.pop_back();
  }
  require(to.dims == expected, op, "result shape does not hold the operand's bits: ", to_string(from), " and ", to_string(to));
  return std::nullopt;
}

}  // namespace

ShapeRule elementwise_rule(OpCode code) {
  switch (code) {
#define THALWEG_OP(name, text, ...)
#define THALWEG_UNARY(name, text, cls, expression) case OpCode::name:
#include "ir/ops.def"
#undef THALWEG_UNARY
    return unary;
#define THALWEG_BINARY(name, text, cls, expression) case OpCode::name:
#define THALWEG_UNARY(name, text, cls, expression)
#include "ir/ops.def"
#undef THALWEG_UNARY
#undef THALWEG_BINARY
#undef THALWEG_OP
    return binary;
    case OpCode::Real:
    case OpCode::Imag:
      return part;
    case OpCode::IsFinite:
      return is_finite;
    case OpCode::ReducePrecision:
      return reduce_precision;
    case OpCode::Compare:
      return compare;
    case OpCode::Select:
      return select;
    case OpCode::Clamp:
      return clamp;
    case OpCode::Complex:
      return complex;
    case OpCode::Convert:
      return convert;
    case OpCode::BitcastConvert:
      return bitcast;
    default:
      return nullptr;
  }
}

}  // namespace thalweg::ir
