// Device tensors: plain TensorImpls whose storage's DataPtr owns a lazy::Storage.
#include "aten/device_storage.h"

#include "aten/backend_key.h"
#include "aten/dtypes.h"
#include "aten/errors.h"
#include "lazy/session.h"

namespace thalweg::aten {
namespace {

constexpr const char* kNoAddress =
    "This operation asked for the memory address of a tensor on device xla from C++. Such tensors are computed when they are needed and have no address of "
    "their own: call tensor.data_ptr() first and pass the address, or move the tensor with .cpu()";

void release_storage(void* context) { static_cast<lazy::Storage*>(context)->release(); }

c10::DataPtr make_data_ptr(size_t bytes) {
  auto* storage = new lazy::Storage(bytes);
  storage->retain();
  return c10::DataPtr(nullptr, storage, &release_storage, device_zero());
}

class DeviceAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override { return make_data_ptr(bytes); }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void*, const void*, std::size_t) const override { TORCH_CHECK(false, kNoAddress); }
};

c10::intrusive_ptr<c10::StorageImpl> make_storage_impl(size_t bytes) {
  auto impl = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), c10::SymInt(static_cast<int64_t>(bytes)), make_data_ptr(bytes),
                                                    device_allocator(), /*resizable=*/true);
  impl->release_data_and_set_meta_custom_data_ptr_error_msg_(kNoAddress);
  return impl;
}

}  // namespace

c10::Allocator* device_allocator() {
  static DeviceAllocator* allocator = new DeviceAllocator();
  return allocator;
}

lazy::Storage& storage_of(const c10::StorageImpl& storage) {
  auto& data = const_cast<c10::StorageImpl&>(storage)._mutable_data_ptr_no_checks();
  return *static_cast<lazy::Storage*>(data.get_context());
}

c10::Storage make_storage(size_t bytes) { return c10::Storage(make_storage_impl(bytes)); }

at::Tensor make_tensor(c10::Storage storage, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset, caffe2::TypeMeta dtype) {
  auto impl = c10::make_intrusive<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(kKey), dtype);
  impl->set_sizes_and_strides(sizes, strides, offset);
  return at::Tensor(std::move(impl));
}

at::Tensor make_tensor(c10::IntArrayRef sizes, c10::IntArrayRef strides, caffe2::TypeMeta dtype) {
  const size_t bytes = at::detail::computeStorageNbytes(sizes, strides, dtype.itemsize());
  return make_tensor(make_storage(bytes), sizes, strides, 0, dtype);
}

lazy::View view_of(const at::TensorBase& tensor) {
  return lazy::View(require_ir_dtype(tensor.scalar_type()), tensor.sizes(), tensor.strides(), tensor.storage_offset());
}

lazy::View flat_view(ir::DType dtype, size_t bytes) {
  const size_t item = static_cast<size_t>(ir::byte_size(dtype));
  if (bytes % item) return flat_view(ir::DType::U8, bytes);
  const int64_t count = static_cast<int64_t>(bytes / item);
  return lazy::View(dtype, std::span<const int64_t>(&count, 1));
}

void resize_storage(c10::StorageImpl& storage, size_t bytes) {
  if (storage.nbytes() == bytes) return;
  TORCH_CHECK(storage.resizable(), "Trying to resize storage that is not resizable");
  translated([&] { lazy::Session::get().resize(storage_of(storage), bytes); });
  storage.set_nbytes(bytes);
}

void grow_storage(c10::TensorImpl& tensor, size_t bytes) {
  const c10::Storage& storage = tensor.unsafe_storage();
  if (!storage) {
    tensor.set_storage_keep_dtype(make_storage(bytes));
  } else if (storage.nbytes() < bytes) {
    resize_storage(*storage.unsafeGetStorageImpl(), bytes);
  }
}

}  // namespace thalweg::aten
