// Copies on the GPU between device xla and PyTorch's CUDA, and sharing with PyTorch's copy-on-write storages.
//
// A shared piece of memory has two holders as PyTorch counts them: the CUDA tensor's storage, and a storage that a buffer of ours keeps. Whoever of PyTorch's
// side writes first copies, or takes the memory over when our buffer is gone, which it is once all our work with it has completed. Our side never writes to
// shared memory: the buffer is read-only and never donated.
#include "aten/cuda_sharing.h"

#include <c10/core/impl/COW.h>

#include <cstdlib>
#include <map>
#include <mutex>

#include "aten/cuda_window.h"
#include "aten/device_storage.h"
#include "aten/dtypes.h"
#include "aten/errors.h"
#include "lazy/session.h"

namespace thalweg::aten {
namespace {

using runtime::BufferPtr;

// Buffers whose memory PyTorch holds, by address: its deleter gets no more than that. Memory shared twice has several; the latest goes first. Never destroyed.
struct Lent {
  std::mutex mutex;
  std::multimap<void*, BufferPtr> buffers;
};
Lent& lent() {
  static auto* instance = new Lent;
  return *instance;
}

void give_back(void* address) {
  BufferPtr buffer;
  {
    std::lock_guard lock(lent().mutex);
    auto last = lent().buffers.upper_bound(address);
    buffer = std::move((--last)->second);
    lent().buffers.erase(last);
  }
  add_torch_uses(*buffer);
}

c10::Storage storage_lent_to_torch(const BufferPtr& buffer) {
  void* address = buffer->data();
  {
    std::lock_guard lock(lent().mutex);
    lent().buffers.emplace(address, buffer);
  }
  c10::DataPtr data(address, address, &give_back, cuda_device());
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), c10::SymInt(static_cast<int64_t>(buffer->size())),
                                                            std::move(data), c10::GetAllocator(c10::kCUDA), /*resizable=*/true));
}

// A buffer of ours over memory that a storage of PyTorch's keeps.
BufferPtr buffer_over(c10::Storage storage, const void* address, size_t bytes) {
  return lazy::Session::get().device().wrap(const_cast<void*>(address), bytes, [storage = std::move(storage)]() mutable { storage = c10::Storage(); });
}

bool zero_copy_wanted() {
  const char* text = std::getenv("ZERO_COPY_ENABLED");
  return text && *text && std::string(text) != "0";
}

bool same_layout(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.strides() == b.strides() && b.is_non_overlapping_and_dense() && !b.is_conj() && !b.is_neg();
}

lazy::View layout_of(const at::Tensor& tensor) {
  return tensor.dim() <= lazy::kMaxRank ? view_of(tensor) : flat_view(require_ir_dtype(tensor.scalar_type()), tensor.storage().nbytes());
}

// False where PyTorch cannot share this storage.
bool share_from_cuda(const at::Tensor& self, const at::Tensor& cuda) {
  auto clone = c10::impl::cow::lazy_clone_storage(*cuda.storage().unsafeGetStorageImpl());
  if (!clone) return false;
  const size_t bytes = static_cast<size_t>(cuda.numel()) * cuda.element_size();
  const char* address = static_cast<const char*>(clone->data()) + static_cast<size_t>(cuda.storage_offset()) * cuda.element_size();
  BufferPtr buffer = buffer_over(c10::Storage(std::move(clone)), address, bytes);
  buffer->set_read_only();
  TorchWork queued(torch_stream());
  queued.write(buffer);
  queued.end();
  lazy::Session::get().assign(storage_of(self), std::move(buffer), layout_of(self), /*exclusive=*/false);
  return true;
}

}  // namespace

void copy_from_cuda(const at::Tensor& self, const at::Tensor& cuda) {
  if (zero_copy_wanted() && is_on_our_gpu(cuda) && same_layout(self, cuda) && translated([&] { return share_from_cuda(self, cuda); })) return;
  auto& session = lazy::Session::get();
  const size_t bytes = self.storage().nbytes();
  BufferPtr buffer = translated([&] { return session.device().copy_stream().allocate(bytes); });
  TorchWork work(torch_stream());
  work.write(buffer);
  translated([&] { work.begin(); });
  cuda_tensor(cuda_storage_over(buffer->data(), bytes), self).copy_(cuda, /*non_blocking=*/true);
  translated([&] {
    work.end();
    session.assign(storage_of(self), std::move(buffer), layout_of(self), /*exclusive=*/true);
  });
}

void copy_to_cuda(const at::Tensor& cuda, const at::Tensor& from) {
  CudaWindow window("copy to CUDA", torch_stream());
  const at::Tensor source = window.stand_in(from);
  translated([&] {
    lazy::Session::get().settle_fallible();
    window.begin();
  });
  cuda.copy_(source, /*non_blocking=*/true);
  translated([&] { window.end(); });
}

at::Tensor share_with_cuda(const at::Tensor& tensor) {
  auto& session = lazy::Session::get();
  lazy::Storage& storage = storage_of(tensor);
  if (storage.home || tensor.numel() == 0) return {};
  c10::intrusive_ptr<c10::StorageImpl> theirs;
  translated([&] {
    const BufferPtr buffer = session.materialize(storage, "copy to CUDA");
    session.settle_fallible();
    c10::Storage ours = storage_lent_to_torch(buffer);
    theirs = c10::impl::cow::lazy_clone_storage(*ours.unsafeGetStorageImpl());
    if (!theirs) return;
    BufferPtr shared = buffer_over(std::move(ours), buffer->data(), buffer->size());
    shared->set_read_only();
    runtime::Submission(session.device().compute_stream()).read(buffer).write(shared).label("share with CUDA").run([](void*) {});
    session.rename(storage, buffer, shared);
    // PyTorch reads on its current stream, and copies for a write on the default one.
    for (runtime::Stream* stream : outside_streams()) {
      TorchWork reads(*stream);
      reads.read(shared);
      reads.begin();
    }
  });
  if (!theirs) return {};
  return cuda_tensor(c10::Storage(std::move(theirs)), tensor);
}

at::Tensor wrap_cuda_tensor(const at::Tensor& cuda) {
  const size_t bytes = cuda.storage().nbytes();
  c10::Storage storage = make_storage(bytes);
  if (bytes != 0) {
    void* address = cuda.storage().mutable_data();  // of its own, where it shared its memory
    translated([&] {
      auto& session = lazy::Session::get();
      lazy::Storage& mine = storage_of(*storage.unsafeGetStorageImpl());
      // Whoever else holds the memory may need Python to let it go.
      BufferPtr buffer = session.device().wrap(address, bytes, [held = cuda.storage()]() mutable { held = c10::Storage(); }, runtime::ReleaseOn::OwnThread);
      session.assign(mine, buffer, flat_view(require_ir_dtype(cuda.scalar_type()), bytes), /*exclusive=*/false);
      mine.home = std::move(buffer);  // nobody else knows the storage yet
    });
  }
  return make_tensor(std::move(storage), cuda.sizes(), cuda.strides(), cuda.storage_offset(), cuda.dtype());
}

}  // namespace thalweg::aten
