// A stream's own cache of freed memory: lists by size class that an allocation and a free reach in a few nanoseconds.
#pragma once

#include <array>
#include <mutex>

#include "runtime/axis.h"
#include "runtime/block.h"
#include "runtime/size_class.h"
#include "runtime/spin_lock.h"

namespace thalweg::runtime {

class Queue;

class Lane;

// Bytes in referenced buffers of a device. Lanes keep what they freed, and up to a step of what they took, to themselves, so that the counter is not
// touched by every allocation.
struct LiveBytes {
  std::atomic<int64_t> now{0}, peak{0};
  std::atomic<int64_t> step{1 << 20};  // 0 makes `now` exact at every moment
  std::atomic<Lane*> lanes{nullptr};   // all of the device, which live as long as this
  // Settles a lane's change, and raises the peak by what is live with all lanes' changes.
  void add(int64_t change);
};

// How often each way of getting memory was taken.
struct LaneCounts {
  uint64_t own = 0;      // last used on this stream alone: reusable as it is
  uint64_t foreign = 0;  // used by other streams too, which were seen to have finished
  uint64_t ordered = 0;  // used by other streams, which this stream was already ordered after
};

// The memory side of one stream. Blocks whose every use was on the stream itself are reusable at once; the others queue up with their death frontiers.
class Lane {
 public:
  explicit Lane(LiveBytes& live);
  // Serves a stream from now on. The lists must be empty.
  void open(Axis& axis, Queue* queue);
  // The stream is gone: blocks that come later wait for a flush.
  void close() { queue_ = nullptr; }
  Axis& axis() const { return *axis_; }
  // The stream's queue, null once the stream is gone. Under the ordering lock.
  Queue* queue() const { return queue_; }

  // A block of `size_class` at least that may be used on the stream as it is; null when the lists have none. `use_done`: whether completion counts.
  Block* take(unsigned size_class, bool use_done);
  // The same for blocks of foreign use that the stream is ordered after. Under the ordering lock.
  Block* take_ordered(unsigned size_class);
  // Notes that a block which is not from the lists became live.
  void adopt(Block* block);
  // Takes a freed block. Any thread; never blocks.
  void give(Block* block);
  // Empties the lists into `sink` and settles the live bytes. Under the ordering lock.
  template <class Sink>
  void flush(Sink sink) {
    std::lock_guard guard(lock_);
    drain_inbox();
    for (Block*& list : own_) empty_into(list, sink);
    for (List& list : foreign_) {
      empty_into(list.head, sink);
      list.tail = nullptr;
    }
    settle();
  }
  // Settles the live bytes; adds the bytes of the lists to `free`, and of those that queued work may still use to `pending`.
  void measure(size_t& free, size_t& pending);
  LaneCounts counts();
  // Holds the lists still across a fork.
  SpinLock& lock() { return lock_; }

 private:
  struct List {
    Block* head = nullptr;
    Block* tail = nullptr;
  };
  template <class Sink>
  static void empty_into(Block*& list, Sink& sink) {
    while (Block* block = list) {
      list = block->next;
      block->next = nullptr;
      sink(block);
    }
  }
  void drain_inbox();
  void put(Block* block);
  void count(int64_t change);
  void settle();
  static Block* unlink(List& list, Block* before, Block* block);

  friend struct LiveBytes;
  LiveBytes& live_;
  Lane* next_lane_ = nullptr;
  Axis* axis_ = nullptr;
  Queue* queue_ = nullptr;
  SpinLock lock_;
  std::atomic<int64_t> unsettled_{0};  // written under the lock
  LaneCounts counts_;
  std::array<Block*, kSizeClasses> own_{};          // last in, first out: warm in the processor's cache
  std::array<List, kSizeClasses> foreign_{};        // first in, first out: the oldest completes first
  alignas(64) std::atomic<Block*> inbox_{nullptr};  // freed while the lists were locked
};

}  // namespace thalweg::runtime
