// Copies on the host, or through the GPU's streams.
#include "lazy/transfer.h"

#include <algorithm>
#include <cstring>

#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/staging.h"

namespace thalweg::lazy {
namespace {

namespace cuda = runtime::cuda;
using runtime::BufferPtr;

void zero_behind(runtime::Device& device, const BufferPtr& buffer, size_t kept) {
  if (kept >= buffer->size()) return;
  runtime::Submission(device.compute_stream())
      .write(buffer)
      .label("zeros")
      .run([at = static_cast<char*>(buffer->data()) + kept, n = buffer->size() - kept](void* native) {
        cuda::check(cuda::driver().fill_bytes(reinterpret_cast<cuda::DevicePtr>(at), 0, n, static_cast<cuda::StreamHandle>(native)), "fill memory");
      });
}

}  // namespace

bool is_host_memory(const runtime::Device& device) { return !cuda::is_cuda(device); }

BufferPtr from_host(runtime::Device& device, const void* source, size_t kept, size_t bytes) {
  if (is_host_memory(device)) {
    BufferPtr buffer = device.copy_stream().allocate_for_host(bytes);
    if (kept) std::memcpy(buffer->data(), source, kept);
    if (bytes > kept) std::memset(static_cast<char*>(buffer->data()) + kept, 0, bytes - kept);
    return buffer;
  }
  BufferPtr buffer = device.copy_stream().allocate(bytes);
  cuda::copy_from_host(device.copy_stream(), buffer, 0, source, kept);
  zero_behind(device, buffer, kept);
  return buffer;
}

BufferPtr from_pinned(runtime::Device& device, std::shared_ptr<char> source, size_t bytes) {
  BufferPtr buffer = device.copy_stream().allocate(bytes);
  cuda::copy_from_pinned(device.copy_stream(), buffer, 0, std::move(source), bytes);
  return buffer;
}

BufferPtr duplicate(runtime::Device& device, const BufferPtr& from, size_t kept, size_t bytes) {
  if (is_host_memory(device)) {
    from->wait_written();
    return from_host(device, from->data(), kept, bytes);
  }
  BufferPtr buffer = device.compute_stream().allocate(bytes);
  cuda::copy(device.compute_stream(), from, 0, buffer, 0, kept);
  zero_behind(device, buffer, kept);
  return buffer;
}

void overwrite(runtime::Device& device, const BufferPtr& from, const BufferPtr& to, size_t bytes) {
  if (!is_host_memory(device)) return cuda::copy(device.compute_stream(), from, 0, to, 0, bytes);
  runtime::Submission copy(device.compute_stream());
  copy.read(from).write(to).label("copy");
  copy.run([target = to->data(), source = from->data(), bytes](void*) { std::memcpy(target, source, bytes); });
}

std::shared_ptr<void> to_host(runtime::Device& device, const BufferPtr& from) {
  if (is_host_memory(device)) {
    from->wait_written();
    return {from->data(), [kept = from](void*) {}};
  }
  std::shared_ptr<char[]> memory(new char[std::max<size_t>(from->size(), 1)]);
  from->wait_written();
  cuda::copy_to_host(device.compute_stream(), from, 0, memory.get(), from->size());
  return {memory.get(), [memory](void*) {}};
}

}  // namespace thalweg::lazy
