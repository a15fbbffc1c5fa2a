// A lock for sections of a few nanoseconds: one byte, no system call unless the holder was descheduled.
#pragma once

#include <sched.h>

#include <atomic>

#include "runtime/gate.h"

namespace thalweg::runtime {

// Meets the standard's Lockable. Not recursive, not fair.
class SpinLock {
 public:
  bool try_lock() { return !held_.load(std::memory_order_relaxed) && !held_.exchange(true, std::memory_order_acquire); }
  void lock() {
    for (int round = 0; !try_lock(); ++round) {
      if (round < 64) {
        spin_pause();
      } else {
        sched_yield();
      }
    }
  }
  void unlock() { held_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> held_{false};
};

}  // namespace thalweg::runtime
