// The pool: every index once, fixed partition, nesting, several callers, exceptions, changing size, fork.
#include "libs/cpu/parallel.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

namespace thalweg::libs::cpu {
namespace {

std::vector<std::pair<int64_t, int64_t>> ranges(int64_t n, int64_t grain) {
  std::mutex mutex;
  std::vector<std::pair<int64_t, int64_t>> seen;
  parallel_for(n, grain, [&](int64_t begin, int64_t end) {
    std::scoped_lock lock(mutex);
    seen.emplace_back(begin, end);
  });
  std::sort(seen.begin(), seen.end());
  return seen;
}

TEST(Parallel, CoversEveryIndexOnceInFixedRanges) {
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i) {
    set_threads(1 + static_cast<int>(random() % 4));
    int64_t n = random() % 1000, grain = 1 + random() % 50, at = 0;
    auto first = ranges(n, grain);
    for (auto [begin, end] : first) {
      EXPECT_EQ(begin, at);
      EXPECT_LT(begin, end);
      EXPECT_TRUE(end == n || (end - begin) % grain == 0);
      at = end;
    }
    EXPECT_EQ(at, n);
    EXPECT_LE(first.size(), static_cast<size_t>(threads()));
    EXPECT_EQ(ranges(n, grain), first);
  }
}

TEST(Parallel, ManyShortLoopsFromSeveralThreads) {
  set_threads(3);
  std::vector<std::thread> callers;
  std::atomic<int64_t> total = 0;
  for (int t = 0; t < 3; ++t) {
    callers.emplace_back([&] {
      for (int i = 0; i < 5000; ++i) {
        std::atomic<int64_t> sum = 0;
        parallel_for(30, 1, [&](int64_t begin, int64_t end) {
          for (int64_t j = begin; j < end; ++j) sum += j;
        });
        total += sum;
      }
    });
  }
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(total, 3 * 5000 * (29 * 30 / 2));
}

TEST(Parallel, NestedLoopsRunOnTheirThread) {
  set_threads(2);
  std::atomic<int> count = 0;
  parallel_for(8, 1, [&](int64_t begin, int64_t end) {
    auto self = std::this_thread::get_id();
    for (int64_t i = begin; i < end; ++i)
      parallel_for(10, 1, [&](int64_t b, int64_t e) {
        EXPECT_EQ(std::this_thread::get_id(), self);
        count += static_cast<int>(e - b);
      });
  });
  EXPECT_EQ(count, 80);
}

TEST(Parallel, RethrowsAfterAllRangesAndStaysUsable) {
  set_threads(2);
  for (int i = 0; i < 200; ++i) {
    EXPECT_THROW(parallel_for(4, 1, [](int64_t, int64_t) { throw std::runtime_error("expected"); }), std::runtime_error);
    EXPECT_EQ(ranges(4, 1).size(), 2u);
  }
}

TEST(Parallel, WorksInAForkedChild) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer allows no threads after a fork";
#endif
  set_threads(2);
  EXPECT_EQ(ranges(100, 1).size(), 2u);
  pid_t child = fork();
  if (child == 0) {
    bool good = threads() == 2;
    for (int i = 0; i < 100; ++i) good = good && ranges(100, 1).size() == 2;
    _exit(good ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(ranges(100, 1).size(), 2u);
}

}  // namespace
}  // namespace thalweg::libs::cpu
