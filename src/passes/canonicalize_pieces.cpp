// Rules for ops that cut tensors up and put them together.
#include <algorithm>
#include <cmath>

#include "passes/canonicalize_rules.h"
#include "passes/constants.h"

namespace thalweg::passes {
namespace {

using ir::Builder;
using ir::Dims;
using ir::Op;
using ir::OpCode;
using ir::Value;

bool all(const Dims& dims, int64_t value) {
  return std::all_of(dims.begin(), dims.end(), [&](int64_t d) { return d == value; });
}

struct Slice {
  Dims start, limit, stride;
};

Slice slice_of(const Op& op) {
  return {op.attrs.ints("start_indices"), op.attrs.ints("limit_indices"), op.attrs.ints("strides", Dims(op.operand(0)->type.dims.size(), 1))};
}

Replacement slice_of_slice(Builder& b, const Slice& outer, const Op& op, const Op& inner_op) {
  Slice inner = slice_of(inner_op), both = inner;
  for (size_t d = 0; d < both.start.size(); ++d) {
    both.start[d] = inner.start[d] + outer.start[d] * inner.stride[d];
    both.stride[d] = inner.stride[d] * outer.stride[d];
    int64_t count = op.result()->type.dims[d];
    if (count == 0) both.start[d] = 0;
    both.limit[d] = count == 0 ? 0 : both.start[d] + (count - 1) * both.stride[d] + 1;
  }
  return {b.slice(inner_op.operand(0), both.start, both.limit, both.stride)};
}

// Sliced dims that are repeated shrink the repetition; the others slice the source.
Replacement slice_of_broadcast(Builder& b, const Slice& slice, const Op& op, const Op& broadcast) {
  Value* source = broadcast.operand(0);
  const Dims& dims = broadcast.attrs.ints("broadcast_dimensions");
  Slice inner;
  for (size_t i = 0; i < dims.size(); ++i) {
    size_t d = static_cast<size_t>(dims[i]);
    bool repeated = source->type.dims[i] == 1;
    inner.start.push_back(repeated ? 0 : slice.start[d]);
    inner.limit.push_back(repeated ? 1 : slice.limit[d]);
    inner.stride.push_back(repeated ? 1 : slice.stride[d]);
  }
  return {b.broadcast(b.slice(source, inner.start, inner.limit, inner.stride), op.result()->type.dims, dims)};
}

// A slice that lies in one part of a concatenation.
Replacement slice_of_concatenate(Builder& b, Slice slice, const Op& concatenate) {
  auto dim = static_cast<size_t>(concatenate.attrs.integer("dimension"));
  int64_t begin = 0;
  for (Value* part : concatenate.operands) {
    int64_t end = begin + part->type.dims[dim];
    if (slice.start[dim] >= begin && slice.limit[dim] <= end && slice.start[dim] < slice.limit[dim]) {
      slice.start[dim] -= begin;
      slice.limit[dim] -= begin;
      return {b.slice(part, slice.start, slice.limit, slice.stride)};
    }
    begin = end;
  }
  return {};
}

// A slice that lies in what was padded.
Replacement slice_of_pad(Builder& b, Slice slice, const Op& pad) {
  if (!all(pad.attrs.ints("interior_padding"), 0)) return {};
  const Dims& low = pad.attrs.ints("edge_padding_low");
  for (size_t d = 0; d < low.size(); ++d) {
    slice.start[d] -= low[d];
    slice.limit[d] -= low[d];
    if (slice.start[d] < 0 || slice.limit[d] > pad.operand(0)->type.dims[d] || slice.start[d] > slice.limit[d]) return {};
  }
  return {b.slice(pad.operand(0), slice.start, slice.limit, slice.stride)};
}

Replacement simplify_slice(Builder& b, Op& op) {
  Value* x = op.operand(0);
  if (x->type == op.result()->type) return {x};
  if (const ir::Literal* literal = uniform_of(x)) return {b.constant(splat_of(op.result()->type, *literal))};
  Slice slice = slice_of(op);
  if (!x->def) return {};
  switch (x->def->code) {
    case OpCode::Slice:
      return slice_of_slice(b, slice, op, *x->def);
    case OpCode::BroadcastInDim:
      return slice_of_broadcast(b, slice, op, *x->def);
    case OpCode::Concatenate:
      return slice_of_concatenate(b, slice, *x->def);
    case OpCode::Pad:
      return slice_of_pad(b, slice, *x->def);
    default:
      return {};
  }
}

Replacement simplify_pad(Builder& b, Op& op) {
  const Dims &low = op.attrs.ints("edge_padding_low"), &high = op.attrs.ints("edge_padding_high"), &interior = op.attrs.ints("interior_padding");
  Value* x = op.operand(0);
  if (x->type.size() == 0) return {b.broadcast(op.operand(1), op.result()->type.dims, {})};
  bool gaps = false;
  for (size_t d = 0; d < interior.size(); ++d) gaps = gaps || (interior[d] != 0 && x->type.dims[d] > 1);
  if (gaps) return {};
  if (all(low, 0) && all(high, 0)) return {x};
  // Nothing but cutting: a slice.
  if (std::all_of(low.begin(), low.end(), [](int64_t p) { return p <= 0; }) && std::all_of(high.begin(), high.end(), [](int64_t p) { return p <= 0; })) {
    Dims start, limit;
    for (size_t d = 0; d < low.size(); ++d) {
      start.push_back(-low[d]);
      limit.push_back(x->type.dims[d] + high[d]);
      if (start[d] > limit[d]) return {};
    }
    return {b.slice(x, start, limit, Dims(low.size(), 1))};
  }
  if (uniform_of(x) && uniform_of(op.operand(1))) {
    const ir::Literal &inside = *uniform_of(x), &outside = *uniform_of(op.operand(1));
    auto bytes = static_cast<size_t>(ir::byte_size(x->type.dtype));
    if (std::equal(inside.data.begin(), inside.data.begin() + static_cast<std::ptrdiff_t>(bytes), outside.data.begin()))
      return {b.constant(splat_of(op.result()->type, inside))};
  }
  return {};
}

// True when `second` is the slice that goes on where `first` ends along `dim`.
bool continues(const Op& first, const Op& second, size_t dim) {
  if (first.operand(0) != second.operand(0)) return false;
  Slice a = slice_of(first), b = slice_of(second);
  if (!all(a.stride, 1) || !all(b.stride, 1) || a.limit[dim] != b.start[dim]) return false;
  for (size_t d = 0; d < a.start.size(); ++d)
    if (d != dim && (a.start[d] != b.start[d] || a.limit[d] != b.limit[d])) return false;
  return true;
}

Replacement simplify_concatenate(Builder& b, Op& op) {
  int64_t dim = op.attrs.integer("dimension");
  auto d = static_cast<size_t>(dim);
  std::vector<Value*> parts;
  bool changed = false;
  for (Value* operand : op.operands) {
    if (operand->type.dims[d] == 0) {
      changed = true;
      continue;
    }
    const Op* inner = made_by(operand, OpCode::Concatenate);
    if (inner && inner->attrs.integer("dimension") == dim) {
      parts.insert(parts.end(), inner->operands.begin(), inner->operands.end());
      changed = true;
      continue;
    }
    const Op *previous = parts.empty() ? nullptr : made_by(parts.back(), OpCode::Slice), *slice = made_by(operand, OpCode::Slice);
    if (previous && slice && continues(*previous, *slice, d)) {
      Slice first = slice_of(*previous), second = slice_of(*slice);
      parts.back() = b.slice(slice->operand(0), first.start, second.limit, first.stride);
      changed = true;
      continue;
    }
    parts.push_back(operand);
  }
  if (parts.empty()) return {op.operand(0)};  // all are empty, and so is the result
  if (parts.size() == 1 && parts[0]->type == op.result()->type) return {parts[0]};
  return changed ? Replacement{b.concatenate(parts, dim)} : Replacement{};
}

// Constant starts, clamped as the op does, make a slice.
Replacement simplify_dynamic_slice(Builder& b, Op& op) {
  Value* x = op.operand(0);
  const Dims& sizes = op.result()->type.dims;
  if (x->type == op.result()->type) return {x};
  Dims start, limit;
  for (size_t d = 0; d < sizes.size(); ++d) {
    const ir::Literal* literal = uniform_of(op.operand(d + 1));
    if (!literal) return {};
    start.push_back(std::clamp<int64_t>(ir::to_int(*literal, 0), 0, x->type.dims[d] - sizes[d]));
    limit.push_back(start.back() + sizes[d]);
  }
  return {b.slice(x, start, limit, Dims(sizes.size(), 1))};
}

Replacement simplify_dynamic_update_slice(Builder&, Op& op) {
  if (op.operand(1)->type == op.result()->type) return {op.operand(1)};
  return {};
}

// A reduction over no dims combines each element with the initial value once; a plain one from its identity changes nothing.
Replacement simplify_reduce(Builder& b, Op& op) {
  if (op.results.size() != 1 || op.operand(0)->type.size() != op.result()->type.size() || op.result()->type.size() == 0) return {};
  const ir::Block& body = *op.regions[0];
  if (body.ops.size() != 2 || body.ops[0]->operands.size() != 2 || op.operand(0)->type.dtype != op.result()->type.dtype) return {};
  const Op& combine = *body.ops[0];
  bool plain = body.ops[1]->operand(0) == combine.result() && combine.operand(0) == body.args[0].get() && combine.operand(1) == body.args[1].get();
  const Value* init = op.operand(1);
  bool floating = ir::is_float(init->type.dtype);
  bool identity = (combine.code == OpCode::Add && !floating && ir::is_integer(init->type.dtype) && is_uniform(init, 0)) ||
                  (combine.code == OpCode::Add && floating && is_uniform(init, -0.0)) ||
                  (combine.code == OpCode::Multiply && floating && is_uniform(init, 1)) ||
                  (combine.code == OpCode::Maximum && floating && is_uniform(init, -INFINITY)) ||
                  (combine.code == OpCode::Minimum && floating && is_uniform(init, INFINITY));
  if (!plain || !identity) return {};
  return {b.reshape(op.operand(0), op.result()->type.dims)};
}

}  // namespace

Replacement simplify_pieces(Builder& builder, Op& op) {
  switch (op.code) {
    case OpCode::Slice:
      return simplify_slice(builder, op);
    case OpCode::Pad:
      return simplify_pad(builder, op);
    case OpCode::Concatenate:
      return simplify_concatenate(builder, op);
    case OpCode::DynamicSlice:
      return simplify_dynamic_slice(builder, op);
    case OpCode::DynamicUpdateSlice:
      return simplify_dynamic_update_slice(builder, op);
    case OpCode::Reduce:
      return simplify_reduce(builder, op);
    default:
      return {};
  }
}

}  // namespace thalweg::passes
