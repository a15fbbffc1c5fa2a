// Guest mode: slabs borrowed from another allocator and given back. No lock of ours is held while it is called.
#include <algorithm>
#include <utility>

#include "runtime/pool.h"
#include "support/error.h"

namespace thalweg::runtime {

void Pool::set_lender(SlabLender lender) {
  std::lock_guard guard(ordering_lock());
  THALWEG_CHECK(small_.committed() + large_.committed() == 0, Invalid, "guest mode was asked for after memory had been allocated on ", device_.name(),
                ": ask for it first");
  lender_ = std::make_unique<SlabLender>(std::move(lender));
}

bool Pool::borrow_slab(size_t bytes) {
  const size_t wanted = std::max((bytes + kSmallBytes - 1) / kSmallBytes * kSmallBytes, lender_->slab_bytes);
  Slab slab = lender_->take(wanted);
  // A slab of the usual size may be more than there is.
  if (slab.base == nullptr && wanted > bytes) slab = lender_->take(bytes);
  if (slab.base == nullptr) return false;
  std::lock_guard guard(ordering_lock());
  heap_for(bytes).add_slab(slab.base, slab.bytes / kGranule * kGranule, slab.after);
  ++counts_.fresh;
  ++counts_.system_calls;
  return true;
}

size_t Pool::return_slabs() {
  if (!lender_) return 0;
  std::vector<std::pair<char*, size_t>> idle;
  {
    std::lock_guard guard(ordering_lock());
    backend_.poll();
    flush_all();
    for (Heap* heap : {&small_, &large_}) {
      for (const auto& slab : heap->take_idle_slabs()) idle.push_back(slab);
    }
    if (!idle.empty()) ++counts_.system_calls;
  }
  size_t bytes = 0;
  for (const auto& [base, size] : idle) {
    bytes += size;
    lender_->give(base);
  }
  return bytes;
}

}  // namespace thalweg::runtime
