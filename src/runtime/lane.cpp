// Lists of freed blocks: taking, giving from any thread, and the inbox.
#include "runtime/lane.h"

#include <algorithm>

#include "runtime/rules.h"

namespace thalweg::runtime {
namespace {

constexpr int kLooks = 4;  // blocks of foreign use that an allocation looks at

unsigned list_of(const Block& block) { return std::min(class_within(block.bytes), kSizeClasses - 1); }

}  // namespace

void LiveBytes::add(int64_t change) {
  int64_t after = now.fetch_add(change, std::memory_order_relaxed) + change;
  int64_t highest = peak.load(std::memory_order_relaxed);
  if (after <= highest) return;
  for (Lane* lane = lanes.load(std::memory_order_acquire); lane; lane = lane->next_lane_) after += lane->unsettled_.load(std::memory_order_relaxed);
  while (after > highest && !peak.compare_exchange_weak(highest, after, std::memory_order_relaxed)) {
  }
}

Lane::Lane(LiveBytes& live) : live_(live), next_lane_(live.lanes.load()) {
  while (!live.lanes.compare_exchange_weak(next_lane_, this)) {
  }
}

void Lane::open(Axis& axis, Queue* queue) {
  std::lock_guard guard(lock_);
  axis_ = &axis;
  queue_ = queue;
}

void Lane::settle() {
  int64_t change = unsettled_.load(std::memory_order_relaxed);
  if (change == 0) return;
  unsettled_.store(0, std::memory_order_relaxed);
  live_.add(change);
}

void Lane::count(int64_t change) {
  int64_t sum = unsettled_.load(std::memory_order_relaxed) + change;
  unsettled_.store(sum, std::memory_order_relaxed);
  int64_t step = live_.step.load(std::memory_order_relaxed);
  if (sum > step || step == 0) settle();
}

Block* Lane::unlink(List& list, Block* before, Block* block) {
  (before ? before->next : list.head) = block->next;
  if (list.tail == block) list.tail = before;
  block->next = nullptr;
  return block;
}

Block* Lane::take(unsigned size_class, bool use_done) {
  std::lock_guard guard(lock_);
  if (inbox_.load(std::memory_order_relaxed)) drain_inbox();
  Block* block = own_[size_class];
  if (block) {
    own_[size_class] = block->next;
    block->next = nullptr;
    ++counts_.own;
  } else if (use_done) {
    List& list = foreign_[size_class];
    Block* before = nullptr;
    int looks = 0;
    for (block = list.head; block && looks < kLooks; before = block, block = block->next, ++looks) {
      if (!block->is_complete() && holds(Rule::ForeignListChecks)) continue;
      unlink(list, before, block);
      ++counts_.foreign;
      break;
    }
    if (looks == kLooks) block = nullptr;
  }
  if (block) count(static_cast<int64_t>(block->bytes));
  return block;
}

Block* Lane::take_ordered(unsigned size_class) {
  std::lock_guard guard(lock_);
  List& list = foreign_[size_class];
  Block* before = nullptr;
  for (Block* block = list.head; block; before = block, block = block->next) {
    Frontier death = block->death();
    if (!std::all_of(death.begin(), death.end(), [&](const Point& point) { return axis_->is_after(point); })) continue;
    unlink(list, before, block);
    ++counts_.ordered;
    count(static_cast<int64_t>(block->bytes));
    return block;
  }
  return nullptr;
}

void Lane::adopt(Block* block) {
  std::lock_guard guard(lock_);
  block->lane = this;
  count(static_cast<int64_t>(block->bytes));
}

void Lane::put(Block* block) {
  block->set_state(BlockState::Cached);
  count(-static_cast<int64_t>(block->bytes));
  unsigned index = list_of(*block);
  if (block->died_on(axis_) || !holds(Rule::ForeignUseIsForeign)) {
    block->next = own_[index];
    own_[index] = block;
    return;
  }
  List& list = foreign_[index];
  block->next = nullptr;
  (list.tail ? list.tail->next : list.head) = block;
  list.tail = block;
}

void Lane::give(Block* block) {
  if (lock_.try_lock()) {
    put(block);
    lock_.unlock();
    return;
  }
  Block* head = inbox_.load(std::memory_order_relaxed);
  do {
    block->next = head;
  } while (!inbox_.compare_exchange_weak(head, block, std::memory_order_release, std::memory_order_relaxed));
}

void Lane::drain_inbox() {
  Block* block = inbox_.exchange(nullptr, std::memory_order_acquire);
  while (block) {
    Block* next = block->next;
    put(block);
    block = next;
  }
}

void Lane::measure(size_t& free, size_t& pending) {
  std::lock_guard guard(lock_);
  drain_inbox();
  settle();
  auto add = [&](const Block* block) {
    for (; block; block = block->next) (block->is_complete() ? free : pending) += block->bytes;
  };
  for (const Block* list : own_) add(list);
  for (const List& list : foreign_) add(list.head);
}

LaneCounts Lane::counts() {
  std::lock_guard guard(lock_);
  return counts_;
}

}  // namespace thalweg::runtime
