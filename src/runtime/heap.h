// A range of addresses cut into blocks: free blocks in bins by size, neighbours joined where their frontiers allow it, memory behind them only where used.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <vector>

#include "runtime/backend.h"
#include "runtime/block.h"
#include "runtime/size_class.h"

namespace thalweg::runtime {

// Not thread-safe: all calls under the ordering lock.
class Heap {
 public:
  using Usable = std::function<bool(const Block&)>;
  // `granule`: sizes and offsets of blocks are multiples. The range is reserved at the first growth, of at most `range_bytes`.
  Heap(Backend& backend, Device& device, Pool& pool, size_t granule, size_t range_bytes);
  ~Heap();
  Heap(const Heap&) = delete;

  // A free block of at least `bytes` that `usable` accepts, cut to size and taken out; null when there is none. Looks at the best fitting ones first.
  Block* take(size_t bytes, const Usable& usable);
  // Puts memory behind more addresses and takes a block of `bytes` there, using a free block at the border if `usable` accepts it. Null when the range or
  // the system has no more.
  Block* grow(size_t bytes, const Usable& usable);
  // How many bytes grow() would commit.
  size_t growth(size_t bytes) const;
  // Takes a block back; its death frontier stays with it.
  void give(Block* block);
  // Forgets frontiers that have completed and joins what can be joined.
  void consolidate();
  // Gives free pages whose frontier is complete back to the system, about `most` bytes of them, from the largest blocks, which leaves fewest pieces; returns
  // the bytes.
  size_t trim(size_t most = ~size_t{0});
  // The bytes that trim() would give back.
  size_t idle() const;
  // Adds memory of somebody else's, of which queued work may still use some; it goes back by take_idle_slabs() alone, and trim() and grow() are not to be used
  // beside it.
  void add_slab(char* base, size_t bytes, const Frontier& after);
  // Takes out the slabs that nothing uses any more.
  std::vector<std::pair<char*, size_t>> take_idle_slabs();
  // Calls `visit` for every block but the unbacked ones, by address.
  void each(const std::function<void(Block&)>& visit) const;
  size_t committed() const { return committed_; }
  // In deterministic mode completion, which depends on timing, decides nothing.
  void set_deterministic(bool on) { deterministic_ = on; }

 private:
  bool open_range();
  Block* make_block(char* base, size_t bytes, BlockState state);
  void drop_block(Block* block);
  Block* cut(Block* block, size_t bytes);
  void link(Block* block);
  void unlink(Block* block);
  void set_unbacked(Block* block);
  bool can_join(const Block* left, const Block* right) const;
  void absorb_next(Block* block);
  void settle(Block* block);
  Block* find(size_t bytes, const Usable& usable) const;
  std::pair<size_t, size_t> idle_pages(const Block* block) const;

  Backend& backend_;
  Device& device_;
  Pool& pool_;
  const size_t granule_;
  size_t range_bytes_;
  char* range_ = nullptr;
  size_t committed_ = 0;
  bool deterministic_ = false;
  Block* first_ = nullptr;
  std::array<Block*, kSizeClasses + 1> bins_{};
  std::array<uint64_t, kSizeClasses / 64 + 1> occupied_{};
  std::map<char*, Block*> unbacked_;
  std::map<char*, size_t> slabs_;
  std::deque<Block> storage_;
  std::vector<Block*> spare_;
};

}  // namespace thalweg::runtime
