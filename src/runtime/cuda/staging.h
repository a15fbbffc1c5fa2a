// Copies between ordinary host memory and a GPU, through pinned memory where the host's is not pinned; and pinned memory itself.
#pragma once

#include <functional>
#include <memory>

#include "runtime/cuda/cuda_device.h"

namespace thalweg::runtime::cuda {

// Host memory that the GPU reads and writes directly, at the same address. Kept for reuse when freed: the owner frees it after its last use has completed.
// Any thread. Throws Error(OutOfMemory).
std::shared_ptr<char> pinned_memory(const Device& device, size_t bytes);

// Copies `bytes` of host memory into `to` at `offset`, as submissions on `stream`. `from` may be changed as soon as this returns. Large copies use a few
// threads of the host, as those of copy_to_host() do.
void copy_from_host(Stream& stream, const BufferPtr& to, size_t offset, const void* from, size_t bytes);
// The same from memory of pinned_memory(), which is kept until the copy has completed; it must not be changed before.
void copy_from_pinned(Stream& stream, const BufferPtr& to, size_t offset, std::shared_ptr<char> from, size_t bytes);
// Copies `bytes` of `from` at `offset` to host memory and waits for them. Throws the error of the buffer's last write.
void copy_to_host(Stream& stream, const BufferPtr& from, size_t offset, void* to, size_t bytes);
// Copies without waiting: the bytes are in `to` (of pinned_memory()) once the point is past; read() waits.
class PendingRead {
 public:
  PendingRead(Stream& stream, const BufferPtr& from, size_t offset, size_t bytes);
  // Waits, and returns the bytes, which live as long as this. Throws the error of the buffer's last write.
  const char* read();
  bool is_ready() const;

 private:
  std::shared_ptr<char> memory_;
  BufferPtr token_;
};
// Copies between two buffers, of one GPU or of two.
void copy(Stream& stream, const BufferPtr& from, size_t from_offset, const BufferPtr& to, size_t to_offset, size_t bytes);

}  // namespace thalweg::runtime::cuda
