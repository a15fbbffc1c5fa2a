// Allocations at symmetric addresses: AllocFlags::symmetric.
#include <algorithm>
#include <utility>

#include "runtime/history.h"
#include "runtime/pool.h"
#include "runtime/rules.h"
#include "support/error.h"

namespace thalweg::runtime {

char* Pool::symmetric_base() {
  std::lock_guard guard(ordering_lock());
  return symmetric_heap_.base();
}

Block* Pool::allocate_symmetric(Lane& lane, size_t bytes, size_t padding, AllocFlags flags) {
  const size_t padded = bytes <= kLargestBytes - padding ? std::max<size_t>(bytes + padding, 1) : kLargestBytes;
  const size_t rounded = (padded + kGranule - 1) / kGranule * kGranule;
  std::string message;
  // What waiting for queued work and giving cached memory back brings, then what others give back.
  for (int round = 0; round < 3; ++round) {
    Frontier queued;
    {
      std::lock_guard guard(ordering_lock());
      backend_.poll();
      drain_symmetric();
      if (round > 0) {
        flush_all();
        if (!lender_) small_.trim(), large_.trim();
      }
      if (Block* block = fits(rounded) ? take_symmetric(lane, rounded, flags) : nullptr) return block;
      message = out_of_memory(lane, bytes, flags);
      if (flags.no_growth || flags.no_hidden_wait || round == 2) break;
      for (auto& each : lanes_) queued.add({&each->axis(), each->axis().submitted.load()});
    }
    if (round == 1 && !ask_for_relief(bytes)) break;
    if (backend_.running_here() != nullptr) continue;
    for (const Point& point : queued) {
      if (!point.axis->held_up.load()) point.axis->wait(point.epoch);
    }
  }
  {
    std::lock_guard guard(ordering_lock());
    ++counts_.failures;
  }
  if (History* recording = history.load()) recording->out_of_memory(bytes, lane.axis().name);
  throw Error(ErrorKind::OutOfMemory, message);
}

// Null when there is no memory, or none that the stream may have without a wait that it must not make.
Block* Pool::take_symmetric(Lane& lane, size_t bytes, AllocFlags flags) {
  SymmetricHeap::Place place = symmetric_heap_.take(bytes, !flags.no_growth);
  if (place.base == nullptr) return nullptr;
  const bool must_wait =
      std::any_of(place.after.begin(), place.after.end(), [&](const Point& point) { return !lane.axis().is_after(point) && !is_done(point); });
  if (must_wait) {
    if (flags.no_hidden_wait || lane.queue() == nullptr) {
      symmetric_heap_.give(place.base, place.after);
      return nullptr;
    }
    wait_on_stream(lane, place.after, holds(Rule::SymmetricWait));
  }
  auto block = std::make_unique<Block>(device_, *this, nullptr);
  block->set_base(place.base);
  block->bytes = bytes;
  block->lane = &lane;
  block->symmetric = true;
  live_.add(static_cast<int64_t>(bytes));
  return (symmetric_[place.base] = std::move(block)).get();
}

// Any thread; never blocks. The heap gets the memory back at the next call that looks at it, in the order of the frees.
void Pool::free_symmetric(Block* block) {
  if (hooks_.freed) hooks_.freed(*block);
  block->set_state(BlockState::Cached);
  live_.add(-static_cast<int64_t>(block->bytes));
  std::lock_guard guard(symmetric_freed_lock_);
  symmetric_freed_.push_back(block);
}

void Pool::drain_symmetric() {
  std::vector<Block*> freed;
  {
    std::lock_guard guard(symmetric_freed_lock_);
    freed.swap(symmetric_freed_);
  }
  for (Block* block : freed) {
    symmetric_heap_.give(block->base(), block->death());
    symmetric_.erase(block->base());
  }
}

}  // namespace thalweg::runtime
