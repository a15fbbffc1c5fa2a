// Device tensors as host tensors over the same bytes, for kernels that run on the CPU.
#include "aten/host_access.h"

#include "aten/backend_key.h"
#include "aten/device_storage.h"
#include "aten/dtypes.h"
#include "aten/errors.h"
#include "lazy/session.h"

namespace thalweg::aten {
namespace {

void keep_memory(void*) {}

// Makes `storage` hold the host storage's memory, which lives until nothing uses it.
void adopt(lazy::Storage& storage, c10::Storage host, c10::ScalarType dtype, bool exclusive, runtime::ReleaseOn where = runtime::ReleaseOn::AnyThread) {
  const size_t bytes = host.nbytes();
  void* address = const_cast<void*>(host.data());
  auto& session = lazy::Session::get();
  if (!session.is_host_memory()) return session.upload(storage, address, flat_view(require_ir_dtype(dtype), bytes));
  auto buffer = session.device().wrap(address, bytes, [host = std::move(host)]() mutable { host = c10::Storage(); }, where);
  session.assign(storage, std::move(buffer), flat_view(require_ir_dtype(dtype), bytes), exclusive);
}

c10::Storage host_storage_over(void* address, size_t bytes) {
  c10::DataPtr data(address, address, &keep_memory, c10::Device(c10::kCPU));
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), c10::SymInt(static_cast<int64_t>(bytes)), std::move(data),
                                                            c10::GetAllocator(c10::kCPU), /*resizable=*/true));
}

at::Tensor host_tensor(const c10::Storage& storage, const at::Tensor& like) {
  auto impl = c10::make_intrusive<c10::TensorImpl>(c10::Storage(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), like.dtype());
  impl->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
  impl->_set_conj(like.is_conj());
  impl->_set_neg(like.is_neg());
  return at::Tensor(std::move(impl));
}

}  // namespace

c10::Storage adopt_host_storage(const c10::Storage& host, c10::ScalarType dtype) {
  c10::Storage storage = make_storage(host.nbytes());
  if (host.nbytes() == 0) return storage;
  const bool exclusive = host.use_count() == 1;
  translated([&] { adopt(storage_of(*storage.unsafeGetStorageImpl()), host, dtype, exclusive); });
  return storage;
}

at::Tensor wrap_host_tensor(const at::Tensor& host) {
  TORCH_CHECK(lazy::Session::get().is_host_memory(),
              "Device xla computes on a GPU and cannot share the memory of a tensor on the CPU; copy it with .to(\"xla\")");
  c10::Storage storage = make_storage(host.storage().nbytes());
  if (host.storage().nbytes() != 0) {
    translated([&] {
      lazy::Storage& mine = storage_of(*storage.unsafeGetStorageImpl());
      // Whoever else holds the memory may need Python to let it go.
      adopt(mine, host.storage(), host.scalar_type(), false, runtime::ReleaseOn::OwnThread);
      mine.home = mine.current->buffer;  // nobody else knows the storage yet
    });
  }
  return make_tensor(std::move(storage), host.sizes(), host.strides(), host.storage_offset(), host.dtype());
}

HostWindow::Entry& HostWindow::entry(const at::Tensor& device) {
  for (Entry& entry : entries_) {
    if (entry.device.unsafeGetStorageImpl() == device.storage().unsafeGetStorageImpl()) return entry;
  }
  entries_.push_back({device.storage(), c10::Storage(), false, nullptr, nullptr});
  return entries_.back();
}

void HostWindow::will_write(const at::Tensor& device) { entry(device).write = true; }

void HostWindow::open(Entry& entry) {
  const size_t bytes = entry.device.nbytes();
  if (bytes != 0) {
    auto& session = lazy::Session::get();
    lazy::Storage& storage = storage_of(*entry.device.unsafeGetStorageImpl());
    entry.memory = translated([&] { return entry.write ? session.write_in_place(storage) : std::const_pointer_cast<void>(session.read(storage, reason_)); });
    entry.address = entry.memory.get();
  }
  entry.host = host_storage_over(entry.address, bytes);
}

at::Tensor HostWindow::stand_in(const at::Tensor& device) {
  Entry& mine = entry(device);
  if (!mine.host) open(mine);
  return host_tensor(mine.host, device);
}

at::Tensor HostWindow::device(const at::Tensor& host_in) {
  // PyTorch's zero tensors have sizes but no memory.
  const at::Tensor host = host_in._is_zerotensor() ? at::zeros(host_in.sizes(), host_in.options()) : host_in;
  auto* impl = host.storage().unsafeGetStorageImpl();
  const Entry* found = nullptr;
  for (const Entry& entry : entries_) {
    if (entry.host && entry.host.unsafeGetStorageImpl() == impl) found = &entry;
  }
  c10::Storage storage = found ? found->device : adopt_host_storage(host.storage(), host.scalar_type());
  at::Tensor result = make_tensor(std::move(storage), host.sizes(), host.strides(), host.storage_offset(), host.dtype());
  result._set_conj(host.is_conj());
  result._set_neg(host.is_neg());
  if (host.unsafeGetTensorImpl()->is_wrapped_number()) result.unsafeGetTensorImpl()->set_wrapped_number(true);
  // Later results that share this memory must share the storage too.
  if (!found) entries_.push_back({result.storage(), host.storage(), false, nullptr, nullptr});
  return result;
}

void HostWindow::collect(const at::Tensor& device, const at::Tensor& host) {
  Entry& mine = entry(device);
  auto* host_impl = mine.host.unsafeGetStorageImpl();
  const bool same_storage = host.storage().unsafeGetStorageImpl() == host_impl;
  auto* impl = device.unsafeGetTensorImpl();
  if (!same_storage) {  // set_ and friends: the tensor looks at another storage now
    impl->set_storage_keep_dtype(this->device(host).storage());
  } else if (mine.host.nbytes() != mine.device.nbytes() || (mine.host.nbytes() != 0 && mine.host.data() != mine.address)) {
    auto* storage = mine.device.unsafeGetStorageImpl();
    resize_storage(*storage, mine.host.nbytes());
    if (mine.host.nbytes() != 0) {
      translated([&] { adopt(storage_of(*storage), mine.host, device.scalar_type(), false); });
      mine.address = const_cast<void*>(mine.host.data());
    }
  }
  auto& session = lazy::Session::get();
  if (same_storage && mine.write && mine.device.nbytes() != 0 && mine.host.data() == mine.address && !session.is_host_memory())
    translated([&] {
      session.upload(storage_of(*mine.device.unsafeGetStorageImpl()), mine.address, flat_view(require_ir_dtype(device.scalar_type()), mine.device.nbytes()));
    });
  if (device.sizes() != host.sizes() || device.strides() != host.strides() || device.storage_offset() != host.storage_offset()) {
    impl->set_sizes_and_strides(host.sizes(), host.strides(), host.storage_offset());
  }
}

}  // namespace thalweg::aten
