// Bytes between the host and the session's device, whichever it is: the one place of lazy/ that knows that a CPU's memory is the host's and a GPU's is not.
#pragma once

#include <memory>

#include "runtime/device.h"

namespace thalweg::lazy {

// True when the host may use the device's addresses.
bool is_host_memory(const runtime::Device& device);

// A new buffer with a copy of `bytes` host bytes, of which `kept` come from `source` and the rest are zeros. `source` may be reused at once.
runtime::BufferPtr from_host(runtime::Device& device, const void* source, size_t kept, size_t bytes);
// The same of a GPU's, from pinned memory that is kept until it has been read.
runtime::BufferPtr from_pinned(runtime::Device& device, std::shared_ptr<char> source, size_t bytes);
// A new buffer of `bytes` with the first `kept` of `from`'s, which has been written, and zeros behind them. In stream order.
runtime::BufferPtr duplicate(runtime::Device& device, const runtime::BufferPtr& from, size_t kept, size_t bytes);
// Copies the first `bytes` of `from` into `to`, as a submission on the compute stream.
void overwrite(runtime::Device& device, const runtime::BufferPtr& from, const runtime::BufferPtr& to, size_t bytes);
// The bytes where the host may read and write them, once all work on them has run: of host memory the buffer itself, else a copy. Throws the error of the last
// write.
std::shared_ptr<void> to_host(runtime::Device& device, const runtime::BufferPtr& from);

}  // namespace thalweg::lazy
