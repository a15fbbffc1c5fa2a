// The thread pool: parts of a loop are claimed from one atomic word; workers spin briefly for the next loop, then sleep on a futex.
#include "libs/cpu/parallel.h"

#include <immintrin.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace thalweg::libs::cpu {
namespace {

constexpr int kSpins = 2000;  // about 40 µs of pauses: longer than the gap between two kernels of one step, shorter than anybody notices
constexpr int kMaxThreads = 1024;

thread_local bool inside_loop = false;

int default_threads() {
  if (const char* text = std::getenv("OMP_NUM_THREADS")) {
    if (int count = std::atoi(text); count > 0) return std::min(count, kMaxThreads);
  }
  return cores();
}

// One loop at a time. `claim_` packs generation (32 bits), number of parts (16) and the next part (16): a worker that is late for a loop sees another
// generation or no part left, and touches nothing else. A claimed part keeps the loop, and so its fields, alive.
class Pool {
 public:
  explicit Pool(int threads) : threads_(threads) {}

  int threads() const { return threads_.load(std::memory_order_relaxed); }

  void set_threads(int count) {
    std::scoped_lock lock(busy_);
    stop_workers();
    threads_.store(std::clamp(count, 1, kMaxThreads), std::memory_order_relaxed);
  }

  void run(int64_t n, int64_t length, int parts, RangeFnRef fn) {
    std::unique_lock lock(busy_, std::try_to_lock);
    if (!lock) return run_alone(n, length, fn);
    if (workers_.empty()) start_workers();
    n_ = n;
    length_ = length;
    fn_ = &fn;
    error_ = nullptr;
    left_.store(parts, std::memory_order_relaxed);
    ++generation_;
    claim_.store(static_cast<uint64_t>(generation_) << 32 | static_cast<uint64_t>(parts) << 16, std::memory_order_seq_cst);
    wake();
    inside_loop = true;
    while (run_one_part(generation_)) {
    }
    inside_loop = false;
    wait_for_parts();
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

  static void run_alone(int64_t n, int64_t length, RangeFnRef fn) {
    for (int64_t begin = 0; begin < n; begin += length) fn(begin, std::min(n, begin + length));
  }

 private:
  void start_workers() {
    stop_ = false;
    for (int i = 1; i < threads(); ++i) workers_.emplace_back([this, seen = generation_] { work(seen); });
  }

  void stop_workers() {
    stop_ = true;
    ++generation_;
    claim_.store(static_cast<uint64_t>(generation_) << 32, std::memory_order_seq_cst);
    wake();
    for (auto& worker : workers_) worker.join();
    workers_.clear();
  }

  void wake() {
    if (sleepers_.load(std::memory_order_seq_cst) > 0) claim_.notify_all();
  }

  // Runs the next part of loop `generation` if there is one.
  bool run_one_part(uint32_t generation) {
    uint64_t claim = claim_.load(std::memory_order_acquire);
    do {
      if (claim >> 32 != generation || (claim & 0xffff) >= (claim >> 16 & 0xffff)) return false;
    } while (!claim_.compare_exchange_weak(claim, claim + 1, std::memory_order_acq_rel, std::memory_order_acquire));
    int64_t begin = static_cast<int64_t>(claim & 0xffff) * length_;
    try {
      (*fn_)(begin, std::min(n_, begin + length_));
    } catch (...) {
      std::scoped_lock lock(error_mutex_);
      if (!error_) error_ = std::current_exception();
    }
    if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) left_.notify_one();
    return true;
  }

  void wait_for_parts() {
    for (int i = 0; i < kSpins; ++i) {
      if (left_.load(std::memory_order_acquire) == 0) return;
      _mm_pause();
    }
    for (int left; (left = left_.load(std::memory_order_acquire)) != 0;) left_.wait(left, std::memory_order_acquire);
  }

  void work(uint32_t seen) {
    inside_loop = true;
    while (true) {
      uint64_t claim = next_loop(seen);
      if (stop_) return;
      seen = static_cast<uint32_t>(claim >> 32);
      while (run_one_part(seen)) {
      }
    }
  }

  // The claim word once its generation is no longer `seen`.
  uint64_t next_loop(uint32_t seen) {
    uint64_t claim;
    for (int i = 0; i < kSpins; ++i) {
      claim = claim_.load(std::memory_order_acquire);
      if (claim >> 32 != seen) return claim;
      _mm_pause();
    }
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    while ((claim = claim_.load(std::memory_order_seq_cst)) >> 32 == seen) claim_.wait(claim, std::memory_order_seq_cst);
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
    return claim;
  }

  std::mutex busy_;  // held by the one whose loop runs
  std::atomic<int> threads_;
  std::vector<std::thread> workers_;
  uint32_t generation_ = 0;
  std::atomic<bool> stop_ = false;

  int64_t n_ = 0, length_ = 0;
  const RangeFnRef* fn_ = nullptr;
  std::mutex error_mutex_;
  std::exception_ptr error_;

  alignas(64) std::atomic<uint64_t> claim_ = 0;
  std::atomic<int> sleepers_ = 0;
  alignas(64) std::atomic<int> left_ = 0;
};

// Never destroyed: workers may outlive static destruction. A forked child has no workers, so it takes a fresh pool of the same size.
std::atomic<Pool*> current{nullptr};

Pool& pool() {
  if (Pool* p = current.load(std::memory_order_acquire)) return *p;
  auto* fresh = new Pool(default_threads());
  Pool* expected = nullptr;
  if (!current.compare_exchange_strong(expected, fresh)) {
    delete fresh;
    return *expected;
  }
  pthread_atfork(nullptr, nullptr, [] {
    current.store(new Pool(current.load()->threads()));
    inside_loop = false;
  });
  return *fresh;
}

}  // namespace

void parallel_for(int64_t n, int64_t grain, RangeFnRef fn) {
  if (n <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  Pool& p = pool();
  int64_t grains = (n + grain - 1) / grain, parts = std::min<int64_t>(p.threads(), grains);
  int64_t length = (grains + parts - 1) / parts * grain;
  parts = (n + length - 1) / length;
  if (parts == 1 || inside_loop) return Pool::run_alone(n, length, fn);
  p.run(n, length, static_cast<int>(parts), fn);
}

int cores() {
  static const int count = [] {
    cpu_set_t set;
    int found = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : static_cast<int>(std::thread::hardware_concurrency());
    return std::clamp(found, 1, kMaxThreads);
  }();
  return count;
}

int threads() { return pool().threads(); }

void set_threads(int count) {
  if (count != pool().threads()) pool().set_threads(count);
}

}  // namespace thalweg::libs::cpu
