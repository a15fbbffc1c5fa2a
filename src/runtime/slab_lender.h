// Guest mode: a device's memory as slabs from another allocator in the process, such as PyTorch's, whose numbers then hold ours too.
#pragma once

#include <cstddef>
#include <functional>

#include "runtime/frontier.h"

namespace thalweg::runtime {

// Memory that somebody else's allocator handed out.
struct Slab {
  char* base = nullptr;  // null: there is none. Aligned to 256 bytes
  size_t bytes = 0;
  Frontier after;  // queued work that may still use it, from before it was handed out
};

// The other allocator. Both functions are called without any lock of ours, on any thread, and must be safe for that.
struct SlabLender {
  // At least `bytes` bytes, or none. Must not throw.
  std::function<Slab(size_t bytes)> take;
  // Takes a slab back, which nothing uses any more: all work on it has completed. Must not throw.
  std::function<void(char* base)> give;
  size_t slab_bytes = size_t{64} << 20;  // asked for at a time; more for larger allocations
};

}  // namespace thalweg::runtime
