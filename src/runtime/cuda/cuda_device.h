// NVIDIA GPUs as devices: streams of the driver, memory by mapped pages, one context shared with everything else in the process.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/cuda/driver.h"
#include "runtime/device.h"

namespace thalweg::runtime::cuda {

// What a GPU is.
struct Properties {
  std::string name;
  int ordinal = 0;
  int major = 0, minor = 0;  // compute capability: 9, 0 for Hopper
  int multiprocessors = 0;
  int max_threads_per_block = 0;
  int shared_bytes_per_block = 0;  // at most, with the opt-in of Kernel::allow_shared_bytes
  size_t l2_bytes = 0;
  size_t memory_bytes = 0;
};

// GPU `ordinal` of this process (as in CUDA_VISIBLE_DEVICES); made on first use together with its primary context, never destroyed. Any thread.
// Throws Error(Missing) without driver or GPU, Error(Invalid) for an ordinal that does not exist, Error(Device) in a forked child.
Device& device(int ordinal = 0);
// A further device over the same GPU, with memory and streams of its own: for tests and tools. All its buffers must be gone before it ends.
std::shared_ptr<Device> make_device(int ordinal = 0);

// Of a device of this backend; Error(Invalid) for others.
const Properties& properties(const Device& device);
Context context(const Device& device);
bool is_cuda(const Device& device);

// The driver's stream behind `stream`, e.g. to hand it to a library; null for streams of other backends. Work put there by hand must be declared: see
// wrap_stream() and Stream::mark().
StreamHandle native_stream(Stream& stream);

// A stream of somebody else, e.g. PyTorch's current one, as ours; it is not destroyed with the result and must outlive it, and the capture that it is in
// when the result ends. Work that others put there is
// ordered against ours by Stream::mark() alone: see order_after().
// Throws Error(Device) while the stream is capturing a graph, Error(Invalid) when it belongs to another device.
std::unique_ptr<Stream> wrap_stream(Device& device, StreamHandle native, std::string name);

// All work put on `later` from now on runs after all that is queued on `earlier` now, by us or, for wrapped streams, by anybody. No host wait.
// Throws Error(Device) while either is capturing a graph.
void order_after(Stream& later, Stream& earlier);

// To be called inside work that a stream of this backend is issuing: `check` is called on some thread of ours once the device has completed the work, before
// anybody sees it completed. An Error that it throws becomes the error of the submission, as if the work had thrown it. It must be short, take no locks
// and make no calls of the driver: it looks at pinned memory that the device wrote.
void on_complete(std::function<void()> check);

// Free and total bytes of the GPU, over all processes.
struct SystemMemory {
  size_t free = 0, total = 0;
};
SystemMemory system_memory(const Device& device);

}  // namespace thalweg::runtime::cuda
