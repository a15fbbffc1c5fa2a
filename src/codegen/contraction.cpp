// Elements of products, convolutions and windows.
#include "codegen/contraction.h"

#include "codegen/scalar_text.h"
#include "ir/dimension_numbers.h"
#include "support/error.h"

namespace thalweg::codegen {
namespace {

using ir::Dims;
using ir::OpCode;

// The type that products are summed in: the result's, float for 16-bit floats.
std::string sum_type(const ir::Op& op) { return Reducer{OpCode::Add, op.result()->type.dtype}.memory_type(); }

Scalar product(Emitter& e, const ir::Op& op, const Scalar& a, const Scalar& b) {
  const std::string type = sum_type(op);
  auto wide = [&](const Scalar& x) { return "s_convert<" + type + ">(" + x.text + ")"; };
  return e.define(type, "s_mul(" + wide(a) + ", " + wide(b) + ")", std::max(a.depth, b.depth));
}

Scalar dot_element(Emitter& e, const ir::Op& op, const Index& out, const std::vector<Index>& inner) {
  const ir::DotDims d = ir::dot_dims(op.attrs);
  const ir::Value *lhs = op.operand(0), *rhs = op.operand(1);
  std::vector<Index> at = e.space().unflatten(out, op.result()->type.dims);
  size_t next = d.lhs_batch.size();
  auto place = [&](const ir::Value* side, const Dims& batch, const Dims& contract) {
    std::vector<Index> index(side->type.dims.size());
    std::vector<bool> done(index.size(), false);
    for (size_t i = 0; i < batch.size(); ++i) index[batch[i]] = at[i], done[batch[i]] = true;
    for (size_t i = 0; i < contract.size(); ++i) index[contract[i]] = inner[i], done[contract[i]] = true;
    for (size_t k = 0; k < index.size(); ++k)
      if (!done[k]) index[k] = at[next++];
    return flatten(index, side->type.dims);
  };
  Index left = place(lhs, d.lhs_batch, d.lhs_contract), right = place(rhs, d.rhs_batch, d.rhs_contract);
  Scalar a = e.pull(lhs, left), b = e.pull(rhs, right);
  return product(e, op, a, b);
}

std::string joined(std::string conditions, const std::string& more) { return conditions + (conditions.empty() ? "" : " && ") + more; }

Scalar conv_element(Emitter& e, const ir::Op& op, const Index& out, const std::vector<Index>& inner) {
  const ir::ConvDims d = ir::conv_dims(op.attrs);
  const ir::Value *input = op.operand(0), *kernel = op.operand(1);
  const Dims &in = input->type.dims, &k = kernel->type.dims, &result = op.result()->type.dims;
  IndexSpace& space = e.space();
  std::vector<Index> at = space.unflatten(out, result), source(in.size()), tap(k.size());
  const Index& channel = inner.back();
  const int64_t out_features = result[d.output_feature], kernel_inputs = k[d.kernel_input];
  const Index &feature = at[d.output_feature], &batch = at[d.output_batch];
  source[d.input_feature] = channel;
  if (d.feature_groups > 1) {
    Index group = space.div_mod(feature, out_features / d.feature_groups).first;
    source[d.input_feature] = group * kernel_inputs + channel;
  }
  source[d.input_batch] = batch;
  if (d.batch_groups > 1) source[d.input_batch] = space.div_mod(feature, out_features / d.batch_groups).first * (in[d.input_batch] / d.batch_groups) + batch;
  tap[d.kernel_input] = channel;
  tap[d.kernel_output] = feature;
  std::string condition;
  int depth = 0;
  std::vector<Index> shifted(d.input_spatial.size());
  for (size_t s = 0; s < d.input_spatial.size(); ++s) {
    const int64_t size = k[d.kernel_spatial[s]], extent = in[d.input_spatial[s]];
    const bool reversed = !d.reversal.empty() && d.reversal[s];
    tap[d.kernel_spatial[s]] = reversed ? inner[s] * -1 + Index(size - 1) : inner[s];
    shifted[s] = at[d.output_spatial[s]] * d.stride[s] + inner[s] * d.rhs_dilation[s] + Index(-d.pad_low[s]);
    auto [low, high] = space.range(shifted[s]);
    const int64_t span = (extent - 1) * d.lhs_dilation[s] + 1;
    const std::string text = "(" + space.text(shifted[s]) + ")";
    depth = std::max(depth, space.depth(shifted[s]));
    if (low < 0) condition = joined(condition, text + " >= 0");
    if (high >= span) condition = joined(condition, text + " < " + std::to_string(span));
    if (d.lhs_dilation[s] > 1) condition = joined(condition, text + " % " + std::to_string(d.lhs_dilation[s]) + " == 0");
  }
  auto element = [&] {
    for (size_t s = 0; s < shifted.size(); ++s)
      source[d.input_spatial[s]] = space.div_mod(e.guarded(shifted[s], (in[d.input_spatial[s]] - 1) * d.lhs_dilation[s] + 1), d.lhs_dilation[s]).first;
    Scalar a = e.pull(input, flatten(source, in)), b = e.pull(kernel, flatten(tap, k));
    return product(e, op, a, b);
  };
  if (condition.empty()) return element();
  return e.conditional(sum_type(op), {condition, depth}, element, [&] { return Scalar{"s_convert<" + sum_type(op) + ">(0)", 0}; });
}

std::vector<Scalar> window_elements(Emitter& e, const ir::Op& op, const Index& out, const std::vector<Index>& inner) {
  const size_t n = op.results.size();
  const Dims& from = op.operand(0)->type.dims;
  const ir::Window w = ir::window_of(op.attrs, static_cast<int64_t>(from.size()));
  IndexSpace& space = e.space();
  std::vector<Index> at = space.unflatten(out, op.result()->type.dims), shifted(from.size());
  std::string condition;
  int depth = 0;
  for (size_t k = 0; k < from.size(); ++k) {
    shifted[k] = at[k] * w.stride[k] + inner[k] * w.window_dilation[k] + Index(-w.pad_low[k]);
    auto [low, high] = space.range(shifted[k]);
    const int64_t span = (from[k] - 1) * w.base_dilation[k] + 1;
    const std::string text = "(" + space.text(shifted[k]) + ")";
    depth = std::max(depth, space.depth(shifted[k]));
    if (low < 0) condition = joined(condition, text + " >= 0");
    if (high >= span) condition = joined(condition, text + " < " + std::to_string(span));
    if (w.base_dilation[k] > 1) condition = joined(condition, text + " % " + std::to_string(w.base_dilation[k]) + " == 0");
  }
  std::vector<Scalar> elements;
  for (size_t i = 0; i < n; ++i) {
    auto element = [&] {
      std::vector<Index> source(from.size());
      for (size_t k = 0; k < from.size(); ++k)
        source[k] = space.div_mod(e.guarded(shifted[k], (from[k] - 1) * w.base_dilation[k] + 1), w.base_dilation[k]).first;
      return e.pull(op.operand(i), flatten(source, from));
    };
    Scalar x = condition.empty()
                   ? element()
                   : e.conditional(scalar_type(op.result(i)->type.dtype), {condition, depth}, element, [&] { return e.pull(op.operand(n + i), Index()); });
    elements.push_back(x);
  }
  return elements;
}

}  // namespace

std::vector<Scalar> contraction_elements(Emitter& emitter, const ir::Op& op, const Index& out, const std::vector<Index>& inner) {
  switch (op.code) {
    case OpCode::DotGeneral:
      return {dot_element(emitter, op, out, inner)};
    case OpCode::Convolution:
      return {conv_element(emitter, op, out, inner)};
    default:
      return window_elements(emitter, op, out, inner);
  }
}

std::optional<Reducer> contraction_reducer(const ir::Op& op) {
  if (op.code != OpCode::ReduceWindow) return Reducer{OpCode::Add, op.result()->type.dtype};
  if (op.results.size() != 1) return {};
  return reducer_of(*op.regions[0]);
}

}  // namespace thalweg::codegen
