// Result shapes of the operations that have no meta kernel in PyTorch.
#include <ATen/OpMathType.h>

#include <unordered_map>

#include "aten/dtypes.h"
#include "aten/meta_run.h"

namespace thalweg::aten {
namespace {

bool is_channels_last(const at::Tensor& tensor) {
  const auto format = tensor.suggest_memory_format();
  return tensor.numel() > 0 && (format == c10::MemoryFormat::ChannelsLast || format == c10::MemoryFormat::ChannelsLast3d);
}

c10::MemoryFormat convolution_format(const at::Tensor& input, const at::Tensor& weight) {
  if (!is_channels_last(input) && !is_channels_last(weight)) return c10::MemoryFormat::Contiguous;
  return input.dim() == 5 ? c10::MemoryFormat::ChannelsLast3d : c10::MemoryFormat::ChannelsLast;
}

ResultSpec spec(c10::IntArrayRef sizes, c10::ScalarType type, c10::MemoryFormat format) { return spec_of(at::detail::empty_meta(sizes, type, format)); }

ResultSpec masked_spec(bool wanted, const at::Tensor& like, c10::MemoryFormat format) {
  return wanted ? spec(like.sizes(), like.scalar_type(), format) : ResultSpec();
}

std::vector<int64_t> ints(const c10::IValue& value) { return value.toIntVector(); }

// convolution_overrideable(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
ResultSpecs convolution(const c10::IValue* a) {
  const at::Tensor& input = a[0].toTensor();
  const at::Tensor& weight = a[1].toTensor();
  const auto stride = ints(a[3]), padding = ints(a[4]), dilation = ints(a[5]), output_padding = ints(a[7]);
  const bool transposed = a[6].toBool();
  const int64_t groups = a[8].toInt();
  std::vector<int64_t> sizes = {input.size(0), transposed ? weight.size(1) * groups : weight.size(0)};
  for (int64_t i = 2; i < input.dim(); ++i) {
    const size_t d = static_cast<size_t>(i - 2);
    const int64_t reach = dilation[d] * (weight.size(i) - 1);
    sizes.push_back(transposed ? (input.size(i) - 1) * stride[d] - 2 * padding[d] + reach + output_padding[d] + 1
                               : (input.size(i) + 2 * padding[d] - reach - 1) / stride[d] + 1);
  }
  ResultSpecs out;
  out.returns = {-1};
  out.flat = {spec(sizes, input.scalar_type(), convolution_format(input, weight))};
  return out;
}

// convolution_backward_overrideable(grad_output, input, weight, stride, padding, dilation, transposed, output_padding, groups, output_mask)
ResultSpecs convolution_backward(const c10::IValue* a) {
  const at::Tensor& grad = a[0].toTensor();
  const at::Tensor& input = a[1].toTensor();
  const at::Tensor& weight = a[2].toTensor();
  const auto mask = a[9].toBoolList();
  const auto format = convolution_format(input, weight);
  ResultSpecs out;
  out.returns = {-1, -1, -1};
  out.flat = {masked_spec(mask[0], input, format), masked_spec(mask[1], weight, format),
              mask[2] ? spec({grad.size(1)}, grad.scalar_type(), c10::MemoryFormat::Contiguous) : ResultSpec()};
  return out;
}

// attention(q, k, v, …) → y, logsumexp
ResultSpecs attention(const c10::IValue* a) {
  const at::Tensor &q = a[0].toTensor(), &v = a[2].toTensor();
  std::vector<int64_t> sizes = q.sizes().vec();
  sizes.pop_back();
  const auto rows = spec(sizes, at::toOpMathType(q.scalar_type()), c10::MemoryFormat::Contiguous);
  sizes.push_back(v.size(-1));
  ResultSpecs out;
  out.returns = {-1, -1};
  out.flat = {spec(sizes, q.scalar_type(), c10::MemoryFormat::Contiguous), rows};
  return out;
}

// attention_grad(dy, q, k, v, y, logsumexp, bias, causal, scale, bias_grad) → dq, dk, dv, dbias
ResultSpecs attention_grad(const c10::IValue* a) {
  ResultSpecs out;
  out.returns = {-1, -1, -1, -1};
  for (int i = 1; i <= 3; ++i) out.flat.push_back(masked_spec(true, a[i].toTensor(), c10::MemoryFormat::Contiguous));
  out.flat.push_back(a[9].toBool() ? masked_spec(true, a[6].toTensor(), c10::MemoryFormat::Contiguous) : ResultSpec());
  return out;
}

}  // namespace

ShapeRule find_shape_rule(const std::string& row) {
  static const std::unordered_map<std::string, ShapeRule> rules = {
      {"aten::convolution_overrideable", &convolution},
      {"aten::convolution_backward_overrideable", &convolution_backward},
      {"thalweg::attention", &attention},
      {"thalweg::attention_grad", &attention_grad},
  };
  const auto at = rules.find(row);
  return at == rules.end() ? nullptr : at->second;
}

}  // namespace thalweg::aten
