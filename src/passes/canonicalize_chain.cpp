// Chains of reshapes and transposes: at most one reshape, one transpose and one reshape say the same.
#include <algorithm>
#include <numeric>
#include <optional>

#include "passes/canonicalize_rules.h"

namespace thalweg::passes {
namespace {

using ir::Builder;
using ir::Dims;
using ir::Op;
using ir::OpCode;
using ir::Value;

// Part of a dim: `size` steps of `stride` elements in the root's row-major order.
struct Factor {
  int64_t stride, size;
};
using Factors = std::vector<Factor>;

bool is_link(const Value* value) { return made_by(value, OpCode::Reshape) || made_by(value, OpCode::Transpose); }

std::vector<Factors> of_shape(const Dims& dims) {
  std::vector<Factors> all(dims.size());
  int64_t stride = 1;
  for (size_t d = dims.size(); d-- > 0;) {
    if (dims[d] != 1) all[d] = {{stride, dims[d]}};
    stride *= dims[d];
  }
  return all;
}

Factors flatten(const std::vector<Factors>& dims) {
  Factors all;
  for (const Factors& factors : dims) all.insert(all.end(), factors.begin(), factors.end());
  return all;
}

// The factors dealt out to dims of these sizes; nothing when a boundary falls inside of a factor that it does not divide.
std::optional<std::vector<Factors>> deal(Factors factors, const Dims& dims) {
  std::reverse(factors.begin(), factors.end());  // taken from the back
  std::vector<Factors> dealt(dims.size());
  for (size_t d = 0; d < dims.size(); ++d) {
    for (int64_t left = dims[d]; left != 1;) {
      Factor f = factors.back();
      factors.pop_back();
      if (left % f.size == 0) {
        dealt[d].push_back(f);
        left /= f.size;
      } else if (f.size % left == 0) {
        int64_t inner = f.size / left;
        dealt[d].push_back({f.stride * inner, left});
        factors.push_back({f.stride, inner});
        left = 1;
      } else {
        return std::nullopt;
      }
    }
  }
  return dealt;
}

// Neighbours that lie one inside the other in the root are one factor.
Factors merged(const Factors& factors) {
  Factors result;
  for (const Factor& f : factors) {
    if (!result.empty() && result.back().stride == f.stride * f.size)
      result.back() = {f.stride, result.back().size * f.size};
    else
      result.push_back(f);
  }
  return result;
}

// The value `op` gives, as factors of the chain's root in order.
std::optional<Factors> trace(const Value* root, std::vector<const Op*> chain) {
  std::vector<Factors> dims = of_shape(root->type.dims);
  for (; !chain.empty(); chain.pop_back()) {
    const Op& op = *chain.back();
    if (op.code == OpCode::Transpose) {
      std::vector<Factors> moved;
      for (int64_t d : op.attrs.ints("permutation")) moved.push_back(dims[static_cast<size_t>(d)]);
      dims = std::move(moved);
    } else {
      auto dealt = deal(merged(flatten(dims)), op.result()->type.dims);
      if (!dealt) return std::nullopt;
      dims = std::move(*dealt);
    }
  }
  return merged(flatten(dims));
}

}  // namespace

Replacement simplify_chain(Builder& b, Op& op) {
  if ((op.code != OpCode::Reshape && op.code != OpCode::Transpose) || op.result()->type.size() == 0 || !is_link(op.operand(0))) return {};
  std::vector<const Op*> chain{&op};
  Value* root = op.operand(0);
  for (; is_link(root); root = root->def->operand(0)) chain.push_back(root->def);
  auto factors = trace(root, chain);
  if (!factors) return {};
  // The root's dims cut into the factors, and where each of them goes.
  Dims order(factors->size()), cut, permutation(factors->size()), moved;
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t x, int64_t y) { return (*factors)[static_cast<size_t>(x)].stride > (*factors)[static_cast<size_t>(y)].stride; });
  for (size_t i = 0; i < order.size(); ++i) {
    permutation[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
    cut.push_back((*factors)[static_cast<size_t>(order[i])].size);
  }
  for (const Factor& f : *factors) moved.push_back(f.size);
  bool in_order = std::is_sorted(permutation.begin(), permutation.end());
  const Dims& to = op.result()->type.dims;
  size_t steps = in_order ? (root->type.dims != to) : 1 + (root->type.dims != cut) + (moved != to);
  if (steps >= chain.size()) return {};
  return {b.reshape(in_order ? root : b.transpose(b.reshape(root, cut), permutation), to)};
}

}  // namespace thalweg::passes
