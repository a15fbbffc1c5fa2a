// C++ text of scalar types, literals and elementwise ops.
#include "codegen/scalar_text.h"

#include <bit>
#include <cctype>
#include <cinttypes>
#include <cmath>
#include <cstdio>

#include "support/error.h"

namespace thalweg::codegen {
namespace {

using ir::DType;
using ir::OpCode;

const char* type_text(DType dtype) {
  switch (dtype) {
    case DType::I1:
      return "bool";
    case DType::S8:
      return "int8_t";
    case DType::S16:
      return "int16_t";
    case DType::S32:
      return "int32_t";
    case DType::S64:
      return "int64_t";
    case DType::U8:
      return "uint8_t";
    case DType::U16:
      return "uint16_t";
    case DType::U32:
      return "uint32_t";
    case DType::U64:
      return "uint64_t";
    case DType::BF16:
      return "bf16_t";
    case DType::F16:
      return "f16_t";
    case DType::F32:
      return "float";
    case DType::F64:
      return "double";
    case DType::C64:
      return "c64_t";
    case DType::C128:
      return "c128_t";
    default:
      return nullptr;
  }
}

const char* row_text(OpCode code) {
  switch (code) {
#define THALWEG_OP(name, text, ...)
#define THALWEG_UNARY(name, text, cls, expression) \
  case OpCode::name:                               \
    return #expression;
#define THALWEG_BINARY(name, text, cls, expression) \
  case OpCode::name:                                \
    return #expression;
#include "ir/ops.def"
#undef THALWEG_OP
#undef THALWEG_UNARY
#undef THALWEG_BINARY
    default:
      return nullptr;
  }
}

bool identifier_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// The row's expression with the identifiers a and b replaced.
std::string substitute(const char* expression, std::span<const std::string> operands) {
  std::string out, word;
  for (const char* p = expression;; ++p) {
    if (*p && identifier_char(*p)) {
      word += *p;
      continue;
    }
    if (word == "a") {
      out += operands[0];
    } else if (word == "b") {
      out += operands[1];
    } else {
      out += word;
    }
    word.clear();
    if (!*p) return out;
    out += *p;
  }
}

std::string hex(uint64_t bits, const char* suffix) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "0x%" PRIx64 "%s", bits, suffix);
  return buffer;
}

std::string float_text(uint64_t bits, double value, bool wide) {
  char buffer[64];
  if (value - value != 0)
    return wide ? "__builtin_bit_cast(double, (uint64_t)" + hex(bits, "ull") + ")" : "__builtin_bit_cast(float, (uint32_t)" + hex(bits, "u") + ")";
  std::snprintf(buffer, sizeof buffer, wide ? "%a" : "%af", value);
  return std::signbit(value) ? "(" + std::string(buffer) + ")" : buffer;
}

std::string float_at(const ir::Literal& literal, int64_t i, bool wide) {
  if (wide) return float_text(literal.get<uint64_t>(i), literal.get<double>(i), true);
  return float_text(literal.get<uint32_t>(i), literal.get<float>(i), false);
}

template <class T>
struct Pair {
  T re, im;
};

std::string compare_text(const ir::Op& op, std::span<const std::string> x) {
  const std::string& word = op.attrs.string("comparison_direction");
  std::string call = "s_";
  for (char c : word) call += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (op.attrs.string("compare_type", "") == "TOTALORDER" && ir::is_float(op.operand(0)->type.dtype))
    return call + "(s_total_order(" + x[0] + "), s_total_order(" + x[1] + "))";
  return call + "(" + x[0] + ", " + x[1] + ")";
}

}  // namespace

bool has_scalar_type(DType dtype) { return type_text(dtype) != nullptr; }

std::string scalar_type(DType dtype) {
  const char* text = type_text(dtype);
  THALWEG_CHECK(text, Unsupported, "no kernels over elements of type ", ir::name(dtype), "; convert to a wider type first");
  return text;
}

