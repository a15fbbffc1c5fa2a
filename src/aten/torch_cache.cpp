// PyTorch's caching allocator of GPU memory: it gives up what it keeps when we would run out, or, in guest mode, lends us all that we have.
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/StreamGuard.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

#include "aten/memory_budget.h"
#include "aten/torch_headers.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/pooled_device.h"
#include "support/error.h"

namespace thalweg::aten {
namespace {

namespace cuda = runtime::cuda;

bool is_guest() {
  const char* text = std::getenv("THALWEG_GPU_MEMORY");
  if (text == nullptr || *text == 0 || std::string(text) == "own") return false;
  THALWEG_CHECK(std::string(text) == "torch", Invalid, "THALWEG_GPU_MEMORY names no way to memory: ", text, "; there are own and torch");
  return true;
}

// PyTorch's allocator as a lender. What it hands out was freed by work on the stream that it is asked for: ours, so that only our own streams and PyTorch's
// work for device xla can still be using it.
class TorchSlabs {
 public:
  explicit TorchSlabs(runtime::Device& device) : device_(device), stream_(cuda::native_stream(device.compute_stream())) {}

  runtime::Slab take(size_t bytes) noexcept {
    try {
      at::globalContext().lazyInitDevice(c10::kCUDA);
      const c10::Device place(c10::kCUDA, static_cast<c10::DeviceIndex>(device_.ordinal()));
      // The number of a stream of somebody else is its handle.
      const c10::StreamGuard guard(c10::Stream(c10::Stream::UNSAFE, place, reinterpret_cast<c10::StreamId>(stream_)));
      c10::DataPtr memory = c10::GetAllocator(c10::kCUDA)->allocate(bytes);
      char* base = static_cast<char*>(memory.get());
      runtime::Slab slab{base, base ? bytes : 0, {}};
      std::lock_guard lock(mutex_);
      if (!seen_) seen_ = cuda::wrap_stream(device_, stream_, "PyTorch's memory");
      seen_->mark();
      slab.after.add({&seen_->axis(), seen_->axis().submitted.load()});
      if (base) lent_.emplace(base, std::move(memory));
      return slab;
    } catch (...) {  // PyTorch is out of memory, too
      return {};
    }
  }
  void give(char* base) noexcept {
    c10::DataPtr memory;
    std::lock_guard lock(mutex_);
    if (auto found = lent_.find(base); found != lent_.end()) {
      memory = std::move(found->second);
      lent_.erase(found);
    }
  }

 private:
  runtime::Device& device_;
  const cuda::StreamHandle stream_;
  std::mutex mutex_;
  std::unique_ptr<runtime::Stream> seen_;
  std::map<char*, c10::DataPtr> lent_;
};

void borrow_from_torch(runtime::Device& device) {
  THALWEG_CHECK(at::hasCUDA(), Missing, "THALWEG_GPU_MEMORY=torch needs a PyTorch with CUDA; this one has none");
  auto* slabs = new TorchSlabs(device);  // as long as the device, which is never destroyed
  runtime::SlabLender lender;
  lender.take = [slabs](size_t bytes) { return slabs->take(bytes); };
  lender.give = [slabs](char* base) { slabs->give(base); };
  static_cast<runtime::PooledDevice&>(device).set_lender(std::move(lender));
}

}  // namespace

void share_memory_budget(runtime::Device& device) {
  if (!cuda::is_cuda(device)) return;
  if (is_guest()) return borrow_from_torch(device);
  share_memory_budget(device, [] {
    // Null or of another kind until PyTorch has used the GPU.
    if (auto* cache = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(c10::kCUDA)); cache && cache->initialized()) cache->emptyCache();
  });
}

}  // namespace thalweg::aten
