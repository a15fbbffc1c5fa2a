// Sleep and wake of a Gate by futex.
#include "runtime/gate.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

namespace thalweg::runtime {
namespace {

// Rounds of the spin before a sleep: about 4 µs, the price of a futex sleep and wake.
constexpr int kSpinRounds = 100;

void futex(std::atomic<uint32_t>& word, int operation, uint32_t value) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), operation | FUTEX_PRIVATE_FLAG, value, nullptr, nullptr, 0);
}

}  // namespace

void Gate::sleep(uint64_t value) {
  for (int i = 0; i < kSpinRounds; ++i) {
    spin_pause();
    if (value_.load(std::memory_order_acquire) >= value) return;
  }
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  for (;;) {
    uint32_t seen = word_.load(std::memory_order_seq_cst);
    if (value_.load(std::memory_order_seq_cst) >= value) break;
    futex(word_, FUTEX_WAIT, seen);
  }
  sleepers_.fetch_sub(1, std::memory_order_seq_cst);
}

void Gate::wake() {
  word_.fetch_add(1, std::memory_order_seq_cst);
  futex(word_, FUTEX_WAKE, INT_MAX);
}

}  // namespace thalweg::runtime
