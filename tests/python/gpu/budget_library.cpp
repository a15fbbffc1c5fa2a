// The C functions that test_budget.py calls: Thalweg's GPU memory beside PyTorch's, without the torch device.
#include <cstdint>
#include <memory>
#include <string>

#include "aten/memory_budget.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/pooled_device.h"
#include "support/error.h"

namespace {

using namespace thalweg::runtime;

std::string last_error;

// The device that borrows, once there is one; else the one in the cooperative budget.
std::shared_ptr<Device> guest;
Device& gpu() { return guest ? *guest : cuda::device(0); }

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

// The text of the last allocation that failed.
EXPORT const char* thalweg_error() { return last_error.c_str(); }
// 1 when the budget is shared with PyTorch.
EXPORT int thalweg_share(void (*empty_torch_cache)()) { return thalweg::aten::share_memory_budget(gpu(), empty_torch_cache); }
// From now on another device, whose memory comes from `take` (0: it has none) and goes back to `give`; null functions: back to the first one.
EXPORT void thalweg_borrow(void* (*take)(size_t bytes), void (*give)(void* base)) {
  guest.reset();
  if (take == nullptr) return;
  guest = cuda::make_device(0);
  SlabLender lender;
  lender.take = [take](size_t bytes) {
    char* base = static_cast<char*>(take(bytes));
    return Slab{base, base ? bytes : 0, {}};
  };
  lender.give = give;
  static_cast<PooledDevice&>(*guest).set_lender(std::move(lender));
}
// A buffer filled with `value`, null when there is no memory.
EXPORT void* thalweg_allocate(size_t bytes, int value) {
  try {
    BufferPtr buffer = gpu().compute_stream().allocate(bytes);
    Submission(gpu().compute_stream()).write(buffer).label("filled").run([to = buffer->data(), bytes, value](void* native) {
      cuda::check(
          cuda::driver().fill_bytes(reinterpret_cast<cuda::DevicePtr>(to), static_cast<unsigned char>(value), bytes, static_cast<cuda::StreamHandle>(native)),
          "fill memory");
    });
    return new BufferPtr(std::move(buffer));
  } catch (const thalweg::Error& error) {
    last_error = error.what();
    return nullptr;
  }
}
EXPORT void* thalweg_data(void* buffer) { return (*static_cast<BufferPtr*>(buffer))->data(); }
EXPORT void thalweg_free(void* buffer) { delete static_cast<BufferPtr*>(buffer); }
EXPORT void thalweg_synchronize() { gpu().synchronize(); }
EXPORT size_t thalweg_reserved() { return gpu().memory().reserved; }
EXPORT size_t thalweg_trim() { return gpu().trim(); }
