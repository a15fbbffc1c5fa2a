// Operations that make tensors or change what they look at, and compute nothing: factories, views, set_, resize_.
#include "aten/device_storage.h"
#include "aten/dtypes.h"
#include "aten/registration.h"

namespace thalweg::aten {
namespace {

using OptDType = std::optional<c10::ScalarType>;
using OptLayout = std::optional<c10::Layout>;
using OptDevice = std::optional<c10::Device>;

caffe2::TypeMeta checked_dtype(OptDType dtype, OptLayout layout, OptDevice device, std::optional<bool> pin_memory) {
  TORCH_CHECK(c10::layout_or_default(layout) == c10::kStrided, "Device xla has strided tensors only, but layout ", *layout, " was asked for");
  TORCH_CHECK(!device || device->index() <= 0, "There is one xla device, xla:0, but ", *device, " was asked for");
  TORCH_CHECK(!c10::pinned_memory_or_default(pin_memory), "Only dense CPU tensors can be pinned");
  const c10::ScalarType type = c10::dtype_or_default(dtype);
  require_ir_dtype(type);
  return c10::scalarTypeToTypeMeta(type);
}

at::Tensor empty(c10::IntArrayRef size, OptDType dtype, OptLayout layout, OptDevice device, std::optional<bool> pin_memory,
                 std::optional<c10::MemoryFormat> format) {
  const auto meta = checked_dtype(dtype, layout, device, pin_memory);
  at::detail::check_size_nonnegative(size);
  at::Tensor tensor = make_tensor(make_storage(at::detail::computeStorageNbytesContiguous(size, meta.itemsize())), {0}, {1}, 0, meta);
  auto* impl = tensor.unsafeGetTensorImpl();
  impl->set_sizes_contiguous(size);
  if (format && *format != c10::MemoryFormat::Contiguous) impl->empty_tensor_restride(*format);
  return tensor;
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, OptDType dtype, OptLayout layout, OptDevice device, std::optional<bool> pin_memory) {
  const auto meta = checked_dtype(dtype, layout, device, pin_memory);
  at::detail::check_size_nonnegative(size);
  return make_tensor(size, stride, meta);
}

// Bytes that the tensor's present sizes and strides reach.
size_t reached_bytes(const c10::TensorImpl& tensor) {
  return at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.dtype().itemsize(), tensor.storage_offset());
}

const at::Tensor& resize_(const at::Tensor& self, c10::IntArrayRef size, std::optional<c10::MemoryFormat> format) {
  auto* impl = self.unsafeGetTensorImpl();
  at::detail::check_size_nonnegative(size);
  if (impl->sizes() != size) {
    impl->set_sizes_contiguous(size);
    if (impl->numel() > 0) grow_storage(*impl, reached_bytes(*impl));
  }
  if (format) {
    TORCH_CHECK(*format != c10::MemoryFormat::Preserve, "Unsupported memory format", *format);
    impl->empty_tensor_restride(*format);
  }
  return self;
}

const at::Tensor& resize_output_(const at::Tensor& self, c10::IntArrayRef size, c10::Device device) {
  TORCH_CHECK(self.device() == device, "out Tensor doesn't have the correct device set");
  at::native::resize_output(self, size);
  return self;
}

void point_at(at::Tensor& self, const c10::Storage& storage) {
  TORCH_CHECK(storage.device_type() == kDeviceType, "Attempted to set the storage of a tensor on device \"", self.device(),
              "\" to a storage on different device \"", storage.device(), "\".  This is no longer allowed; the devices must match.");
  self.unsafeGetTensorImpl()->set_storage_keep_dtype(storage);
}

at::Tensor& set_window_(at::Tensor& self, c10::Storage source, int64_t offset, c10::IntArrayRef size, c10::IntArrayRef stride) {
  TORCH_CHECK(offset >= 0, "Tensor: invalid storage offset ", offset);
  TORCH_CHECK(stride.empty() || stride.size() == size.size(), "unequal size length (", size.size(), ") and stride length (", stride.size(), ")");
  point_at(self, source);
  auto* impl = self.unsafeGetTensorImpl();
  if (stride.empty()) {
    impl->set_storage_offset(offset);
    impl->set_sizes_contiguous(size);
  } else {
    impl->set_sizes_and_strides(size, stride, offset);
  }
  if (impl->numel() > 0) grow_storage(*impl, reached_bytes(*impl));
  return self;
}

at::Tensor& set_storage_(at::Tensor& self, c10::Storage source) {
  const int64_t count = static_cast<int64_t>(source.nbytes() / self.dtype().itemsize());
  return set_window_(self, std::move(source), 0, {count}, {});
}

at::Tensor& set_tensor_(at::Tensor& self, const at::Tensor& source) {
  if (self.is_same(source)) return self;
  return set_window_(self, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

at::Tensor& set_empty_(at::Tensor& self) { return set_window_(self, make_storage(0), 0, {0}, {}); }

// True when one TensorImpl may take over the other's content in place, which keeps Parameters the same objects over module.to(device).
bool is_plain(const at::Tensor& tensor) {
  return tensor.layout() == c10::kStrided && tensor.has_storage() && !tensor.is_nested() && (tensor.is_cpu() || tensor.is_cuda() || is_ours(tensor));
}
bool has_compatible_shallow_copy_type(const at::Tensor& self, const at::Tensor& from) { return is_plain(self) && is_plain(from); }

void record_stream(at::Tensor&, c10::Stream) {}  // uses of memory are derived from submissions

// PyTorch fuses dropout for the devices in its own list only; the fused operation has a derivative for all.
at::Tensor dropout(const at::Tensor& input, double p, bool train) {
  TORCH_CHECK(p >= 0 && p <= 1, "dropout probability has to be between 0 and 1, but got ", p);
  if (p == 0 || !train || input.sym_numel() == 0) return input.alias();
  return std::get<0>(at::native_dropout(input, p, train));
}

}  // namespace

void register_factories() {
  auto& m = new_library(torch::Library::IMPL, "aten", kKey);
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("as_strided", &at::native::as_strided_tensorimpl);
  m.impl("view", static_cast<at::Tensor (*)(const at::Tensor&, c10::IntArrayRef)>(&at::native::view));
  m.impl("_unsafe_view", &at::native::_unsafe_view);
  m.impl("_reshape_alias", &at::native::_reshape_alias);
  m.impl("unfold", &at::native::unfold);
  m.impl("view_as_real", &at::native::view_as_real);
  m.impl("view_as_complex", &at::native::view_as_complex);
  m.impl("resize_", &resize_);
  m.impl("_resize_output_", &resize_output_);
  m.impl("set_", &set_empty_);
  m.impl("set_.source_Storage", &set_storage_);
  m.impl("set_.source_Storage_storage_offset", &set_window_);
  m.impl("set_.source_Tensor", &set_tensor_);
  m.impl("_has_compatible_shallow_copy_type", &has_compatible_shallow_copy_type);
  m.impl("record_stream", &record_stream);
  auto& autograd = new_library(torch::Library::IMPL, "aten", kAutogradKey);
  autograd.impl("_has_compatible_shallow_copy_type", &has_compatible_shallow_copy_type);
  if (is_tracing_enabled()) {
    m.impl("dropout", &dropout);
    autograd.impl("dropout", &dropout);
  }
}

}  // namespace thalweg::aten
