// Copies between and on devices, and reads of single values.
#include <mutex>
#include <vector>

#include "aten/backend_key.h"
#include "aten/cuda_sharing.h"
#include "aten/device_storage.h"
#include "aten/dtypes.h"
#include "aten/errors.h"
#include "aten/host_access.h"
#include "aten/registration.h"
#include "aten/torch_cuda.h"
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

// Pinned memory that the GPU is reading, kept until then. What lets go of it must not need Python, so it is dropped by the next upload.
class InFlight {
 public:
  static std::shared_ptr<char> keep(const at::Tensor& pinned) {
    drop_finished();
    char* bytes = static_cast<char*>(const_cast<void*>(pinned.const_data_ptr()));
    return {bytes, [storage = pinned.storage()](char*) {
              std::lock_guard lock(finished().mutex);
              finished().storages.push_back(storage);
            }};
  }

 private:
  struct Finished {
    std::mutex mutex;
    std::vector<c10::Storage> storages;
  };
  static Finished& finished() {
    static auto* instance = new Finished;
    return *instance;
  }
  static void drop_finished() {
    std::vector<c10::Storage> dropped;
    std::lock_guard lock(finished().mutex);
    dropped.swap(finished().storages);
  }
};

void upload_whole(const at::Tensor& self, const at::Tensor& host, bool non_blocking) {
  at::Tensor source = host;
  if (!same_layout(self, host) || has_lazy_bits(host) || !host.is_non_overlapping_and_dense()) {
    source = at::empty_strided(self.sizes(), self.strides(), host.options().dtype(self.scalar_type()));
    source.copy_(host);
    non_blocking = false;
  }
  translated([&] {
    auto& session = lazy::Session::get();
    const auto view = self.dim() <= lazy::kMaxRank ? view_of(self) : flat_view(require_ir_dtype(self.scalar_type()), self.storage().nbytes());
    if (non_blocking && !session.is_host_memory() && source.is_pinned()) return session.upload_pinned(storage_of(self), InFlight::keep(source), view);
    session.upload(storage_of(self), source.const_data_ptr(), view);
  });
}

