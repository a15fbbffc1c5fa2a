// Rules for reshape, transpose, broadcast and reverse.
#include <algorithm>

#include "passes/canonicalize_rules.h"
#include "passes/constants.h"

namespace thalweg::passes {
namespace {

using ir::Builder;
using ir::Dims;
using ir::Op;
using ir::OpCode;
using ir::Value;

Dims without_ones(const Dims& dims) {
  Dims kept;
  std::copy_if(dims.begin(), dims.end(), std::back_inserter(kept), [](int64_t d) { return d != 1; });
  return kept;
}

// Reshape of a broadcast where only dims of size 1 come and go: a broadcast to the new shape.
Replacement reshape_of_broadcast(Builder& b, const Op& op, const Op& broadcast) {
  const Dims &from = op.operand(0)->type.dims, &to = op.result()->type.dims;
  Value* source = broadcast.operand(0);
  if (source->type.size() == 1) return {b.broadcast(b.reshape(source, {}), to, {})};
  if (without_ones(from) != without_ones(to)) return {};
  // Where each dim of `from` that is not 1 lies in `to`.
  Dims position(from.size(), -1);
  size_t t = 0;
  for (size_t f = 0; f < from.size(); ++f) {
    if (from[f] == 1) continue;
    while (to[t] == 1) ++t;
    position[f] = static_cast<int64_t>(t++);
  }
  Dims source_shape, dims;
  const Dims& mapped = broadcast.attrs.ints("broadcast_dimensions");
  for (size_t i = 0; i < mapped.size(); ++i) {
    int64_t at = position[static_cast<size_t>(mapped[i])];
    if (at < 0) continue;  // a dim of size 1 on both sides
    source_shape.push_back(source->type.dims[i]);
    dims.push_back(at);
  }
  if (!std::is_sorted(dims.begin(), dims.end())) return {};
  return {b.broadcast(b.reshape(source, source_shape), to, dims)};
}

Replacement simplify_reshape(Builder& b, Op& op) {
  Value* x = op.operand(0);
  const Dims& to = op.result()->type.dims;
  if (x->type == op.result()->type) return {x};
  if (const ir::Literal* literal = uniform_of(x)) return {b.constant(splat_of(op.result()->type, *literal))};
  if (const Op* inner = made_by(x, OpCode::Reshape)) return {b.reshape(inner->operand(0), to)};
  if (const Op* broadcast = made_by(x, OpCode::BroadcastInDim)) return reshape_of_broadcast(b, op, *broadcast);
  return {};
}

Replacement simplify_transpose(Builder& b, Op& op) {
  Value* x = op.operand(0);
  const Dims &permutation = op.attrs.ints("permutation"), &to = op.result()->type.dims;
  if (std::is_sorted(permutation.begin(), permutation.end())) return {x};
  if (const ir::Literal* literal = uniform_of(x)) return {b.constant(splat_of(op.result()->type, *literal))};
  Dims moved;  // dims that are not 1, in the result's order
  for (int64_t d : permutation)
    if (x->type.dims[static_cast<size_t>(d)] != 1) moved.push_back(d);
  if (std::is_sorted(moved.begin(), moved.end())) return {b.reshape(x, to)};
  if (const Op* inner = made_by(x, OpCode::Transpose)) {
    Dims both;
    for (int64_t d : permutation) both.push_back(inner->attrs.ints("permutation")[static_cast<size_t>(d)]);
    return {b.transpose(inner->operand(0), both)};
  }
  if (const Op* broadcast = made_by(x, OpCode::BroadcastInDim)) {
    Dims inverse(permutation.size()), dims;
    for (size_t i = 0; i < permutation.size(); ++i) inverse[static_cast<size_t>(permutation[i])] = static_cast<int64_t>(i);
    for (int64_t d : broadcast->attrs.ints("broadcast_dimensions")) dims.push_back(inverse[static_cast<size_t>(d)]);
    return {b.broadcast(broadcast->operand(0), to, dims)};
  }
  return {};
}

Replacement simplify_broadcast(Builder& b, Op& op) {
  Value* x = op.operand(0);
  const Dims &dims = op.attrs.ints("broadcast_dimensions"), &to = op.result()->type.dims;
  if (const ir::Literal* literal = uniform_of(x)) return {b.constant(splat_of(op.result()->type, *literal))};
  bool sorted = std::is_sorted(dims.begin(), dims.end());
  if (sorted && x->type.size() == op.result()->type.size() && x->type.size() != 0) return {b.reshape(x, to)};
  if (const Op* inner = made_by(x, OpCode::BroadcastInDim)) {
    Dims both;
    for (int64_t d : inner->attrs.ints("broadcast_dimensions")) both.push_back(dims[static_cast<size_t>(d)]);
    return {b.broadcast(inner->operand(0), to, both)};
  }
  // A reshape that only adds or drops dims of size 1 has no say in what is repeated.
  if (const Op* inner = made_by(x, OpCode::Reshape)) {
    Value* source = inner->operand(0);
    if (without_ones(source->type.dims) != without_ones(x->type.dims) || source->type.dims.size() > x->type.dims.size()) return {};
    Dims kept, shape;
    for (size_t i = 0; i < dims.size(); ++i)
      if (x->type.dims[i] != 1) kept.push_back(dims[i]), shape.push_back(x->type.dims[i]);
    if (shape != source->type.dims) return {};
    return {b.broadcast(source, to, kept)};
  }
  return {};
}

Replacement simplify_reverse(Builder& b, Op& op) {
  Value* x = op.operand(0);
  if (const ir::Literal* literal = uniform_of(x)) return {b.constant(splat_of(op.result()->type, *literal))};
  Dims dims = op.attrs.ints("dimensions");
  size_t before = dims.size();
  std::erase_if(dims, [&](int64_t d) { return x->type.dims[static_cast<size_t>(d)] <= 1; });
  if (dims.empty()) return {x};
  if (const Op* inner = made_by(x, OpCode::Reverse)) {
    for (int64_t d : inner->attrs.ints("dimensions")) {
      if (std::erase(dims, d) == 0) dims.push_back(d);
    }
    std::sort(dims.begin(), dims.end());
    return {b.reverse(inner->operand(0), dims)};
  }
  return dims.size() < before ? Replacement{b.reverse(x, dims)} : Replacement{};
}

}  // namespace

Replacement simplify_movement(Builder& builder, Op& op) {
  switch (op.code) {
    case OpCode::Reshape:
      return simplify_reshape(builder, op);
    case OpCode::Transpose:
      return simplify_transpose(builder, op);
    case OpCode::BroadcastInDim:
      return simplify_broadcast(builder, op);
    case OpCode::Reverse:
      return simplify_reverse(builder, op);
    default:
      return {};
  }
}

}  // namespace thalweg::passes
