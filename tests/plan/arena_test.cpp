// Placement of temporaries: lifetimes that overlap never share bytes, and sharing happens.
#include "plan/arena.h"

#include <gtest/gtest.h>

#include <random>

namespace thalweg::plan {
namespace {

TEST(Arena, OverlappingLifetimesAreDisjoint) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 50; ++round) {
    std::vector<Lifetime> lives(1 + random() % 60);
    for (Lifetime& life : lives) {
      life.first = static_cast<int>(random() % 40);
      life.last = life.first + static_cast<int>(random() % 10);
      life.bytes = static_cast<int64_t>(random() % 5000);
    }
    Placement placement = place(lives);
    for (size_t i = 0; i < lives.size(); ++i) {
      EXPECT_EQ(placement.offsets[i] % 64, 0);
      EXPECT_LE(placement.offsets[i] + lives[i].bytes, placement.total);
      for (size_t j = 0; j < i; ++j) {
        const bool together = lives[i].first <= lives[j].last && lives[j].first <= lives[i].last && lives[i].bytes > 0 && lives[j].bytes > 0;
        const bool apart = placement.offsets[i] + lives[i].bytes <= placement.offsets[j] || placement.offsets[j] + lives[j].bytes <= placement.offsets[i];
        EXPECT_TRUE(!together || apart) << i << " and " << j;
      }
    }
  }
}

TEST(Arena, ChainReusesTwoPlaces) {
  std::vector<Lifetime> chain;
  for (int i = 0; i < 20; ++i) chain.push_back({1000, i, i + 1});
  EXPECT_EQ(place(chain).total, 2 * 1024);
}

TEST(Arena, NothingToPlace) {
  EXPECT_EQ(place({}).total, 0);
  const Lifetime empty[] = {{0, 0, 3}};
  EXPECT_EQ(place(empty).total, 0);
}

}  // namespace
}  // namespace thalweg::plan
