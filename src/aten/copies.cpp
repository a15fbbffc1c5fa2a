// Copies between and on devices, and reads of single values.
#include "aten/backend_key.h"
#include "aten/device_storage.h"
#include "aten/dtypes.h"
#include "aten/errors.h"
#include "aten/host_access.h"
#include "aten/registration.h"
#include "aten/tracer.h"
#include "lazy/session.h"

namespace thalweg::aten {
namespace {

constexpr const char* kValueRead = "value read";

bool has_lazy_bits(const at::Tensor& tensor) { return tensor.is_conj() || tensor.is_neg(); }

// True when the tensor's elements are all of its storage, in some order.
bool covers_storage(const at::Tensor& tensor) {
  return tensor.storage_offset() == 0 && tensor.is_non_overlapping_and_dense() &&
         static_cast<size_t>(tensor.numel()) * tensor.element_size() == tensor.storage().nbytes();
}

bool same_layout(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() && a.strides() == b.strides();
}

void upload_whole(const at::Tensor& self, const at::Tensor& host) {
  at::Tensor source = host;
  if (!same_layout(self, host) || has_lazy_bits(host) || !host.is_non_overlapping_and_dense()) {
    source = at::empty_strided(self.sizes(), self.strides(), host.options().dtype(self.scalar_type()));
    source.copy_(host);
  }
  translated([&] {
    const auto view = self.dim() <= lazy::kMaxRank ? view_of(self) : flat_view(require_ir_dtype(self.scalar_type()), self.storage().nbytes());
    lazy::Session::get().upload(storage_of(self), source.const_data_ptr(), view);
  });
}

void copy_on_host(const at::Tensor& self, const at::Tensor& source) {
  HostWindow window("copy on the CPU");
  window.will_write(self);
  at::Tensor target = window.host(self);
  target.copy_(is_ours(source) ? window.host(source) : source);
  window.collect(self, target);
}

void copy_on_device(const at::Tensor& self, const at::Tensor& source) {
  const bool plain = !has_lazy_bits(self) && !has_lazy_bits(source);
  if (plain && same_layout(self, source) && covers_storage(self) && covers_storage(source)) {
    if (self.storage().unsafeGetStorageImpl() == source.storage().unsafeGetStorageImpl()) return;
    translated([&] { lazy::Session::get().share(storage_of(self), storage_of(source)); });
    return;
  }
  if (!plain || !trace_copy(self, source)) copy_on_host(self, source);
}

void copy_to_device(const at::Tensor& self, const at::Tensor& host) {
  if (covers_storage(self) && !has_lazy_bits(self)) {
    if (host.sizes() == self.sizes() || host.numel() * 2 >= self.numel() || !is_tracing_enabled()) return upload_whole(self, host.expand(self.sizes()));
  }
  if (!is_tracing_enabled() || has_lazy_bits(self) || has_lazy_bits(host)) return copy_on_host(self, host);
  at::Tensor staged = make_tensor(host.sizes(), c10::contiguous_strides(host.sizes()), host.dtype());
  upload_whole(staged, host);
  copy_on_device(self, staged);
}

at::Tensor& copy_(at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  TORCH_CHECK(self.defined() && source.defined(), "copy_ needs two defined tensors");
  if (self.is_same(source)) return self;
  BelowAutograd guard;
  TORCH_CHECK_NOT_IMPLEMENTED(self.layout() == c10::kStrided && source.layout() == c10::kStrided, "Device xla has strided tensors only; convert the ",
                              source.layout() == c10::kStrided ? self.layout() : source.layout(), " tensor with .to_dense() first");
  at::infer_size(self.sizes(), source.sizes());  // PyTorch's message for sizes that do not match
  const at::Tensor from = source.sizes() == self.sizes() ? source : source.expand(self.sizes());
  if (self.numel() == 0) return self;
  if (!is_ours(self)) {
    HostWindow window(kValueRead);
    self.copy_(window.host(from), non_blocking);
  } else if (is_ours(source)) {
    copy_on_device(self, from);
  } else {
    copy_to_device(self, source.is_cpu() ? source : source.cpu());
  }
  return self;
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& target, bool non_blocking) {
  at::Tensor out = target;
  return copy_(out, self, non_blocking);
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& target) {
  if (target.sizes() != self.sizes()) target.resize_(self.sizes());
  return copy_from(self, target, false);
}

c10::Scalar local_scalar_dense(const at::Tensor& self) {
  BelowAutograd guard;
  HostWindow window(kValueRead);
  return at::native::_local_scalar_dense_cpu(window.host(self));
}

bool equal(const at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK(self.device() == other.device(), "Cannot compare two tensors on different devices. Got: ", self.device(), " and ", other.device());
  TORCH_CHECK(self.scalar_type() == other.scalar_type(), "Expected all tensors to have the same dtype, but found ", self.scalar_type(), " and ",
              other.scalar_type());
  if (self.sizes() != other.sizes()) return false;
  BelowAutograd guard;
  HostWindow window(kValueRead);
  const at::Tensor a = window.host(self), b = window.host(other);
  return at::equal(a, b);
}

}  // namespace

void register_copies() {
  auto& m = new_library(torch::Library::IMPL, "aten", kKey);
  m.impl("copy_", &copy_);
  m.impl("_copy_from", &copy_from);
  m.impl("_copy_from_and_resize", &copy_from_and_resize);
  m.impl("_local_scalar_dense", &local_scalar_dense);
  m.impl("equal", &equal);
}

}  // namespace thalweg::aten
