// Autocast on the device: the cast lists are CUDA's, taken from PyTorch's own.
#include "aten/registration.h"

// PyTorch's wrappers are macros over the device type and an `m` to register with.
#define THALWEG_LOWER(...) KERNEL(::thalweg::aten::kDeviceType, __VA_ARGS__, lower_precision_fp)
#define THALWEG_FP32(...) KERNEL(::thalweg::aten::kDeviceType, __VA_ARGS__, fp32)
#define THALWEG_FP32_DTYPE(...) KERNEL(::thalweg::aten::kDeviceType, __VA_ARGS__, fp32_set_opt_dtype)
#define THALWEG_PROMOTE(...) KERNEL(::thalweg::aten::kDeviceType, __VA_ARGS__, promote)
#define THALWEG_APPEND(function, name, registered, redispatched, policy) \
  KERNEL_DIFFERENT_REDISPATCH_SIGNATURE(::thalweg::aten::kDeviceType, function, name, registered, redispatched, policy)

namespace thalweg::aten {
namespace {

at::Tensor refuse_binary_cross_entropy(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&, int64_t) {
  TORCH_CHECK(
      false,
      "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast. Use binary_cross_entropy_with_logits or BCEWithLogitsLoss, "
      "which are, or switch autocast off around this loss.");
}

}  // namespace

void register_autocast() {
  using namespace at;  // the lists name types of at::
  auto& fallthrough = new_library(torch::Library::IMPL, "_", kAutocastKey);
  fallthrough.fallback(torch::CppFunction::makeFallthrough());
  auto& m = new_library(torch::Library::IMPL, "aten", kAutocastKey);
  AT_FORALL_LOWER_PRECISION_FP(THALWEG_LOWER)
  AT_FORALL_FP32(THALWEG_FP32)
  AT_FORALL_FP32_SET_OPT_DTYPE(THALWEG_FP32_DTYPE)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(THALWEG_APPEND)
  AT_FORALL_PROMOTE(THALWEG_PROMOTE)
  m.impl("binary_cross_entropy", &refuse_binary_cross_entropy);
}

}  // namespace thalweg::aten
