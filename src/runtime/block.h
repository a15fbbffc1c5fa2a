// A block: a buffer together with its place in a heap. A freed buffer's block keeps its death frontier until somebody may have the memory.
#pragma once

#include <atomic>
#include <memory>

#include "runtime/buffer.h"

namespace thalweg::runtime {

class Pool;
class Lane;
class Heap;

// What a block is at the moment.
enum class BlockState : uint8_t {
  Live,      // referenced
  Cached,    // freed, in its lane's lists
  Free,      // freed, in its heap
  Unbacked,  // addresses without memory
  Wrapped,   // memory of somebody else
};

// Owned by its heap, or by itself when wrapped. A heap's blocks cover its range without gaps. On cache lines of its own: threads use neighbours.
class alignas(64) Block final : public Buffer {
 public:
  Block(Device& device, Pool& pool, Heap* heap) : Buffer(device, nullptr, 0), pool(&pool), heap(heap) {}

  Pool* const pool;
  Heap* const heap;
  size_t bytes = 0;               // of the block; size() is what was asked for
  Lane* lane = nullptr;           // that it was allocated on; null in the heap
  unsigned bin = 0;               // of the heap, while Free
  Block* next = nullptr;          // in the list that holds it
  Block* previous = nullptr;      // in the heap's bin
  Block* address_next = nullptr;  // neighbours by address
  Block* address_previous = nullptr;
  std::unique_ptr<std::function<void()>> release;  // of a wrapped block
  bool release_apart = false;                      // only on a thread of the device's own
  bool symmetric = false;                          // in the symmetric heap

  // Any thread may look; the answer is exact where the caller owns the block.
  BlockState state() const { return state_.load(std::memory_order_relaxed); }
  void set_state(BlockState state) { state_.store(state, std::memory_order_relaxed); }
  char* base() const { return static_cast<char*>(data_); }
  void set_base(char* base) { data_ = base; }
  // Who may still be using the memory of a freed block.
  Frontier death() const;
  // True when they all belong to `axis`.
  bool died_on(const Axis* axis) const { return last_.axis == axis && reads_.only_on(axis); }
  bool is_complete() const;
  void set_death(const Frontier& frontier);
  // Makes it a buffer of `size` bytes that nothing has used, got at `birth`.
  void start_life(size_t size, Point birth) {
    size_ = size;
    last_ = birth;
    written_ = named_ = false;
    label_[0].store(0, std::memory_order_relaxed);
    reads_.clear();
    set_state(BlockState::Live);
  }
  void set_life(uint64_t life) { life_ = life; }

 private:
  std::atomic<BlockState> state_{BlockState::Unbacked};
};

}  // namespace thalweg::runtime
