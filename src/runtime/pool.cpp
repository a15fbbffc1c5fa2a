// The ladder of an allocation: lane, heap, system, memory that the stream or the host waits for.
#include "runtime/pool.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "runtime/history.h"
#include "runtime/race_checker.h"
#include "runtime/rules.h"
#include "support/error.h"

namespace thalweg::runtime {
namespace {

constexpr size_t kSmallRange = size_t{64} << 30;  // addresses for blocks of kSmallBytes and less
constexpr size_t kLargeRange = size_t{1} << 40;   // and for larger ones
constexpr int kHostWaits = 3;                     // rounds of waiting for queued work before an allocation fails
constexpr size_t kIdleShare = 256;                // with more than 1/256 of the memory in idle pages, they are moved rather than more memory taken
constexpr int kBorrows = 3;                       // slabs that an allocation borrows, should other threads take them before it
constexpr auto kGatherTime = std::chrono::microseconds(200);

constexpr uint64_t kNever = ~uint64_t{0};

// Work that has to complete before `frontier` has; kNever when that may take for ever.
uint64_t outstanding(const Frontier& frontier) {
  uint64_t sum = 0;
  for (const Point& point : frontier) {
    uint64_t done = point.axis->done.value();
    if (done >= point.epoch) continue;
    if (point.axis->held_up.load(std::memory_order_relaxed)) return kNever;
    sum += point.epoch - done;
  }
  return sum;
}

}  // namespace

Pool::Pool(Backend& backend, Device& device, Hooks hooks)
    : backend_(backend),
      device_(device),
      hooks_(std::move(hooks)),
      watched_(backend.wants_accesses() || race_checker.load() != nullptr),
      small_(backend, device, *this, kGranule, kSmallRange),
      large_(backend, device, *this, kLargeGranule, kLargeRange),
      apart_(backend),
      symmetric_heap_(backend) {}

Pool::~Pool() { return_slabs(); }

Lane& Pool::open_lane(Axis& axis, Queue* queue) {
  std::lock_guard guard(ordering_lock());
  Lane* lane;
  if (!closed_lanes_.empty()) {
    lane = closed_lanes_.back();
    closed_lanes_.pop_back();
    flush(*lane);
  } else {
    lane = lanes_.emplace_back(std::make_unique<Lane>(live_)).get();
  }
  lane->open(axis, queue);
  return *lane;
}

void Pool::close_lane(Lane& lane) {
  std::lock_guard guard(ordering_lock());
  lane.close();
  flush(lane);
  closed_lanes_.push_back(&lane);
}

BufferPtr Pool::allocate(Lane& lane, size_t bytes, AllocFlags flags, size_t padding) {
  if (flags.deterministic) [[unlikely]]
    set_deterministic();
  unsigned size_class = bytes <= kLargestBytes - padding ? class_for(bytes + padding) : kSizeClasses;
  Block* block = nullptr;
  if (flags.symmetric) [[unlikely]] {
    block = allocate_symmetric(lane, bytes, padding, flags);
  } else if (size_class < kSizeClasses && limit_.load(std::memory_order_relaxed) == 0) [[likely]] {
    block = lane.take(size_class, !deterministic_.load(std::memory_order_relaxed));
  }
  if (block == nullptr) [[unlikely]]
    block = allocate_slow(lane, size_class, bytes, flags);
  // The birth point: whatever this stream is ordered after by now, a later user on another stream must be as well.
  Axis& axis = lane.axis();
  block->start_life(bytes, Point{&axis, axis.submitted.load(std::memory_order_acquire)});
  if (watched_) [[unlikely]]
    block->set_life(1 + lives_.fetch_add(1, std::memory_order_relaxed));
  if (History* recording = history.load(std::memory_order_relaxed)) [[unlikely]]
    recording->allocated(*block, axis.name);
  return BufferPtr::adopt_new(block);
}

BufferPtr Pool::allocate_apart(Lane& lane, size_t bytes) {
  std::string message;
  for (int round = 0; round < 2; ++round) {
    Frontier queued;
    {
      std::lock_guard guard(ordering_lock());
      char* data = fits(bytes) ? apart_.take(bytes) : nullptr;
      if (data != nullptr) {
        auto release = [this, data] {
          std::lock_guard guard(ordering_lock());
          apart_.give(data);
        };
        return wrap(data, bytes, release, ReleaseOn::AnyThread);
      }
      for (auto& each : lanes_) queued.add({&each->axis(), each->axis().submitted.load()});
      message = out_of_memory(lane, bytes, {});
    }
    // What waits for queued work may make room.
    if (backend_.running_here() == nullptr) {
      for (const Point& point : queued) point.axis->wait(point.epoch);
    }
  }
  throw Error(ErrorKind::OutOfMemory, message);
}

Block* Pool::allocate_slow(Lane& lane, unsigned size_class, size_t bytes, AllocFlags flags) {
  std::string message;
  bool relieved = size_class >= kSizeClasses;  // by what others gave back: asked for once
  int borrows = lender_ && !flags.no_growth ? kBorrows : 0;
  for (int round = 0;; ++round) {
    Frontier wait_for;
    bool borrow = false;
    {
      std::lock_guard guard(ordering_lock());
      if (size_class < kSizeClasses) {
        // A slab more comes before waiting, as fresh memory does.
        AllocFlags now = flags;
        now.no_hidden_wait = flags.no_hidden_wait || borrows > 0;
        if (Block* block = search(lane, size_class, now)) return block;
        borrow = borrows > 0 && fits(class_bytes(size_class));
        if (!borrow && !flags.no_hidden_wait && round < kHostWaits && backend_.running_here() == nullptr && fits(class_bytes(size_class))) {
          wait_for = worth_waiting_for(round == 0 ? class_bytes(size_class) : kLargestBytes);
        }
      }
      if (!borrow && wait_for.empty() && (relieved || flags.no_growth)) {
        ++counts_.failures;
        message = out_of_memory(lane, bytes, flags);
        if (History* recording = history.load()) recording->out_of_memory(bytes, lane.axis().name);
        break;
      }
      if (!wait_for.empty()) ++counts_.host_waits;
    }
    if (borrow) {
      borrows = borrow_slab(class_bytes(size_class)) ? borrows - 1 : 0;
      --round;
      continue;
    }
    if (wait_for.empty()) {
      relieved = true;
      if (return_slabs() > 0) borrows = 1;
      ask_for_relief(bytes);
    }
    for (const Point& point : wait_for) point.axis->wait(point.epoch);
  }
  throw Error(ErrorKind::OutOfMemory, message);
}

Block* Pool::search(Lane& lane, unsigned size_class, AllocFlags flags) {
  const size_t bytes = class_bytes(size_class);
  const bool use_done = !deterministic_.load(std::memory_order_relaxed);
  backend_.poll();
  if (!fits(bytes)) {
    flush_all();
    if (!fits(bytes)) return nullptr;
  }
  if (Block* block = lane.take(size_class, use_done)) return block;
  if (Block* block = lane.take_ordered(size_class)) return block;
  Heap::Usable usable = [&, use_done](const Block& block) {
    if (!holds(Rule::HeapChecksOrder)) return true;
    for (const Point& point : block.death()) {
      if (!lane.axis().is_after(point) && !(use_done && is_done(point))) return false;
    }
    return true;
  };
  Block* block = take_free(lane, bytes, usable);
  const bool may_grow = !flags.no_growth && !lender_;
  if (block == nullptr && may_grow) block = grow(lane, bytes, usable);
  if (block == nullptr && !flags.no_hidden_wait) block = take_ahead(lane, bytes);
  if (block == nullptr && may_grow) {
    // Give back what nothing uses; then the limit is only that of the live bytes, since pages and fragments may stand over.
    ++counts_.trims;
    ++counts_.system_calls;
    small_.trim();
    large_.trim();
    block = heap_for(bytes).grow(bytes, usable);
    if (block) ++counts_.fresh;
  }
  if (block) lane.adopt(block);
  return block;
}

Block* Pool::take_free(Lane& lane, size_t bytes, const Heap::Usable& usable) {
  Heap& heap = heap_for(bytes);
  Block* block = heap.take(bytes, usable);
  if (block == nullptr) {
    flush(lane);
    block = heap.take(bytes, usable);
  }
  if (block == nullptr) {
    flush_all();
    heap.consolidate();
    block = heap.take(bytes, usable);
  }
  if (block) ++counts_.heap;
  return block;
}

Block* Pool::grow(Lane& lane, size_t bytes, const Heap::Usable& usable) {
  Heap& heap = heap_for(bytes);
  size_t limit = limit_.load(std::memory_order_relaxed);
  if (limit != 0 && small_.committed() + large_.committed() + heap.growth(bytes) > limit) return nullptr;
  move_idle_pages(heap.growth(bytes));
  Block* block = heap.grow(bytes, usable);
  ++counts_.system_calls;
  if (block) ++counts_.fresh;
  return block;
}

// Before growing: pages that are no use where they lie, in blocks too small for what is asked or in the other heap, are given back for those about to be taken.
void Pool::move_idle_pages(size_t bytes) {
  if (deterministic_.load(std::memory_order_relaxed)) return;  // when work is done decides what is idle
  const size_t small = small_.idle(), large = large_.idle();
  if ((small + large) * kIdleShare < small_.committed() + large_.committed()) return;
  ++counts_.system_calls;
  const size_t given = (small > large ? small_ : large_).trim(bytes);
  if (given < bytes) (small > large ? large_ : small_).trim(bytes - given);
}

// Takes the free block with least work before it, and makes the stream wait for that work.
Block* Pool::take_ahead(Lane& lane, size_t bytes) {
  const Block* best = nullptr;
  uint64_t best_work = 0;
  heap_for(bytes).take(bytes, [&](const Block& block) {
    uint64_t work = outstanding(block.death());
    if (work != kNever && (best == nullptr || work < best_work)) best = &block, best_work = work;
    return false;
  });
  if (best == nullptr || lane.queue() == nullptr) return nullptr;
  Block* block = heap_for(bytes).take(bytes, [&](const Block& candidate) { return &candidate == best; });
  wait_on_stream(lane, block->death(), holds(Rule::HiddenWait));
  return block;
}

// Makes the lane's stream wait for `points`.
void Pool::wait_on_stream(Lane& lane, const Frontier& points, bool in_force) {
  Task task;
  if (in_force) {
    for (const Point& point : points) lane.axis().add_wait(point, task.waits);
  }
  task.label = "wait for memory";
  task.epoch = lane.axis().next_epoch();
  note_task(lane.axis(), task, std::source_location::current());
  lane.queue()->push(std::move(task));
  ++counts_.hidden_waits;
}

// The points whose completion makes at least 1.1 times `bytes` of freed memory complete, those nearest to completion first.
Frontier Pool::worth_waiting_for(size_t bytes) {
  std::vector<std::pair<uint64_t, const Block*>> pending;
  auto add = [&](Block& block) {
    if (block.state() != BlockState::Free) return;
    uint64_t work = outstanding(block.death());
    if (work != 0 && work != kNever) pending.emplace_back(work, &block);
  };
  small_.each(add);
  large_.each(add);
  std::sort(pending.begin(), pending.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  Frontier points;
  size_t covered = 0;
  for (const auto& [work, block] : pending) {
    if (covered >= bytes + bytes / 10) break;
    covered += block->bytes;
    points.join(block->death());
  }
  return points;
}

void Pool::flush(Lane& lane) {
  lane.flush([](Block* block) { block->heap->give(block); });
}

void Pool::flush_all() {
  empty_quarantine();
  for (auto& lane : lanes_) flush(*lane);
}

bool Pool::fits(size_t bytes) const {
  size_t limit = limit_.load(std::memory_order_relaxed);
  return limit == 0 || static_cast<size_t>(live_.now.load(std::memory_order_relaxed)) + bytes <= limit;
}

BufferPtr Pool::wrap(void* data, size_t bytes, std::function<void()> release, ReleaseOn where) {
  auto block = std::make_unique<Block>(device_, *this, nullptr);
  block->set_base(static_cast<char*>(data));
  block->bytes = bytes;
  block->release = std::make_unique<std::function<void()>>(std::move(release));
  block->release_apart = where == ReleaseOn::OwnThread;
  block->start_life(bytes, Point{});
  block->set_state(BlockState::Wrapped);
  live_.add(static_cast<int64_t>(bytes));
  adopted_.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed);
  if (watched_) block->set_life(1 + lives_.fetch_add(1, std::memory_order_relaxed));
  if (History* recording = history.load(std::memory_order_relaxed)) recording->allocated(*block, "adopted");
  enlist(block.get());
  return BufferPtr(block.release());
}

void Pool::enlist(Block* block) {
  std::lock_guard guard(adopted_lock_);
  block->address_next = first_adopted_;
  if (first_adopted_) first_adopted_->address_previous = block;
  first_adopted_ = block;
}

void Pool::delist(Block* block) {
  std::lock_guard guard(adopted_lock_);
  (block->address_previous ? block->address_previous->address_next : first_adopted_) = block->address_next;
  if (block->address_next) block->address_next->address_previous = block->address_previous;
}

void Pool::recycle(Block* block) {
  if (History* recording = history.load(std::memory_order_relaxed)) [[unlikely]]
    recording->freed(*block, block->death());
  if (block->state() == BlockState::Wrapped) return block->pool->release(block);
  if (block->symmetric) [[unlikely]]
    return block->pool->free_symmetric(block);
  apply_foreign_rule(*block);
  Pool& pool = *block->pool;
  if (pool.hooks_.freed || pool.hooks_.quarantine != 0) [[unlikely]]
    return pool.give_back_watched(block);
  block->lane->give(block);
}

// In the debug modes: fills the block, and keeps it from reuse until enough others have been freed.
void Pool::give_back_watched(Block* block) {
  if (hooks_.freed) hooks_.freed(*block);
  if (hooks_.quarantine != 0) {
    std::lock_guard guard(quarantine_lock_);
    quarantine_.push_back(block);
    if (quarantine_.size() <= hooks_.quarantine) return;
    block = quarantine_.front();
    quarantine_.pop_front();
  }
  block->lane->give(block);
}

void Pool::empty_quarantine() {
  std::lock_guard guard(quarantine_lock_);
  for (Block* block : quarantine_) block->lane->give(block);
  quarantine_.clear();
}

void Pool::release(Block* block) {
  delist(block);
  std::unique_ptr<Block> owner(block);
  live_.add(-static_cast<int64_t>(block->bytes));
  adopted_.fetch_sub(static_cast<int64_t>(block->bytes), std::memory_order_relaxed);
  if (!*block->release) return;
  auto call = [this, release = std::move(*block->release)] {
    try {
      release();
    } catch (...) {
      failed_releases_.fetch_add(1, std::memory_order_relaxed);  // nobody is left who could be told
    }
  };
  Frontier after = block->death();
  const bool now = is_done(after) || !holds(Rule::ReleaseNeedsCompletion);
  if (now && block->release_apart) return release_soon(std::move(call));
  if (now) return call();
  hooks_.release_later(after, std::move(call));
}

// Hands a release function to a thread of the device's own. It gathers for a moment: waking the thread for each one would cost more than all the rest.
void Pool::release_soon(std::function<void()> call) {
  {
    std::lock_guard guard(due_lock_);
    due_.push_back(std::move(call));
    if (due_.size() > 1 && due_process_ == getpid()) return;
    due_process_ = getpid();
  }
  hooks_.release_later({}, [this] {
    std::this_thread::sleep_for(kGatherTime);
    std::vector<std::function<void()>> due;
    {
      std::lock_guard guard(due_lock_);
      due.swap(due_);
    }
    for (auto& each : due) each();
  });
}

MemoryInfo Pool::measure() {
  MemoryInfo info;
  size_t quarantined = 0;
  if (hooks_.quarantine != 0) {
    std::lock_guard guard(quarantine_lock_);
    for (const Block* block : quarantine_) quarantined += block->bytes;
  }
  for (auto& lane : lanes_) lane->measure(info.cached, info.pending);
  auto add = [&](Block& block) {
    if (block.state() == BlockState::Free) (block.is_complete() ? info.cached : info.pending) += block.bytes;
  };
  each_block(add);
  drain_symmetric();
  const size_t symmetric_pending = symmetric_heap_.pending();
  info.pending += symmetric_pending;
  info.cached += symmetric_heap_.committed() - symmetric_heap_.live() - symmetric_pending;
  info.adopted = static_cast<size_t>(std::max<int64_t>(0, adopted_.load()));
  info.live = static_cast<size_t>(std::max<int64_t>(0, live_.now.load() - static_cast<int64_t>(quarantined + info.adopted)));
  info.pending += quarantined;
  info.peak_live = static_cast<size_t>(std::max<int64_t>(0, live_.peak.load()));
  info.reserved = small_.committed() + large_.committed() + symmetric_heap_.committed();
  info.limit = limit_.load();
  return info;
}

std::vector<MemoryBlock> Pool::blocks() {
  std::lock_guard guard(ordering_lock());
  backend_.poll();
  flush_all();
  History* recording = latest_history();
  std::vector<MemoryBlock> all;
  auto add = [&](Block& block) {
    MemoryBlock& entry = all.emplace_back();
    entry.address = reinterpret_cast<uintptr_t>(block.base());
    entry.bytes = block.bytes;
    entry.requested = block.size();
    entry.live = block.state() == BlockState::Live;
    entry.pending = !entry.live && block.state() != BlockState::Wrapped && !block.is_complete();
    if (block.state() == BlockState::Wrapped) {
      entry.live = true;
      entry.stream = "adopted";
    } else if (entry.live) {
      entry.stream = block.lane->axis().name;
    } else {
      return;
    }
    entry.label = recording ? recording->name_of(entry.address) : "";
    if (entry.label.empty()) entry.label = block.label();
  };
  drain_symmetric();
  each_block(add);
  {
    std::lock_guard adopted_guard(adopted_lock_);
    for (Block* block = first_adopted_; block; block = block->address_next) {
      if (block->bytes != 0) add(*block);
    }
  }
  // Of what lies on the same addresses the largest stays.
  std::sort(all.begin(), all.end(), [](const MemoryBlock& a, const MemoryBlock& b) { return std::pair(a.address, b.bytes) < std::pair(b.address, a.bytes); });
  uintptr_t end = 0;
  std::erase_if(all, [&](const MemoryBlock& block) {
    if (block.address < end) return true;
    end = block.address + block.bytes;
    return false;
  });
  return all;
}

MemoryInfo Pool::info() {
  std::lock_guard guard(ordering_lock());
  backend_.poll();
  return measure();
}

MemoryCounts Pool::counts() {
  std::lock_guard guard(ordering_lock());
  MemoryCounts all = counts_;
  for (auto& lane : lanes_) {
    LaneCounts lane_counts = lane->counts();
    all.own += lane_counts.own;
    all.foreign += lane_counts.foreign;
    all.ordered += lane_counts.ordered;
  }
  all.failed_releases = failed_releases_.load();
  return all;
}

void Pool::reset_peak() {
  std::lock_guard guard(ordering_lock());
  measure();
  live_.peak.store(live_.now.load());
}

void Pool::set_limit(size_t bytes) {
  std::lock_guard guard(ordering_lock());
  live_.step.store(bytes == 0 ? LiveBytes{}.step.load() : 0);
  measure();
  limit_.store(bytes);
}

size_t Pool::trim() {
  {
    std::lock_guard guard(ordering_lock());
    backend_.poll();
    flush_all();
    ++counts_.system_calls;
    drain_symmetric();
    const size_t given = symmetric_heap_.trim();
    if (!lender_) return given + small_.trim() + large_.trim();
  }
  return return_slabs();
}

void Pool::set_relief(std::function<bool(size_t)> relief) {
  std::lock_guard guard(relief_lock_);
  relief_ = std::move(relief);
}

// Not re-entrant: an allocation that the relief itself makes fails without asking again.
bool Pool::ask_for_relief(size_t bytes) {
  static thread_local bool asking = false;
  if (asking) return false;
  std::function<bool(size_t)> relief;
  {
    std::lock_guard guard(relief_lock_);
    relief = relief_;
  }
  if (!relief) return false;
  asking = true;
  bool given = false;
  try {
    given = relief(bytes);
  } catch (...) {
    asking = false;
    throw;
  }
  asking = false;
  return given;
}

void Pool::set_deterministic() {
  if (deterministic_.exchange(true)) return;
  std::lock_guard guard(ordering_lock());
  small_.set_deterministic(true);
  large_.set_deterministic(true);
}

void Pool::lock_lanes() {
  for (SpinLock* lock : {&due_lock_, &adopted_lock_, &symmetric_freed_lock_}) lock->lock();
  for (auto& lane : lanes_) lane->lock().lock();
}

void Pool::unlock_lanes() {
  for (SpinLock* lock : {&due_lock_, &adopted_lock_, &symmetric_freed_lock_}) lock->unlock();
  for (auto& lane : lanes_) lane->lock().unlock();
}

}  // namespace thalweg::runtime
