// The explorer: counts of schedules that can be worked out by hand, and that no outcome is missed.
#include "runtime/sim/explorer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "runtime/sim/sim_device.h"

namespace thalweg::runtime::sim {
namespace {

// Runs `steps` tasks on each of `streams` streams, all on one buffer or each on its own, and counts the schedules.
int count_schedules(int streams, int steps, bool shared) {
  Explorer explorer;
  int runs = 0;
  do {
    SimDevice sim({.scheduler = &explorer.scheduler()});
    BufferPtr common = sim.device().compute_stream().allocate(256);
    std::vector<std::unique_ptr<Stream>> made;
    std::vector<BufferPtr> own;
    for (int s = 0; s < streams; ++s) {
      made.push_back(sim.device().make_stream("s"));
      own.push_back(made.back()->allocate(256));
      for (int i = 0; i < steps; ++i) Submission(*made.back()).read(shared ? common : own.back()).run([](void*) {});
    }
    sim.run_all();
    runs += !explorer.was_redundant();
  } while (explorer.next());
  return runs;
}

TEST(ExplorerTest, ReadsCommute) {
  EXPECT_EQ(count_schedules(3, 3, true), 1);
  EXPECT_EQ(count_schedules(3, 3, false), 1);
}

// Two streams write bytes of one region that the runtime does not know to be shared: all interleavings differ.
TEST(ExplorerTest, FindsEveryOrderOfConflictingSteps) {
  std::set<std::string> orders;
  Explorer explorer;
  int runs = 0;
  do {
    SimDevice sim({.scheduler = &explorer.scheduler()});
    char memory[64];
    std::string order;
    std::unique_ptr<Stream> a = sim.device().make_stream("a"), b = sim.device().make_stream("b");
    for (int i = 0; i < 3; ++i) {
      Submission(*a).write(sim.device().wrap(memory, sizeof memory, [] {})).run([&](void*) { order += 'a'; });
      Submission(*b).write(sim.device().wrap(memory, sizeof memory, [] {})).run([&](void*) { order += 'b'; });
    }
    sim.run_all();
    if (!explorer.was_redundant()) {
      ++runs;
      orders.insert(order);
    }
  } while (explorer.next());
  EXPECT_EQ(orders.size(), 20u);  // 6 over 3
  EXPECT_EQ(runs, 20);
}

}  // namespace
}  // namespace thalweg::runtime::sim
