// Frontiers and clocks: compared with a std::map on random input, and at the edges of their ranges.
#include "runtime/frontier.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>

#include "runtime/axis.h"

namespace thalweg::runtime {
namespace {

TEST(FrontierTest, Case25AnyNumberOfAxesIsKept) {
  uint64_t seed = std::random_device{}();
  std::mt19937_64 random(seed);
  SCOPED_TRACE(seed);
  for (int axes : {1, 2, 4, 5, 64, 1000}) {
    std::vector<std::unique_ptr<Axis>> all;
    for (int i = 0; i < axes; ++i) all.push_back(std::make_unique<Axis>(i));
    Frontier frontier, other;
    std::map<Axis*, uint64_t> expected;
    for (int i = 0; i < 3 * axes; ++i) {
      Point point{all[random() % axes].get(), random() % 1000};
      (i % 2 ? frontier : other).add(point);
      auto [found, is_new] = expected.try_emplace(point.axis, point.epoch);
      if (!is_new) found->second = std::max(found->second, point.epoch);
    }
    frontier.join(other);
    Frontier taken;
    taken.take(frontier);
    EXPECT_TRUE(frontier.empty());
    std::map<Axis*, uint64_t> found;
    for (const Point& point : taken) found[point.axis] = point.epoch;
    EXPECT_EQ(found, expected);
    EXPECT_EQ(taken.size(), expected.size());
    taken.clear();
    EXPECT_TRUE(taken.empty());
    EXPECT_EQ(taken.begin(), taken.end());
  }
}

TEST(FrontierTest, Case26LargeEpochs) {
  Axis a(0), b(1);
  Frontier frontier;
  frontier.add({&a, ~uint64_t{0}});
  frontier.add({&a, 5});
  frontier.add({});
  ASSERT_EQ(frontier.size(), 1u);
  EXPECT_EQ(frontier.begin()->epoch, ~uint64_t{0});
  EXPECT_TRUE(frontier.only_on(&a));
  EXPECT_FALSE(frontier.only_on(&b));
  Clock clock;
  clock.raise(3, ~uint64_t{0});
  clock.raise(3, 1);
  EXPECT_EQ(clock.at(3), ~uint64_t{0});
  EXPECT_EQ(clock.at(2), 0u);
  EXPECT_EQ(clock.at(1000), 0u);
  Clock other;
  other.raise(0, 7);
  other.join(clock);
  EXPECT_EQ(other.at(0), 7u);
  EXPECT_EQ(other.at(3), ~uint64_t{0});
}

}  // namespace
}  // namespace thalweg::runtime
