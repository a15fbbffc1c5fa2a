// Short forms for lowering functions: arithmetic on IR values with numbers, reductions that keep dims, index checks.
#pragma once

#include <string>

#include "lazy/lowering.h"
#include "lazy/row.h"

namespace thalweg::lazy::emit {

using ir::Builder;
using ir::Comparison;
using ir::Dims;
using ir::DType;
using ir::OpCode;
using Values = std::vector<ir::Value*>;
using V = ir::Value*;

// `number` everywhere in a's type.
inline V like(Builder& b, V a, double number) { return b.splat(a->type, number); }
inline V add(Builder& b, V a, V c) { return b.binary(OpCode::Add, a, c); }
inline V sub(Builder& b, V a, V c) { return b.binary(OpCode::Subtract, a, c); }
inline V mul(Builder& b, V a, V c) { return b.binary(OpCode::Multiply, a, c); }
inline V div(Builder& b, V a, V c) { return b.binary(OpCode::Divide, a, c); }
inline V add(Builder& b, V a, double c) { return add(b, a, like(b, a, c)); }
inline V sub(Builder& b, V a, double c) { return sub(b, a, like(b, a, c)); }
inline V mul(Builder& b, V a, double c) { return mul(b, a, like(b, a, c)); }
inline V div(Builder& b, V a, double c) { return div(b, a, like(b, a, c)); }
inline V square(Builder& b, V a) { return mul(b, a, a); }
inline V not_zero(Builder& b, V a) { return a->type.dtype == DType::I1 ? a : b.compare(Comparison::NE, a, like(b, a, 0)); }

// A dim or index as PyTorch gives it, negative ones counted from the end of `size`.
inline int64_t positive(int64_t dim, int64_t size) { return dim < 0 ? dim + size : dim; }
// Dims as PyTorch gives them (negative, empty = all) as sorted positions for `rank`.
Dims normal_dims(Dims dims, int64_t rank);
// Repeats a reduced value along the dims that were reduced away, to `shape`.
V spread(Builder& b, V reduced, const Dims& shape, const Dims& dims);
// Sum over `dims` (kept out of the shape), and its mean.
V sum(Builder& b, V a, const Dims& dims);
V mean(Builder& b, V a, const Dims& dims);
int64_t count_of(const Dims& shape, const Dims& dims);
Dims all_dims(int64_t rank);
// Dims that are not in `dims`.
Dims other_dims(int64_t rank, const Dims& dims);
// `a` of rank 1 along dim `dim` of `shape`.
V along(Builder& b, V a, const Dims& shape, int64_t dim);

// A fallible check at run time that low ≤ every index < high; its error names the operation, its Python line and the bad value.
void check_index(const Lowering& l, V indices, int64_t low, int64_t high, const std::string& what);
// Negative indices counted from the end, as i64.
V wrap_index(Builder& b, V indices, int64_t size);

}  // namespace thalweg::lazy::emit
