// Pulling elements through ops that move them: every op maps the result's index to its operand's.
#include <algorithm>

#include "codegen/expression.h"
#include "codegen/scalar_text.h"
#include "ir/dimension_numbers.h"
#include "support/error.h"

namespace thalweg::codegen {
namespace {

using ir::Dims;

Dims strides_of(const Dims& dims) {
  Dims strides(dims.size(), 1);
  for (size_t k = dims.size(); k-- > 1;) strides[k - 1] = strides[k] * dims[k];
  return strides;
}

constexpr int64_t kMostKnown = (int64_t{1} << 31) - 1;

// Integers that grow evenly along each dim: first + Σ index[k] · along[k].
struct Steps {
  int64_t first = 0;
  Dims along;
};

// The steps of an integer literal, or nothing when its elements are any others. Of numbers below 2^31 only: they keep their values in conversions, and nothing
// that is computed from them overflows.
std::optional<Steps> steps_of(const ir::Literal& literal) {
  const Dims& dims = literal.type.dims;
  const int64_t n = literal.type.size();
  if (n == 0 || !ir::is_integer(literal.type.dtype) || ir::byte_size(literal.type.dtype) < 4) return {};
  for (int64_t i = 0; i < (literal.splat ? 1 : n); ++i)
    if (const int64_t x = ir::to_int(literal, i); x < -kMostKnown || x > kMostKnown) return {};
  const Dims strides = strides_of(dims);
  Steps steps{ir::to_int(literal, 0), Dims(dims.size(), 0)};
  for (size_t k = 0; k < dims.size(); ++k)
    if (dims[k] > 1) steps.along[k] = ir::to_int(literal, literal.splat ? 0 : strides[k]) - steps.first;
  for (int64_t i = 0; i < n && !literal.splat; ++i) {
    int64_t expected = steps.first;
    for (size_t k = 0; k < dims.size(); ++k) expected += i / strides[k] % dims[k] * steps.along[k];
    if (ir::to_int(literal, i) != expected) return {};
  }
  return steps;
}

}  // namespace

std::string Emitter::within(const Index& index, int64_t extent) {
  auto [low, high] = space_.range(index);
  std::string text;
  if (low < 0) text = "(" + space_.text(index) + ") >= 0";
  if (high >= extent) text += (text.empty() ? "(" : " && (") + space_.text(index) + ") < " + std::to_string(extent);
  return text;
}

Index Emitter::guarded(const Index& index, int64_t extent) {
  auto [low, high] = space_.range(index);
  if (low >= 0 && high < extent) return index;
  int depth = space_.depth(index);
  std::string name = fresh("g");
  const std::string text = "const int64_t " + name + " = " + space_.text(index) + ";";
  const bool before = hoists_ && is_before(index);
  before ? statement_before(text, depth) : statement(text, depth);
  const int atom = space_.add_atom({name, 0, extent - 1, depth, -1, 1});
  if (before) before_.insert(atom);
  return space_.var(atom);
}

std::optional<Index> Emitter::known_index(const ir::Value* value, const Index& at) {
  value = canonical(value);
  if (!value->def) return {};
  const ir::Op& op = *value->def;
  switch (op.code) {
    case ir::OpCode::Constant: {
      std::optional<Steps> steps = steps_of(*op.attrs.literal("value"));
      if (!steps) return {};
      Index index(steps->first);
      const std::vector<Index> parts = space_.unflatten(at, op.result()->type.dims);
      for (size_t k = 0; k < parts.size(); ++k) index = index + parts[k] * steps->along[k];
      return index;
    }
    case ir::OpCode::Iota:
      return iota_index(op, at);
    case ir::OpCode::Convert: {
      const ir::DType from = op.operand(0)->type.dtype, to = op.result()->type.dtype;
      if (!ir::is_integer(from) || !ir::is_integer(to) || ir::byte_size(to) < 4) return {};
      return known_index(op.operand(0), at);
    }
    default:
      return {};
  }
}

Index Emitter::clamped_index(const ir::Value* value, const Index& at, int64_t high) {
  if (high == 0) return Index();
  if (std::optional<Index> known = known_index(value, at)) {
    auto [least, most] = space_.range(*known);
    if (least >= 0 && most <= high) return *known;
  }
  Scalar x = pull(value, at);
  std::string name = fresh("s"), wide = "s_convert<int64_t>(" + x.text + ")";
  if (value->type.dtype == ir::DType::U64) wide = "s_convert<int64_t>(s_min(" + x.text + ", (uint64_t)" + std::to_string(high) + "))";
  statement("const int64_t " + name + " = s_min(s_max(" + wide + ", (int64_t)0), (int64_t)" + std::to_string(high) + ");", x.depth);
  return space_.var(space_.add_atom({name, 0, high, x.depth, -1, 1}));
}

Scalar Emitter::broadcast(const ir::Op& op, const Index& at) {
  const ir::Value* operand = op.operand(0);
  const Dims &from = operand->type.dims, &to = op.result()->type.dims, &dims = op.attrs.ints("broadcast_dimensions");
  if (operand->type.size() == 1) return pull(operand, Index());
  // Runs of result dims that come unchanged from adjacent operand dims, or are repeated, are taken together.
  std::vector<int64_t> source(to.size(), -1);
  for (size_t i = 0; i < dims.size(); ++i)
    if (from[i] != 1) source[dims[i]] = static_cast<int64_t>(i);
  Dims runs;
  std::vector<int64_t> origin;
  for (size_t k = 0; k < to.size(); ++k) {
    if (to[k] == 1) continue;
    bool joins = !runs.empty() && ((source[k] < 0) == (origin.back() < 0));
    if (joins && source[k] >= 0) {
      joins = source[k] > origin.back();
      for (int64_t between = origin.back() + 1; between < source[k]; ++between) joins &= from[between] == 1;
    }
    if (joins) {
      runs.back() *= to[k];
      if (source[k] >= 0) origin.back() = source[k];
    } else {
      runs.push_back(to[k]);
      origin.push_back(source[k]);
    }
  }
  std::vector<Index> parts = space_.unflatten(at, runs);
  Dims strides = strides_of(from);
  Index linear;
  for (size_t r = 0; r < runs.size(); ++r)
    if (origin[r] >= 0) linear = linear + parts[r] * strides[origin[r]];
  return pull(operand, linear);
}

Scalar Emitter::transpose(const ir::Op& op, const Index& at) {
  const ir::Value* operand = op.operand(0);
  const Dims &from = operand->type.dims, &to = op.result()->type.dims, &permutation = op.attrs.ints("permutation");
  Dims strides = strides_of(from), runs;
  std::vector<int64_t> last;  // operand dim that ends the run
  for (size_t k = 0; k < to.size(); ++k) {
    if (to[k] == 1) continue;
    bool joins = !runs.empty() && permutation[k] > last.back();
    if (joins)
      for (int64_t between = last.back() + 1; between < permutation[k]; ++between) joins &= from[between] == 1;
    if (joins) {
      runs.back() *= to[k];
      last.back() = permutation[k];
    } else {
      runs.push_back(to[k]);
      last.push_back(permutation[k]);
    }
  }
  std::vector<Index> parts = space_.unflatten(at, runs);
  Index linear;
  for (size_t r = 0; r < runs.size(); ++r) linear = linear + parts[r] * strides[last[r]];
  return pull(operand, linear);
}

Scalar Emitter::slice(const ir::Op& op, const Index& at) {
  const ir::Value* operand = op.operand(0);
  const Dims &from = operand->type.dims, &to = op.result()->type.dims, &start = op.attrs.ints("start_indices");
  const Dims stride = op.attrs.ints("strides", Dims(from.size(), 1));
  // A dim that is taken whole joins the one before it when that moves by whole steps.
  Dims runs, first, step, unit;
  Dims strides = strides_of(from);
  for (size_t k = 0; k < to.size(); ++k) {
    bool whole = to[k] == from[k] && start[k] == 0 && stride[k] == 1;
    if (whole && !runs.empty() && step.back() == 1) {
      runs.back() *= to[k];
      first.back() *= to[k];
      unit.back() = strides[k];
    } else {
      runs.push_back(to[k]), first.push_back(start[k]), step.push_back(stride[k]), unit.push_back(strides[k]);
    }
  }
  std::vector<Index> parts = space_.unflatten(at, runs);
  Index linear;
  for (size_t r = 0; r < runs.size(); ++r) linear = linear + (parts[r] * step[r] + Index(first[r])) * unit[r];
  return pull(operand, linear);
}

Scalar Emitter::reverse(const ir::Op& op, const Index& at) {
  const ir::Value* operand = op.operand(0);
  const Dims &dims = operand->type.dims, &reversed = op.attrs.ints("dimensions");
  std::vector<Index> parts = space_.unflatten(at, dims);
  for (int64_t d : reversed) parts[d] = parts[d] * -1 + Index(dims[d] - 1);
  return pull(operand, flatten(parts, dims));
}

Scalar Emitter::concatenate(const ir::Op& op, const Index& at) {
  const int64_t dim = op.attrs.integer("dimension");
  const Dims& dims = op.result()->type.dims;
  int64_t inner = 1, outer = 1;
  for (size_t k = 0; k < dims.size(); ++k) (static_cast<int64_t>(k) < dim ? outer : inner) *= static_cast<int64_t>(k) == dim ? 1 : dims[k];
  std::vector<Index> parts = space_.unflatten(at, {outer, dims[dim], inner});
  std::vector<const ir::Value*> pieces;
  bool equal = true;
  for (const ir::Value* operand : op.operands)
    if (operand->type.size() > 0) pieces.push_back(operand), equal &= operand->type.dims[dim] == pieces[0]->type.dims[dim];
  std::string type = scalar_type(op.result()->type.dtype);
  if (equal && pieces.size() > 1) {
    const int64_t size = pieces[0]->type.dims[dim];
    auto [which, within_piece] = space_.div_mod(parts[1], size);
    Index index = flatten({parts[0], within_piece, parts[2]}, {outer, size, inner});
    std::function<Scalar(size_t)> from = [&](size_t i) -> Scalar {
      if (i + 1 == pieces.size()) return pull(pieces[i], index);
      auto [low, high] = space_.range(which);
      if (low == high) return pull(pieces[low], index);
      return conditional(
          type, {"(" + space_.text(which) + ") == " + std::to_string(i), space_.depth(which)}, [&] { return pull(pieces[i], index); },
          [&] { return from(i + 1); });
    };
    return from(0);
  }
  auto [low, high] = space_.range(parts[1]);
  std::function<Scalar(size_t, int64_t)> from = [&](size_t i, int64_t begin) -> Scalar {
    const int64_t size = pieces[i]->type.dims[dim], end = begin + size;
    auto element = [&, begin, size] { return pull(pieces[i], flatten({parts[0], guarded(parts[1] + Index(-begin), size), parts[2]}, {outer, size, inner})); };
    if (i + 1 == pieces.size() || high < end) return element();
    if (low >= end) return from(i + 1, end);
    return conditional(type, {"(" + space_.text(parts[1]) + ") < " + std::to_string(end), space_.depth(parts[1])}, element, [&] { return from(i + 1, end); });
  };
  return from(0, 0);
}

Scalar Emitter::pad(const ir::Op& op, const Index& at) {
  const ir::Value* operand = op.operand(0);
  const Dims &from = operand->type.dims, &to = op.result()->type.dims;
  const Dims &low = op.attrs.ints("edge_padding_low"), &interior = op.attrs.ints("interior_padding"), &high = op.attrs.ints("edge_padding_high");
  if (operand->type.size() == 0) return pull(op.operand(1), Index());
  Dims runs;
  std::vector<int64_t> of(to.size());
  for (size_t k = 0; k < to.size(); ++k) {  // untouched dims join the untouched one before them
    bool same = low[k] == 0 && high[k] == 0 && interior[k] == 0;
    bool before = k > 0 && low[k - 1] == 0 && high[k - 1] == 0 && interior[k - 1] == 0;
    if (same && before) {
      runs.back() *= to[k];
    } else {
      runs.push_back(to[k]);
    }
    of[k] = static_cast<int64_t>(runs.size()) - 1;
  }
  std::vector<Index> parts = space_.unflatten(at, runs);
  std::string condition;
  int depth = 0;
  Dims source_runs(runs.size(), 1);
  std::vector<std::function<Index()>> source(runs.size());
  auto also = [&](const std::string& text, const Index& index) {
    if (text.empty()) return;
    condition += (condition.empty() ? "" : " && ") + text;
    depth = std::max(depth, space_.depth(index));
  };
  for (size_t k = 0; k < to.size(); ++k) {
    size_t r = of[k];
    source_runs[r] *= from[k];
    if (low[k] == 0 && high[k] == 0 && interior[k] == 0) {
      source[r] = [&, r] { return parts[r]; };
      continue;
    }
    Index shifted = parts[r] + Index(-low[k]);
    const int64_t step = interior[k] + 1, span = (from[k] - 1) * step + 1, n = from[k];
    also(within(shifted, span), shifted);
    if (step > 1) also("(" + space_.text(shifted) + ") % " + std::to_string(step) + " == 0", shifted);
    source[r] = [this, shifted, span, step, n] { return step == 1 ? guarded(shifted, n) : space_.div_mod(guarded(shifted, span), step).first; };
  }
  auto element = [&] {
    std::vector<Index> indices;
    for (auto& s : source) indices.push_back(s());
    return pull(operand, flatten(indices, source_runs));
  };
  if (condition.empty()) return element();
  return conditional(scalar_type(op.result()->type.dtype), {condition, depth}, element, [&] { return pull(op.operand(1), Index()); });
}

Scalar Emitter::dynamic_slice(const ir::Op& op, const Index& at) {
  const ir::Value* operand = op.operand(0);
  const Dims &from = operand->type.dims, &to = op.result()->type.dims;
  std::vector<Index> parts = space_.unflatten(at, to);
  for (size_t k = 0; k < to.size(); ++k) parts[k] = parts[k] + clamped_index(op.operand(k + 1), Index(), from[k] - to[k]);
  return pull(operand, flatten(parts, from));
}

Scalar Emitter::dynamic_update_slice(const ir::Op& op, const Index& at) {
  const ir::Value *operand = op.operand(0), *update = op.operand(1);
  const Dims &dims = operand->type.dims, &sizes = update->type.dims;
  if (update->type.size() == 0) return pull(operand, at);
  std::vector<Index> parts = space_.unflatten(at, dims), shifted = parts;
  std::string condition;
  int depth = 0;
  for (size_t k = 0; k < dims.size(); ++k) {
    shifted[k] = parts[k] + clamped_index(op.operand(k + 2), Index(), dims[k] - sizes[k]) * -1;
    std::string text = within(shifted[k], sizes[k]);
    if (text.empty()) continue;
    condition += (condition.empty() ? "" : " && ") + text;
    depth = std::max(depth, space_.depth(shifted[k]));
  }
  auto replaced = [&] {
    std::vector<Index> inside;
    for (size_t k = 0; k < dims.size(); ++k) inside.push_back(guarded(shifted[k], sizes[k]));
    return pull(update, flatten(inside, sizes));
  };
  if (condition.empty()) return replaced();
  return conditional(scalar_type(op.result()->type.dtype), {condition, depth}, replaced, [&] { return pull(operand, at); });
}

Scalar Emitter::gather(const ir::Op& op, const Index& at) {
  const ir::Value *operand = op.operand(0), *indices = op.operand(1);
  const ir::GatherDims d = ir::gather_dims(op.attrs);
  const Dims &from = operand->type.dims, &to = op.result()->type.dims, &sizes = op.attrs.ints("slice_sizes");
  auto has = [](const Dims& list, int64_t v) { return std::find(list.begin(), list.end(), v) != list.end(); };
  std::vector<Index> parts = space_.unflatten(at, to), batch, offset;
  for (size_t k = 0; k < to.size(); ++k) (has(d.offset_dims, static_cast<int64_t>(k)) ? offset : batch).push_back(parts[k]);
  // The position in the indices tensor of component c.
  const Dims& index_dims = indices->type.dims;
  auto index_at = [&](int64_t c) {
    std::vector<Index> where = batch;
    if (d.index_vector_dim < static_cast<int64_t>(index_dims.size())) where.insert(where.begin() + d.index_vector_dim, Index(c));
    return flatten(where, index_dims);
  };
  std::vector<Index> source(from.size());
  size_t next = 0;
  for (size_t k = 0; k < from.size(); ++k)
    if (!has(d.collapsed_slice_dims, static_cast<int64_t>(k)) && !has(d.operand_batching_dims, static_cast<int64_t>(k))) source[k] = offset[next++];
  for (size_t c = 0; c < d.start_index_map.size(); ++c) {
    int64_t k = d.start_index_map[c];
    source[k] = source[k] + clamped_index(indices, index_at(static_cast<int64_t>(c)), from[k] - sizes[k]);
  }
  for (size_t b = 0; b < d.operand_batching_dims.size(); ++b) {
    int64_t position = d.start_indices_batching_dims[b];
    source[d.operand_batching_dims[b]] = batch[position > d.index_vector_dim ? position - 1 : position];
  }
  return pull(operand, flatten(source, from));
}

Scalar Emitter::window(const ir::Op& op, const Index& at) {
  const ir::Value *operand = op.operand(0), *init = op.operand(1);
  const Dims &from = operand->type.dims, &to = op.result()->type.dims;
  const ir::Window w = ir::window_of(op.attrs, operand->type.rank());
  const std::string type = scalar_type(op.result()->type.dtype);
  std::vector<Index> parts = space_.unflatten(at, to);
  Scalar total = pull(init, Index());
  Dims tap(from.size(), 0);
  while (true) {
    std::vector<Index> where;
    std::string condition;
    int depth = total.depth;
    bool never = false;
    for (size_t k = 0; k < from.size(); ++k) {
      Index shifted = parts[k] * w.stride[k] + Index(tap[k] * w.window_dilation[k] - w.pad_low[k]);
      const int64_t span = (from[k] - 1) * w.base_dilation[k] + 1;
      auto [low, high] = space_.range(shifted);
      never |= high < 0 || low >= span || from[k] == 0;
      std::string text = within(shifted, span);
      if (w.base_dilation[k] > 1) text += (text.empty() ? "(" : " && (") + space_.text(shifted) + ") % " + std::to_string(w.base_dilation[k]) + " == 0";
      if (!text.empty()) condition += (condition.empty() ? "" : " && ") + text, depth = std::max(depth, space_.depth(shifted));
      where.push_back(shifted);
    }
    auto element = [&] {
      std::vector<Index> source;
      for (size_t k = 0; k < from.size(); ++k) {
        Index inside = guarded(where[k], (from[k] - 1) * w.base_dilation[k] + 1);
        source.push_back(space_.div_mod(inside, w.base_dilation[k]).first);
      }
      const Scalar args[] = {total, pull(operand, flatten(source, from))};
      return apply(*op.regions[0], args)[0];
    };
    if (!never) total = condition.empty() ? element() : conditional(type, {condition, depth}, element, [&] { return total; });
    size_t k = tap.size();
    while (k > 0 && ++tap[k - 1] == w.size[k - 1]) tap[--k] = 0;
    if (k == 0) break;
  }
  return total;
}

}  // namespace thalweg::codegen
