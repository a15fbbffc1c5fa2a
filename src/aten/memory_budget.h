// One memory budget for Thalweg and PyTorch on a GPU: each gives its cached memory back when the other would run out.
#pragma once

#include <functional>

#include "runtime/device.h"

namespace thalweg::aten {

// From now on, before an allocation on `device` fails, `empty_torch_cache` is called without any lock, and before PyTorch's CUDA allocator asks the driver for
// memory, `device` gives back what nothing uses. Nothing is set aside in advance. Once per device; it must live as long as the process.
// False when this process has no PyTorch with CUDA: then nothing is changed.
bool share_memory_budget(runtime::Device& device, std::function<void()> empty_torch_cache);

// The same for the session's device, with PyTorch's own allocator, where it is a GPU. With THALWEG_GPU_MEMORY=torch in the environment, guest mode instead: all
// memory of the device comes in slabs from PyTorch's allocator; throws Error(Missing) where PyTorch has no CUDA.
void share_memory_budget(runtime::Device& device);

}  // namespace thalweg::aten
