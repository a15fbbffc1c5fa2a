// Largest buffers first, each at the lowest offset that no overlapping one takes.
#include "plan/arena.h"

#include <algorithm>
#include <numeric>

namespace thalweg::plan {

Placement place(std::span<const Lifetime> lifetimes, int64_t alignment) {
  Placement result;
  result.offsets.assign(lifetimes.size(), 0);
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });
  std::vector<size_t> placed;  // by offset
  for (size_t i : order) {
    const Lifetime& life = lifetimes[i];
    const int64_t size = (life.bytes + alignment - 1) / alignment * alignment;
    if (size == 0) continue;
    int64_t offset = 0;
    for (size_t other : placed) {
      const Lifetime& o = lifetimes[other];
      if (o.last < life.first || o.first > life.last) continue;
      if (result.offsets[other] >= offset + size) break;
      offset = std::max(offset, result.offsets[other] + (o.bytes + alignment - 1) / alignment * alignment);
    }
    result.offsets[i] = offset;
    result.total = std::max(result.total, offset + size);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), offset, [&](int64_t at, size_t other) { return at < result.offsets[other]; }), i);
  }
  return result;
}

}  // namespace thalweg::plan
