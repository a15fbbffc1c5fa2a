// Device tensors as CUDA tensors over the same memory.
#include "aten/cuda_window.h"

#include "aten/device_storage.h"
#include "aten/dtypes.h"
#include "aten/errors.h"
#include "lazy/session.h"

namespace thalweg::aten {

CudaWindow::Entry& CudaWindow::entry(const at::Tensor& device) {
  for (Entry& entry : entries_) {
    if (entry.device.unsafeGetStorageImpl() == device.storage().unsafeGetStorageImpl()) return entry;
  }
  entries_.push_back({device.storage(), c10::Storage(), false, nullptr});
  return entries_.back();
}

void CudaWindow::will_write(const at::Tensor& device) { entry(device).write = true; }

void CudaWindow::open(Entry& entry) {
  const size_t bytes = entry.device.nbytes();
  if (bytes != 0) {
    auto& session = lazy::Session::get();
    lazy::Storage& storage = storage_of(*entry.device.unsafeGetStorageImpl());
    runtime::BufferPtr buffer = translated([&] { return entry.write ? session.own_version(storage) : session.materialize(storage, reason_); });
    if (storage.home) exposed_.push_back(buffer);
    entry.address = buffer->data();
    work_.read(buffer);
    if (entry.write) work_.write(std::move(buffer));
  }
  entry.cuda = cuda_storage_over(entry.address, bytes);
}

at::Tensor CudaWindow::stand_in(const at::Tensor& device) {
  Entry& mine = entry(device);
  if (!mine.cuda) open(mine);
  return cuda_tensor(mine.cuda, device);
}

void CudaWindow::adopt(const c10::Storage& storage, c10::Storage cuda, c10::ScalarType dtype, bool exclusive) {
  const size_t bytes = cuda.nbytes();
  if (bytes == 0) return;
  translated([&] {
    auto& session = lazy::Session::get();
    void* address = const_cast<void*>(cuda.data());
    runtime::BufferPtr buffer = session.device().wrap(address, bytes, [cuda = std::move(cuda)]() mutable { cuda = c10::Storage(); });
    work_.write(buffer);
    session.assign(storage_of(*storage.unsafeGetStorageImpl()), std::move(buffer), flat_view(require_ir_dtype(dtype), bytes), exclusive);
  });
}

at::Tensor CudaWindow::device(const at::Tensor& cuda_in) {
  // PyTorch's zero tensors have sizes but no memory.
  const at::Tensor cuda = cuda_in._is_zerotensor() ? at::zeros(cuda_in.sizes(), cuda_in.options()) : cuda_in;
  auto* impl = cuda.storage().unsafeGetStorageImpl();
  c10::Storage storage;
  for (const Entry& entry : entries_) {
    if (entry.cuda && entry.cuda.unsafeGetStorageImpl() == impl) storage = entry.device;
  }
  if (!storage) {
    storage = make_storage(cuda.storage().nbytes());
    const bool exclusive = cuda.storage().use_count() == 1;
    adopt(storage, cuda.storage(), cuda.scalar_type(), exclusive);
    entries_.push_back({storage, cuda.storage(), false, nullptr});  // later results that share this memory must share the storage too
  }
  at::Tensor result = make_tensor(std::move(storage), cuda.sizes(), cuda.strides(), cuda.storage_offset(), cuda.dtype());
  result._set_conj(cuda.is_conj());
  result._set_neg(cuda.is_neg());
  if (cuda.unsafeGetTensorImpl()->is_wrapped_number()) result.unsafeGetTensorImpl()->set_wrapped_number(true);
  return result;
}

void CudaWindow::end() {
  work_.end();
  for (const runtime::BufferPtr& buffer : exposed_) translated([&] { lazy::Session::get().order_exposed(buffer); });
}

void CudaWindow::collect(const at::Tensor& device, const at::Tensor& cuda) {
  Entry& mine = entry(device);
  const bool same_storage = cuda.storage().unsafeGetStorageImpl() == mine.cuda.unsafeGetStorageImpl();
  auto* impl = device.unsafeGetTensorImpl();
  if (!same_storage) {  // set_ and friends: the tensor looks at another storage now
    impl->set_storage_keep_dtype(this->device(cuda).storage());
  } else if (mine.cuda.nbytes() != mine.device.nbytes() || (mine.cuda.nbytes() != 0 && mine.cuda.data() != mine.address)) {
    resize_storage(*mine.device.unsafeGetStorageImpl(), mine.cuda.nbytes());
    adopt(mine.device, mine.cuda, device.scalar_type(), false);
    mine.address = mine.cuda.nbytes() != 0 ? const_cast<void*>(mine.cuda.data()) : nullptr;
  }
  if (device.sizes() != cuda.sizes() || device.strides() != cuda.strides() || device.storage_offset() != cuda.storage_offset()) {
    impl->set_sizes_and_strides(cuda.sizes(), cuda.strides(), cuda.storage_offset());
  }
}

}  // namespace thalweg::aten
