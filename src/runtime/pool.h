// A device's memory: per-stream caches over two heaps, the ladder of an allocation, limits and reports.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/device.h"
#include "runtime/guarded_memory.h"
#include "runtime/heap.h"
#include "runtime/lane.h"
#include "runtime/slab_lender.h"
#include "runtime/symmetric_heap.h"

namespace thalweg::runtime {

// Thread-safe. Outlives every buffer that it gave out.
class Pool {
 public:
  // What the pool needs of the device's streams.
  struct Hooks {
    // Gets the release function of wrapped memory that queued work still uses: has to call it once `after` has completed.
    std::function<void(const Frontier& after, std::function<void()> release)> release_later;
    // Called with each freed block, to look at it or fill it; may be empty.
    std::function<void(Block&)> freed;
    // So many freed blocks are kept from reuse.
    uint64_t quarantine = 0;
  };

  Pool(Backend& backend, Device& device, Hooks hooks);
  ~Pool();
  Pool(const Pool&) = delete;

  // The lane of a new stream. Takes the ordering lock.
  Lane& open_lane(Axis& axis, Queue* queue);
  // Puts the lane's memory where other streams find it. Takes the ordering lock.
  void close_lane(Lane& lane);
  // Memory for `lane`'s stream: from the lane, from the heaps, from the system, from work that the stream is made to wait for, and after all else from
  // what the host waits for. Throws Error(OutOfMemory).
  // `padding`: so many bytes more behind the buffer.
  BufferPtr allocate(Lane& lane, size_t bytes, AllocFlags flags, size_t padding = 0);
  // The range of symmetric addresses (AllocFlags::symmetric); null before the first such allocation.
  char* symmetric_base();
  // The same on pages of the buffer's own, which lose their memory when nothing uses it any more. No stream has used it before.
  BufferPtr allocate_apart(Lane& lane, size_t bytes);
  BufferPtr wrap(void* data, size_t bytes, std::function<void()> release, ReleaseOn where);
  // Takes back a buffer whose last reference is gone.
  static void recycle(Block* block);

  // Everything between the first and the last page of each heap, by address, but for pages without memory; and what is adopted.
  std::vector<MemoryBlock> blocks();
  MemoryInfo info();
  MemoryCounts counts();
  void reset_peak();
  void set_limit(size_t bytes);
  // Called without any lock when an allocation would fail: true when it is worth another try. Null: nobody to ask.
  void set_relief(std::function<bool(size_t bytes)> relief);
  size_t trim();
  // From now on memory comes in slabs from `lender` alone. Before the first allocation.
  void set_lender(SlabLender lender);
  // Who holds what, as text: totals, then the labels with most bytes.
  std::string report();
  // From now on completion decides nothing about addresses.
  void set_deterministic();
  // Every lane's lists are locked (or unlocked again) around a fork. Under the ordering lock.
  void lock_lanes();
  void unlock_lanes();

 private:
  bool ask_for_relief(size_t bytes);
  Block* allocate_slow(Lane& lane, unsigned size_class, size_t bytes, AllocFlags flags);
  Block* allocate_symmetric(Lane& lane, size_t bytes, size_t padding, AllocFlags flags);
  Block* take_symmetric(Lane& lane, size_t bytes, AllocFlags flags);
  void drain_symmetric();
  void free_symmetric(Block* block);
  bool borrow_slab(size_t bytes);
  size_t return_slabs();
  Block* search(Lane& lane, unsigned size_class, AllocFlags flags);
  Block* take_free(Lane& lane, size_t bytes, const Heap::Usable& usable);
  Block* grow(Lane& lane, size_t bytes, const Heap::Usable& usable);
  void move_idle_pages(size_t bytes);
  Block* take_ahead(Lane& lane, size_t bytes);
  void wait_on_stream(Lane& lane, const Frontier& points, bool in_force);
  template <class Visit>
  void each_block(Visit visit) const {
    small_.each(visit);
    large_.each(visit);
    for (const auto& [base, block] : symmetric_) visit(*block);
  }
  Frontier worth_waiting_for(size_t bytes);
  void flush(Lane& lane);
  void flush_all();
  bool fits(size_t bytes) const;
  std::string out_of_memory(Lane& lane, size_t bytes, AllocFlags flags);
  std::string describe();
  void enlist(Block* block);
  void delist(Block* block);
  void release(Block* block);
  void release_soon(std::function<void()> call);
  void give_back_watched(Block* block);
  void empty_quarantine();
  MemoryInfo measure();
  Heap& heap_for(size_t bytes) { return bytes <= kSmallBytes ? small_ : large_; }

  Backend& backend_;
  Device& device_;
  const Hooks hooks_;
  const bool watched_;  // lives are numbered
  LiveBytes live_;
  std::atomic<size_t> limit_{0};
  std::atomic<bool> deterministic_{false};
  std::atomic<int64_t> adopted_{0};
  SpinLock adopted_lock_;
  Block* first_adopted_ = nullptr;  // the live wrapped blocks, by their links to neighbours
  std::atomic<uint64_t> failed_releases_{0};
  std::atomic<uint64_t> lives_{0};
  std::mutex relief_lock_;
  std::function<bool(size_t bytes)> relief_;
  SpinLock due_lock_;
  std::vector<std::function<void()>> due_;  // release functions that a thread of the device's own is about to call
  int due_process_ = 0;                     // the process of that thread: a child of a fork has none
  SpinLock quarantine_lock_;
  std::deque<Block*> quarantine_;
  MemoryCounts counts_;  // but for what the lanes count; under the ordering lock
  Heap small_, large_;
  ApartPages apart_;
  SymmetricHeap symmetric_heap_;
  std::map<char*, std::unique_ptr<Block>> symmetric_;  // its live blocks; under the ordering lock
  SpinLock symmetric_freed_lock_;
  std::vector<Block*> symmetric_freed_;  // not yet back in the heap, in the order of their frees
  std::unique_ptr<SlabLender> lender_;   // of guest mode
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<Lane*> closed_lanes_;
};

}  // namespace thalweg::runtime