void copy_on_host(const at::Tensor& self, const at::Tensor& source) {
  HostWindow window("copy on the CPU");
  window.will_write(self);
  at::Tensor target = window.stand_in(self);
  target.copy_(is_ours(source) ? window.stand_in(source) : source);
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

void copy_to_device(const at::Tensor& self, const at::Tensor& host, bool non_blocking) {
  if (covers_storage(self) && !has_lazy_bits(self)) {
    const bool whole = host.sizes() == self.sizes() || host.numel() * 2 >= self.numel() || !is_tracing_enabled();
    if (whole) return upload_whole(self, host.expand(self.sizes()), non_blocking);
  }
  if (!is_tracing_enabled() || has_lazy_bits(self) || has_lazy_bits(host)) return copy_on_host(self, host);
  at::Tensor staged = make_tensor(host.sizes(), c10::contiguous_strides(host.sizes()), host.dtype());
  upload_whole(staged, host, non_blocking);
  copy_on_device(self, staged);
}

void copy_cuda_to_device(const at::Tensor& self, const at::Tensor& cuda) {
  if (covers_storage(self) && !has_lazy_bits(self)) return copy_from_cuda(self, cuda);
  at::Tensor staged = make_tensor(cuda.sizes(), c10::contiguous_strides(cuda.sizes()), cuda.dtype());
  copy_from_cuda(staged, cuda);
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
  if (is_ours(self) && is_ours(source)) {
    copy_on_device(self, from);
  } else if (is_ours(self)) {
    const bool on_gpu = source.is_cuda() && has_torch_cuda();
    on_gpu ? copy_cuda_to_device(self, from) : copy_to_device(self, source.is_cpu() ? source : source.cpu(), non_blocking);
  } else if (self.is_cuda() && has_torch_cuda()) {
    copy_to_cuda(self, from);
  } else {
    HostWindow window(kValueRead);
    self.copy_(window.stand_in(from), non_blocking);
  }
  return self;
}

// The arguments of _to_copy.
struct CopyTarget {
  std::optional<c10::ScalarType> dtype;
  std::optional<c10::Layout> layout;
  std::optional<c10::Device> device;
  std::optional<bool> pin_memory;
  bool non_blocking;
  std::optional<c10::MemoryFormat> format;
};

at::Tensor copy_as_core_does(const at::Tensor& self, const CopyTarget& to) {
  return at::native::_to_copy(self, to.dtype, to.layout, to.device, to.pin_memory, to.non_blocking, to.format);
}

bool keeps_strides(const at::Tensor& self, const CopyTarget& to) {
  const bool strided = self.layout() == c10::kStrided && c10::layout_or_default(to.layout) == c10::kStrided;
  return strided && self.is_non_overlapping_and_dense() && (!to.format || *to.format == c10::MemoryFormat::Preserve);
}

// Core's copy, but the result has the strides that it would have on any other device: core takes device xla for one without strides.
at::Tensor copy_to_xla(const at::Tensor& self, const CopyTarget& to) {
  if (!keeps_strides(self, to) || self.is_contiguous() || self.is_quantized()) return copy_as_core_does(self, to);
  const auto options = self.options().dtype(to.dtype.value_or(self.scalar_type())).device(to.device.value_or(self.device())).pinned_memory(to.pin_memory);
  at::Tensor result = at::empty_strided(self.sizes(), self.strides(), options);
  result.copy_(self, to.non_blocking);
  return result;
}

// Copies of device tensors; to CUDA without one where that can be.
at::Tensor to_copy(const at::Tensor& self, std::optional<c10::ScalarType> dtype, std::optional<c10::Layout> layout, std::optional<c10::Device> device,
                   std::optional<bool> pin_memory, bool non_blocking, std::optional<c10::MemoryFormat> format) {
  const CopyTarget to{dtype, layout, device, pin_memory, non_blocking, format};
  if (device.value_or(self.device()).type() == kDeviceType) return copy_to_xla(self, to);
  const bool to_cuda = device->is_cuda() && has_torch_cuda() && (!device->has_index() || *device == cuda_device());
  const bool as_it_is = dtype.value_or(self.scalar_type()) == self.scalar_type() && !has_lazy_bits(self) &&
                        (keeps_strides(self, to) || (format && self.is_contiguous(*format) && self.is_non_overlapping_and_dense()));
  if (to_cuda && as_it_is) {
    BelowAutograd guard;
    if (at::Tensor shared = share_with_cuda(self); shared.defined()) return shared;
  }
  return copy_as_core_does(self, to);
}

// Copies of tensors of other devices, here for those to device xla.
at::Tensor to_copy_of_others(const at::Tensor& self, std::optional<c10::ScalarType> dtype, std::optional<c10::Layout> layout, std::optional<c10::Device> device,
                             std::optional<bool> pin_memory, bool non_blocking, std::optional<c10::MemoryFormat> format) {
  const CopyTarget to{dtype, layout, device, pin_memory, non_blocking, format};
  return device && device->type() == kDeviceType ? copy_to_xla(self, to) : copy_as_core_does(self, to);
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
  return at::native::_local_scalar_dense_cpu(window.stand_in(self));
}

bool equal(const at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK(self.device() == other.device(), "Cannot compare two tensors on different devices. Got: ", self.device(), " and ", other.device());
  TORCH_CHECK(self.scalar_type() == other.scalar_type(), "Expected all tensors to have the same dtype, but found ", self.scalar_type(), " and ",
              other.scalar_type());
  if (self.sizes() != other.sizes()) return false;
  BelowAutograd guard;
  HostWindow window(kValueRead);
  const at::Tensor a = window.stand_in(self), b = window.stand_in(other);
  return at::equal(a, b);
}

}  // namespace

void register_copies() {
  auto& m = new_library(torch::Library::IMPL, "aten", kKey);
  m.impl("copy_", &copy_);
  m.impl("_to_copy", &to_copy);
  m.impl("_copy_from", &copy_from);
  m.impl("_copy_from_and_resize", &copy_from_and_resize);
  m.impl("_local_scalar_dense", &local_scalar_dense);
  m.impl("equal", &equal);
  for (const c10::DispatchKey key : {c10::DispatchKey::CPU, c10::DispatchKey::CUDA}) {
    new_library(torch::Library::IMPL, "aten", key).impl("_to_copy", &to_copy_of_others);
  }
}

}  // namespace thalweg::aten
