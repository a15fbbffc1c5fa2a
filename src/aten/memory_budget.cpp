// Registration with PyTorch's list of callbacks that free memory. The list is looked up at run time: PyTorch builds without CUDA have none.
#include "aten/memory_budget.h"

#include <c10/util/Registry.h>
#include <dlfcn.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/pooled_device.h"

namespace c10 {

// PyTorch's interface of such a callback, as its allocator calls it.
class FreeMemoryCallback {
 public:
  virtual ~FreeMemoryCallback() = default;
  virtual bool Execute() = 0;
};

}  // namespace c10

namespace thalweg::aten {
namespace {

constexpr size_t kWorthTrimming = size_t{32} << 20;

// The devices in the budget. Never destroyed.
struct Members {
  std::mutex lock;
  std::vector<runtime::Device*> devices;
};
Members& members() {
  static Members& instance = *new Members;
  return instance;
}

// Called by PyTorch under its own lock, when its cache has no block of the size and before it asks the driver; it is not told the size. It calls nothing of
// PyTorch, and only memory that nothing uses moves.
class GiveBack final : public c10::FreeMemoryCallback {
 public:
  bool Execute() override {
    std::vector<runtime::Device*> devices;
    {
      std::lock_guard guard(members().lock);
      devices = members().devices;
    }
    size_t given = 0;
    for (runtime::Device* device : devices) {
      if (device->memory().cached >= kWorthTrimming) given += device->trim();
    }
    return given > 0;
  }
};

using Registry = c10::Registry<std::string, std::unique_ptr<c10::FreeMemoryCallback>>;

bool register_once() {
  static const bool done = [] {
    void* found = dlsym(RTLD_DEFAULT, "_ZN3c1031FreeCudaMemoryCallbacksRegistryB5cxx11Ev");
    if (found == nullptr) {
      // Python loads PyTorch's libraries without showing their symbols to everybody.
      if (void* library = dlopen("libc10_cuda.so", RTLD_NOW | RTLD_NOLOAD)) found = dlsym(library, "_ZN3c1031FreeCudaMemoryCallbacksRegistryB5cxx11Ev");
    }
    if (found == nullptr) return false;
    reinterpret_cast<Registry* (*)()>(found)()->Register("thalweg", [] { return std::unique_ptr<c10::FreeMemoryCallback>(new GiveBack); });
    return true;
  }();
  return done;
}

}  // namespace

bool share_memory_budget(runtime::Device& device, std::function<void()> empty_torch_cache) {
  if (!register_once()) return false;
  {
    std::lock_guard guard(members().lock);
    members().devices.push_back(&device);
  }
  static_cast<runtime::PooledDevice&>(device).set_memory_relief([empty = std::move(empty_torch_cache)](size_t) {
    empty();
    return true;
  });
  return true;
}

}  // namespace thalweg::aten