std::string literal_text(const ir::Literal& literal, int64_t i) {
  switch (literal.type.dtype) {
    case DType::I1:
      return literal.get<uint8_t>(i) ? "true" : "false";
    case DType::S8:
      return "((int8_t)" + std::to_string(literal.get<int8_t>(i)) + ")";
    case DType::S16:
      return "((int16_t)" + std::to_string(literal.get<int16_t>(i)) + ")";
    case DType::S32:
      return "((int32_t)" + hex(literal.get<uint32_t>(i), "u") + ")";
    case DType::S64:
      return "((int64_t)" + hex(literal.get<uint64_t>(i), "ull") + ")";
    case DType::U8:
      return "((uint8_t)" + std::to_string(literal.get<uint8_t>(i)) + ")";
    case DType::U16:
      return "((uint16_t)" + std::to_string(literal.get<uint16_t>(i)) + ")";
    case DType::U32:
      return "((uint32_t)" + hex(literal.get<uint32_t>(i), "u") + ")";
    case DType::U64:
      return "((uint64_t)" + hex(literal.get<uint64_t>(i), "ull") + ")";
    case DType::BF16:
      return "__builtin_bit_cast(bf16_t, (uint16_t)" + hex(literal.get<uint16_t>(i), "") + ")";
    case DType::F16:
      return "__builtin_bit_cast(f16_t, (uint16_t)" + hex(literal.get<uint16_t>(i), "") + ")";
    case DType::F32:
      return float_at(literal, i, false);
    case DType::F64:
      return float_at(literal, i, true);
    case DType::C64: {
      auto v = literal.get<Pair<float>>(i);
      return "c64_t{" + float_text(std::bit_cast<uint32_t>(v.re), v.re, false) + ", " + float_text(std::bit_cast<uint32_t>(v.im), v.im, false) + "}";
    }
    case DType::C128: {
      auto v = literal.get<Pair<double>>(i);
      return "c128_t{" + float_text(std::bit_cast<uint64_t>(v.re), v.re, true) + ", " + float_text(std::bit_cast<uint64_t>(v.im), v.im, true) + "}";
    }
    default:
      break;
  }
  return scalar_type(literal.type.dtype);  // throws
}

bool is_elementwise(const ir::Op& op) {
  if (row_text(op.code)) return true;
  switch (op.code) {
    case OpCode::Convert:
    case OpCode::Imag:
    case OpCode::Real:
    case OpCode::IsFinite:
    case OpCode::ReducePrecision:
    case OpCode::Compare:
    case OpCode::Select:
    case OpCode::Clamp:
    case OpCode::Complex:
      return true;
    case OpCode::BitcastConvert:
      return ir::byte_size(op.operand(0)->type.dtype) == ir::byte_size(op.result()->type.dtype);
    default:
      return false;
  }
}

std::string elementwise_text(const ir::Op& op, std::span<const std::string> x) {
  if (const char* row = row_text(op.code)) return substitute(row, x);
  const std::string type = scalar_type(op.result()->type.dtype);
  switch (op.code) {
    case OpCode::Convert:
      return "s_convert<" + type + ">(" + x[0] + ")";
    case OpCode::Imag:
      return ir::is_complex(op.operand(0)->type.dtype) ? "(" + x[0] + ").im" : "s_convert<" + type + ">(0.0f)";
    case OpCode::Real:
      return ir::is_complex(op.operand(0)->type.dtype) ? "(" + x[0] + ").re" : x[0];
    case OpCode::IsFinite:
      return "s_is_finite(" + x[0] + ")";
    case OpCode::ReducePrecision:
      return "s_reduce_precision(" + x[0] + ", " + std::to_string(op.attrs.integer("exponent_bits")) + ", " +
             std::to_string(op.attrs.integer("mantissa_bits")) + ")";
    case OpCode::Compare:
      return compare_text(op, x);
    case OpCode::Select:
      return "(" + x[0] + " ? " + x[1] + " : " + x[2] + ")";
    case OpCode::Clamp:
      return "s_clamp(" + x[0] + ", " + x[1] + ", " + x[2] + ")";
    case OpCode::Complex:
      return type + "{" + x[0] + ", " + x[1] + "}";
    case OpCode::BitcastConvert:
      return "__builtin_bit_cast(" + type + ", " + x[0] + ")";
    default:
      return {};
  }
}

int cost(const ir::Op& op) {
  switch (op.code) {
    case OpCode::Cbrt:
    case OpCode::Cosine:
    case OpCode::Exponential:
    case OpCode::ExponentialMinusOne:
    case OpCode::Log:
    case OpCode::LogPlusOne:
    case OpCode::Logistic:
    case OpCode::Sine:
    case OpCode::Tan:
    case OpCode::Tanh:
    case OpCode::Erf:
    case OpCode::Erfc:
    case OpCode::Atan2:
    case OpCode::Power:
      return 12;
    case OpCode::Rsqrt:
    case OpCode::Sqrt:
    case OpCode::Divide:
    case OpCode::Remainder:
      return 4;
    case OpCode::RngBitGenerator:
      return 40;
    case OpCode::Gather:
    case OpCode::DynamicUpdateSlice:
    case OpCode::Concatenate:
    case OpCode::Pad:
      return 2;
    case OpCode::ReduceWindow:
      return 20;
    case OpCode::Constant:
    case OpCode::Iota:
    case OpCode::BroadcastInDim:
    case OpCode::Reshape:
    case OpCode::Transpose:
    case OpCode::Slice:
    case OpCode::DynamicSlice:
    case OpCode::OptimizationBarrier:
    case OpCode::Reverse:
      return 0;
    default:
      return 1;
  }
}

}  // namespace thalweg::codegen
