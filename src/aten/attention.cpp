// scaled_dot_product_attention as one operation with a gradient: core's chooser has no slot for this device, its overrideable entry has the derivative.

#include "aten/backend_key.h"
#include "aten/dtypes.h"
#include "aten/registration.h"
#include "lazy/view.h"

namespace thalweg::aten {
namespace {

using at::Tensor;
using MaybeTensor = std::optional<Tensor>;

Tensor scores_of(const Tensor& q, const Tensor& k, const MaybeTensor& bias, bool causal, double scale) {
  Tensor scores = at::matmul(q, k.transpose(-2, -1)).mul(scale);
  if (bias) scores = scores + *bias;
  return causal ? scores.masked_fill(at::ones_like(scores, at::kBool).triu(1), -INFINITY) : scores;
}

// The same in PyTorch's own operations, for tensors that are not traced.
std::tuple<Tensor, Tensor> attention(const Tensor& q, const Tensor& k, const Tensor& v, const MaybeTensor& bias, bool causal, double scale) {
  const Tensor scores = scores_of(q, k, bias, causal, scale);
  return {at::matmul(at::_safe_softmax(scores, -1), v), at::logsumexp(scores, {-1})};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> attention_grad(const Tensor& dy, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& y,
                                                          const Tensor& logsumexp, const MaybeTensor& bias, bool causal, double scale, bool bias_grad) {
  const Tensor scores = scores_of(q, k, bias, causal, scale);
  const Tensor row = logsumexp.unsqueeze(-1).to(scores.scalar_type());
  const Tensor p = (scores - row).exp().masked_fill(row == -INFINITY, 0);
  const Tensor ds = p * (at::matmul(dy, v.transpose(-2, -1)) - (dy * y).sum(-1, true));
  return {at::matmul(ds, k).mul(scale), at::matmul(ds.transpose(-2, -1), q).mul(scale), at::matmul(p.transpose(-2, -1), dy),
          bias_grad ? at::sum_to(ds, bias->sizes()) : Tensor()};
}

template <class Signature>
auto typed(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

double scale_of(const Tensor& q, std::optional<double> scale) { return scale.value_or(1 / std::sqrt(static_cast<double>(q.size(-1)))); }

// Core's entry for backends outside of it.
std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor> overrideable(const Tensor& q, const Tensor& k, const Tensor& v,
                                                                                                          const MaybeTensor& bias, double dropout_p,
                                                                                                          bool causal, bool, std::optional<double> scale) {
  TORCH_CHECK(dropout_p == 0, "attention on device xla: this entry takes no dropout, got ", dropout_p, "; call scaled_dot_product_attention");
  static const auto op = typed<decltype(attention)>("thalweg::attention");
  auto [y, logsumexp] = op.call(q, k, v, bias, causal, scale_of(q, scale));
  return {y, logsumexp, Tensor(), Tensor(), q.sym_size(-2), k.sym_size(-2), Tensor(), Tensor(), Tensor()};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> overrideable_backward(const Tensor& dy, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias,
                                                                 std::array<bool, 4> wanted, const Tensor& y, const Tensor& logsumexp, const Tensor&,
                                                                 const Tensor&, c10::SymInt, c10::SymInt, double, bool causal, const Tensor&, const Tensor&,
                                                                 std::optional<double> scale) {
  static const auto op = typed<decltype(attention_grad)>("thalweg::attention_grad");
  return op.call(dy, q, k, v, y, logsumexp, bias.defined() ? MaybeTensor(bias) : std::nullopt, causal, scale_of(q, scale), bias.defined() && wanted[3]);
}

bool any_fused_allowed() {
  const auto& context = at::globalContext();
  return context.userEnabledFlashSDP() || context.userEnabledMemEfficientSDP() || context.userEnabledCuDNNSDP() || context.userEnabledOverrideableSDP();
}

bool is_plain(const Tensor& t, const Tensor& q) { return is_ours(t) && t.scalar_type() == q.scalar_type() && !t.is_neg() && !t._fw_grad(0).defined(); }

// True for what the composite means: equal batches, no dropout. Everything else, wrong shapes included, goes to core's own function.
bool is_fusable(const Tensor& q, const Tensor& k, const Tensor& v, const MaybeTensor& mask, double dropout_p, bool grouped) {
  if (!is_plain(q, q) || !is_plain(k, q) || !is_plain(v, q) || !q.is_floating_point() || dropout_p != 0 || grouped || !any_fused_allowed()) return false;
  const int64_t rank = q.dim();
  if (rank < 3 || rank > lazy::kMaxRank || k.dim() != rank || v.dim() != rank || q.numel() == 0 || k.numel() == 0 || v.numel() == 0) return false;
  for (int64_t d = 0; d < rank - 2; ++d)
    if (q.size(d) != k.size(d) || q.size(d) != v.size(d)) return false;
  if (q.size(-1) != k.size(-1) || k.size(-2) != v.size(-2)) return false;
  if (!mask || !mask->defined()) return true;
  if (!is_ours(*mask) || (mask->scalar_type() != at::kBool && mask->scalar_type() != q.scalar_type()) || mask->dim() > rank) return false;
  for (int64_t d = 1; d <= mask->dim(); ++d) {
    const int64_t wanted = d == 1 ? k.size(-2) : q.size(-d);
    if (mask->size(-d) != wanted && mask->size(-d) != 1) return false;
  }
  return !mask->_fw_grad(0).defined();
}

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v, const MaybeTensor& mask, double dropout_p, bool causal,
                                    std::optional<double> scale, bool grouped) {
  const bool masked = mask && mask->defined();
  if ((masked && causal) || !is_fusable(q, k, v, mask, dropout_p, grouped)) {
    return at::native::scaled_dot_product_attention(q, k, v, mask, dropout_p, causal, scale, grouped);
  }
  MaybeTensor bias;
  if (masked) bias = mask->scalar_type() == at::kBool ? at::zeros_like(*mask, q.options()).masked_fill(mask->logical_not(), -INFINITY) : *mask;
  return std::get<0>(at::_scaled_dot_product_fused_attention_overrideable(q, k, v, bias, 0, causal, false, scale));
}

}  // namespace

void register_attention() {
  auto& ours = new_library(torch::Library::FRAGMENT, "thalweg", std::nullopt);
  ours.def("attention(Tensor q, Tensor k, Tensor v, Tensor? bias, bool causal, float scale) -> (Tensor, Tensor)");
  ours.def(
      "attention_grad(Tensor dy, Tensor q, Tensor k, Tensor v, Tensor y, Tensor logsumexp, Tensor? bias, bool causal, float scale, bool bias_grad) -> "
      "(Tensor, Tensor, Tensor, Tensor)");
  auto& host = new_library(torch::Library::IMPL, "thalweg", c10::DispatchKey::CPU);
  host.impl("attention", &attention);
  host.impl("attention_grad", &attention_grad);
  auto& device = new_library(torch::Library::IMPL, "aten", kKey);
  device.impl("_scaled_dot_product_fused_attention_overrideable", &overrideable);
  device.impl("_scaled_dot_product_fused_attention_overrideable_backward", &overrideable_backward);
  device.impl("scaled_dot_product_attention", &scaled_dot_product_attention);
  new_library(torch::Library::IMPL, "aten", kAutogradKey).impl("scaled_dot_product_attention", &scaled_dot_product_attention);
}

}  // namespace thalweg::aten
