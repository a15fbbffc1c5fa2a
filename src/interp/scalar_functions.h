// Scalar functions by op and dtype, made from the expressions of ops.def: they read operands from memory and write one element.
#pragma once

#include <cstddef>

#include "ir/graph.h"

namespace thalweg::interp {

using UnaryFn = void (*)(const std::byte* a, std::byte* out);
using BinaryFn = void (*)(const std::byte* a, const std::byte* b, std::byte* out);

// The scalar function of a unary or binary op of ops.def at operand type `dtype`; null when the op does not take it. The result has the operand's dtype
// (abs of a complex number: its real dtype).
UnaryFn unary_function(ir::OpCode code, ir::DType dtype);
BinaryFn binary_function(ir::OpCode code, ir::DType dtype);
// convert.
UnaryFn convert_function(ir::DType from, ir::DType to);
// compare with a direction such as "LT" and a type "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED" or "": writes one byte. Null when there is none.
BinaryFn compare_function(ir::DType dtype, const std::string& direction, const std::string& type);
// reduce_precision.
void reduce_precision(ir::DType dtype, const std::byte* a, std::byte* out, int exponent_bits, int mantissa_bits);

}  // namespace thalweg::interp
