// PyTorch's caching allocator of GPU memory, which gives up what it keeps when we would run out.
#include <c10/core/CachingDeviceAllocator.h>

#include "aten/memory_budget.h"
#include "aten/torch_headers.h"
#include "runtime/cuda/cuda_device.h"

namespace thalweg::aten {

void share_memory_budget(runtime::Device& device) {
  if (!runtime::cuda::is_cuda(device)) return;
  share_memory_budget(device, [] {
    // Null or of another kind until PyTorch has used the GPU.
    if (auto* cache = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(c10::kCUDA)); cache && cache->initialized()) cache->emptyCache();
  });
}

}  // namespace thalweg::aten
