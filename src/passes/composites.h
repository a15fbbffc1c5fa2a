// What the decompositions share: arithmetic on values and numbers in the computing dtype, and the tables of composites by name.
#pragma once

#include <algorithm>
#include <numeric>
#include <string_view>

#include "passes/rewriter.h"

namespace thalweg::passes::composites {

using ir::Builder;
using ir::Dims;
using ir::DType;
using ir::Op;
using ir::OpCode;
using ir::Value;

// What every decomposition needs: arithmetic on values and numbers in the computing dtype.
struct Writer {
  Builder& b;
  const Op& op;
  const ir::Attributes& config;

  Value* wide(size_t i) const {
    Value* x = op.operand(i);
    return ir::is_float(x->type.dtype) && ir::byte_size(x->type.dtype) < 4 ? b.convert(x, DType::F32) : x;
  }
  // As the i-th result, rounded to its dtype.
  Value* result(size_t i, Value* value) const { return b.convert(b.reshape(value, op.result(i)->type.dims), op.result(i)->type.dtype); }
  Value* number(Value* like, double value) const { return b.splat(like->type, value); }
  Value* add(Value* x, Value* y) const { return b.binary(OpCode::Add, x, y); }
  Value* sub(Value* x, Value* y) const { return b.binary(OpCode::Subtract, x, y); }
  Value* mul(Value* x, Value* y) const { return b.binary(OpCode::Multiply, x, y); }
  Value* div(Value* x, Value* y) const { return b.binary(OpCode::Divide, x, y); }
  Value* add(Value* x, double y) const { return add(x, number(x, y)); }
  Value* mul(Value* x, double y) const { return mul(x, number(x, y)); }
  Value* exp(Value* x) const { return b.unary(OpCode::Exponential, x); }
  Value* sqrt(Value* x) const { return b.unary(OpCode::Sqrt, x); }
  Value* equal(Value* x, double y) const { return b.compare(ir::Comparison::EQ, x, number(x, y)); }
  // `x` along dim `dim` of `shape`.
  Value* along(Value* x, const Dims& shape, int64_t dim) const { return b.broadcast(x, shape, {dim}); }
  // The rank-0 operand i as x's type.
  Value* scalar(size_t i, Value* x) const { return b.broadcast_to(b.convert(op.operand(i), x->type.dtype), x->type.dims); }

  // `reduced` lacks `dims` of `shape`: repeated along them.
  Value* spread(Value* reduced, const Dims& shape, const Dims& dims) const { return b.broadcast(reduced, shape, others(shape, dims)); }
  Value* mean(Value* x, const Dims& dims) const {
    double count = 1;
    for (int64_t d : dims) count *= static_cast<double>(x->type.dims[static_cast<size_t>(d)]);
    Value* sum = b.sum(x, dims);
    return div(sum, number(sum, count));
  }
  static Dims others(const Dims& shape, const Dims& dims) {
    Dims kept;
    for (int64_t d = 0; d < static_cast<int64_t>(shape.size()); ++d)
      if (std::find(dims.begin(), dims.end(), d) == dims.end()) kept.push_back(d);
    return kept;
  }
  static Dims from_axis(const Dims& shape, int64_t axis) {
    Dims dims(shape.size() - static_cast<size_t>(axis));
    std::iota(dims.begin(), dims.end(), axis);
    return dims;
  }
};

// Writes a composite in plain ops: one value a result.
using Decomposition = Replacement (*)(const Writer&);

// A composite and its decomposition.
struct Named {
  std::string_view name;
  Decomposition write;
};

// softmax along `dim`, or its logarithm.
Value* softmax_of(const Writer& w, Value* x, int64_t dim, bool logarithm);

// The composites of each file.
std::vector<Named> attention_composites();
std::vector<Named> training_composites();

// Marks each attention_grad that stands in one function with its attention over the same operands: the probabilities are then written as the same ops as the
// forward's, which common subexpressions make one.
void mark_attention_pairs(ir::Function& function);

}  // namespace thalweg::passes::composites
