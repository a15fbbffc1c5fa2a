// PyTorch's own CUDA beside device xla on the same GPU: its streams as ours, and its tensors over our memory. No header of CUDA is needed.
#pragma once

#include <c10/core/StreamGuard.h>

#include "aten/torch_headers.h"
#include "lazy/session.h"

namespace thalweg::aten {

// True when device xla computes on a GPU that this process's PyTorch can use too. The first call that says so makes both ready. Any thread.
bool has_torch_cuda();
// That GPU by PyTorch's number. Like everything below only where has_torch_cuda().
c10::Device cuda_device();
// True for a strided CUDA tensor on that GPU.
bool is_on_our_gpu(const at::TensorBase& tensor);

// PyTorch's current stream on this thread, as one of ours. Lives for ever, like the stream itself.
runtime::Stream& torch_stream();
// Our compute stream as PyTorch's work sees it: to run PyTorch's kernels on, see OnComputeStream.
runtime::Stream& shared_compute_stream();
// Where others may have queued work on exposed memory: the default stream, and PyTorch's current one. On any GPU, also without PyTorch's CUDA.
std::vector<runtime::Stream*> outside_streams();
// See lazy::Session::set_exposed_order.
void order_exposed(const runtime::BufferPtr& buffer);
// The same for one stream of somebody else, by the driver's handle.
void order_stream_after_us(void* handle, const runtime::BufferPtr& buffer);
// All streams that PyTorch has been seen to use; what is queued on them now counts as a use of `buffer`. Never throws.
void add_torch_uses(runtime::Buffer& buffer) noexcept;

// While it lives, PyTorch's work of this thread goes to our compute stream.
class OnComputeStream {
 public:
  OnComputeStream();

 private:
  c10::StreamGuard guard_;
};

// Work that PyTorch puts on `stream` by itself, and the buffers of ours that it touches: read() and write() name them, begin() makes the stream wait for what
// they need, end() says that the work has been put there. No host wait. What is written carries the errors of what is read.
class TorchWork {
 public:
  explicit TorchWork(runtime::Stream& stream) : stream_(stream) {}
  void read(runtime::BufferPtr buffer) { reads_.push_back(std::move(buffer)); }
  void write(runtime::BufferPtr buffer) { writes_.push_back(std::move(buffer)); }
  void begin();
  void end();

 private:
  void submit(const char* label);
  runtime::Stream& stream_;
  std::vector<runtime::BufferPtr> reads_, writes_;
};

// A CUDA storage over `bytes` at `address`, which somebody else keeps alive. PyTorch may give it other memory (resize_).
c10::Storage cuda_storage_over(void* address, size_t bytes);
// A CUDA tensor over `storage` with everything else as `like` has it.
at::Tensor cuda_tensor(const c10::Storage& storage, const at::Tensor& like);

}  // namespace thalweg::aten
