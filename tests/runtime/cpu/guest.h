// A device that is a guest: its memory comes in slabs from another allocator, here malloc.
#pragma once

#include <cstdlib>
#include <map>
#include <mutex>

#include "runtime/cpu/cpu_device.h"
#include "runtime/pooled_device.h"

namespace thalweg::runtime::cpu {

inline constexpr size_t kMost = size_t{1} << 30;  // that malloc lends

// What is lent.
struct Lent {
  std::mutex lock;
  std::map<char*, size_t> slabs;
  size_t bytes = 0;
};

// Lends up to kMost bytes.
inline std::shared_ptr<Device> make_guest() {
  auto device = make_device(1);
  auto lent = std::make_shared<Lent>();
  SlabLender lender;
  lender.slab_bytes = size_t{2} << 20;
  lender.take = [lent](size_t bytes) -> Slab {
    std::lock_guard guard(lent->lock);
    if (lent->bytes + bytes > kMost) return {};
    auto* base = static_cast<char*>(std::aligned_alloc(256, bytes));
    lent->slabs[base] = bytes;
    lent->bytes += bytes;
    return {base, bytes, {}};
  };
  lender.give = [lent](char* base) {
    std::lock_guard guard(lent->lock);
    lent->bytes -= lent->slabs.at(base);
    lent->slabs.erase(base);
    std::free(base);
  };
  static_cast<PooledDevice&>(*device).set_lender(std::move(lender));
  return device;
}

}  // namespace thalweg::runtime::cpu
