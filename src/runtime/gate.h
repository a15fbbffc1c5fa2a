// A counter that only grows and that threads can wait for: a short spin, then sleep in the kernel.
#pragma once

#include <atomic>
#include <cstdint>

namespace thalweg::runtime {

// Thread-safe. What happened before advance(v) is visible after wait(v) or after value() has returned v or more.
class Gate {
 public:
  uint64_t value() const { return value_.load(std::memory_order_acquire); }
  // Sets the counter to `value` (never less than before) and wakes the threads that sleep in wait(). One thread at a time.
  void advance(uint64_t value) {
    value_.store(value, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) != 0) wake();
  }
  // Returns once the counter is at least `value`.
  void wait(uint64_t value) {
    if (value_.load(std::memory_order_acquire) < value) sleep(value);
  }
  // After a fork, in the child: forgets sleepers, which are threads of the parent.
  void forget_sleepers() { sleepers_.store(0, std::memory_order_relaxed); }

 private:
  void sleep(uint64_t value);
  void wake();

  std::atomic<uint64_t> value_{0};
  std::atomic<uint32_t> sleepers_{0};
  std::atomic<uint32_t> word_{0};  // what the kernel compares: changed by each wake
};

// Tells the processor that this thread is in a short spin.
inline void spin_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace thalweg::runtime
