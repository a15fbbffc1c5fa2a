// Views against brute force over all their element positions.
#include "lazy/view.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "random_views.h"

namespace thalweg::lazy {
namespace {

TEST(View, DenseMeansEveryPositionOnce) {
  const unsigned seed = testing::UnitTest::GetInstance()->random_seed() ? testing::UnitTest::GetInstance()->random_seed() : std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  int dense = 0;
  for (int round = 0; round < 3000; ++round) {
    const View view = random_view(random);
    const std::vector<int64_t> at = positions(view);
    const std::set<int64_t> distinct(at.begin(), at.end());
    const bool expected = distinct.size() == at.size() && (at.empty() || (*distinct.begin() == 0 && *distinct.rbegin() + 1 == static_cast<int64_t>(at.size())));
    bool broadcast = false;
    for (int i = 0; i < view.rank; ++i) broadcast |= view.strides[i] == 0 && view.sizes[i] > 1;
    EXPECT_EQ(view.is_dense(), at.empty() || (expected && !broadcast)) << describe(view);
    dense += expected;
  }
  EXPECT_GT(dense, 100);
}

TEST(View, RowMajorMeansPositionsCountUp) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    const View view = random_view(random);
    const std::vector<int64_t> at = positions(view);
    bool counts_up = true;
    for (size_t i = 0; i < at.size(); ++i) counts_up &= at[i] == static_cast<int64_t>(i);
    EXPECT_EQ(view.is_row_major(), counts_up) << describe(view);
  }
}

TEST(View, SameAsAgreesWithPositionsAndHash) {
  std::mt19937 random(11);
  for (int round = 0; round < 5000; ++round) {
    const View a = random_view(random, 3, 2), b = random_view(random, 3, 2);
    const bool same_shape = std::equal(a.dims().begin(), a.dims().end(), b.dims().begin(), b.dims().end());
    EXPECT_EQ(a.same_as(b), same_shape && positions(a) == positions(b)) << describe(a) << " " << describe(b);
    if (a.same_as(b) && a.count() > 0) {
      EXPECT_EQ(a.hash(), b.hash());
    }
  }
}

TEST(View, MemoryOrderSortsByStride) {
  const int64_t dims[] = {2, 3, 4, 5}, strides[] = {60, 1, 15, 3};
  const View channels_last(ir::DType::F32, dims, strides, 0);
  EXPECT_TRUE(channels_last.is_dense());
  EXPECT_FALSE(channels_last.is_row_major());
  EXPECT_EQ(channels_last.memory_order(), (ir::Dims{0, 2, 3, 1}));
}

}  // namespace
}  // namespace thalweg::lazy
