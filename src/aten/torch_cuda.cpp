// PyTorch's own CUDA beside device xla: what is asked of it goes through PyTorch's device-neutral interfaces.
#include "aten/torch_cuda.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <atomic>
#include <map>
#include <mutex>

#include "aten/errors.h"
#include "lazy/session.h"
#include "runtime/cuda/cuda_device.h"

namespace thalweg::aten {
namespace {

namespace cuda = runtime::cuda;

// The driver's name of the legacy default stream; PyTorch's is null.
void* const kLegacyStream = reinterpret_cast<void*>(1);

// Streams of others by their handle. Never destroyed.
struct KnownStreams {
  std::mutex mutex;
  std::map<void*, std::unique_ptr<runtime::Stream>> by_handle;
};
KnownStreams& known_streams() {
  static auto* instance = new KnownStreams;
  return *instance;
}

runtime::Stream& known_stream(void* handle, const char* name) {
  runtime::Device& device = lazy::Session::get().device();  // takes the session's lock: not under ours
  KnownStreams& known = known_streams();
  std::lock_guard lock(known.mutex);
  std::unique_ptr<runtime::Stream>& stream = known.by_handle[handle];
  if (!stream) stream = cuda::wrap_stream(device, static_cast<cuda::StreamHandle>(handle), name);
  return *stream;
}

bool make_ready() {
  runtime::Device& device = lazy::Session::get().device();
  if (!cuda::is_cuda(device) || !at::hasCUDA()) return false;
  at::globalContext().lazyInitDevice(c10::kCUDA);
  return true;
}

void keep_memory(void*) {}

// What others do with the buffer on `stream` may be a write as well as a read.
void order_use(runtime::Stream& stream, const runtime::BufferPtr& buffer) {
  runtime::Submission(stream).read(buffer).write(buffer).label("use by others").run([](void*) {});
}

}  // namespace

bool has_torch_cuda() {
  // Two threads may find out at once: one that waited for the other, as for a static, could hold the session's lock that the other needs.
  static std::atomic<int> known{-1};
  if (known.load() < 0) known = translated(&make_ready);
  return known.load() == 1;
}

c10::Device cuda_device() { return c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(lazy::Session::get().device().ordinal())); }

bool is_on_our_gpu(const at::TensorBase& tensor) { return tensor.layout() == c10::kStrided && tensor.device() == cuda_device(); }

runtime::Stream& torch_stream() {
  const c10::impl::VirtualGuardImpl guard(c10::kCUDA);
  void* handle = guard.getStream(cuda_device()).native_handle();
  if (handle == cuda::native_stream(lazy::Session::get().device().compute_stream())) return shared_compute_stream();
  return translated([&]() -> runtime::Stream& { return known_stream(handle ? handle : kLegacyStream, "PyTorch"); });
}

std::vector<runtime::Stream*> outside_streams() {
  std::vector<runtime::Stream*> streams{&translated([]() -> runtime::Stream& { return known_stream(kLegacyStream, "the default stream"); })};
  if (!has_torch_cuda()) return streams;
  if (runtime::Stream* current = &torch_stream(); current != streams.front() && current != &shared_compute_stream()) streams.push_back(current);
  return streams;
}

void order_exposed(const runtime::BufferPtr& buffer) {
  for (runtime::Stream* theirs : outside_streams()) order_use(*theirs, buffer);
}

void order_stream_after_us(void* handle, const runtime::BufferPtr& buffer) {
  runtime::Device& device = lazy::Session::get().device();
  translated([&] { order_use(*cuda::wrap_stream(device, static_cast<cuda::StreamHandle>(handle), "a consumer's stream"), buffer); });
}

runtime::Stream& shared_compute_stream() {
  void* handle = cuda::native_stream(lazy::Session::get().device().compute_stream());
  return translated([&]() -> runtime::Stream& { return known_stream(handle, "PyTorch's work for xla"); });
}

void add_torch_uses(runtime::Buffer& buffer) noexcept {
  try {
    std::vector<runtime::Stream*> streams;
    {
      KnownStreams& known = known_streams();
      std::lock_guard lock(known.mutex);
      for (const auto& [handle, stream] : known.by_handle) streams.push_back(stream.get());
    }
    for (runtime::Stream* stream : streams) buffer.add_use(stream->axis());
  } catch (...) {  // the driver is gone, and the work with it
  }
}

// The number of a stream of somebody else is its handle.
OnComputeStream::OnComputeStream()
    : guard_(c10::Stream(c10::Stream::UNSAFE, cuda_device(),
                         reinterpret_cast<c10::StreamId>(cuda::native_stream(lazy::Session::get().device().compute_stream())))) {}

void TorchWork::submit(const char* label) {
  if (reads_.empty() && writes_.empty()) return;
  runtime::Submission submission(stream_);
  for (const runtime::BufferPtr& buffer : reads_) submission.read(buffer);
  for (const runtime::BufferPtr& buffer : writes_) submission.write(buffer);
  submission.label(label);
  submission.run([](void*) {});
}

void TorchWork::begin() { submit("before PyTorch's work"); }
void TorchWork::end() { submit("PyTorch's work"); }

c10::Storage cuda_storage_over(void* address, size_t bytes) {
  c10::DataPtr data(address, address, &keep_memory, cuda_device());
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), c10::SymInt(static_cast<int64_t>(bytes)), std::move(data),
                                                            c10::GetAllocator(c10::kCUDA), /*resizable=*/true));
}

at::Tensor cuda_tensor(const c10::Storage& storage, const at::Tensor& like) {
  auto impl = c10::make_intrusive<c10::TensorImpl>(c10::Storage(storage), c10::DispatchKeySet(c10::DispatchKey::CUDA), like.dtype());
  impl->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
  impl->_set_conj(like.is_conj());
  impl->_set_neg(like.is_neg());
  return at::Tensor(std::move(impl));
}

}  // namespace thalweg::aten
