// Size classes: every class holds its sizes, in order, with at most 1/16 to spare.
#include "runtime/size_class.h"

#include <gtest/gtest.h>

#include <random>

namespace thalweg::runtime {
namespace {

TEST(SizeClassTest, ClassesGrowAndRoundTrip) {
  for (unsigned i = 0; i < kSizeClasses; ++i) {
    EXPECT_EQ(class_for(class_bytes(i)), i);
    EXPECT_EQ(class_within(class_bytes(i)), i);
    EXPECT_EQ(class_bytes(i) % kGranule, 0u);
    if (class_bytes(i) > kSmallBytes) {
      EXPECT_EQ(class_bytes(i) % kLargeGranule, 0u);
    }
    if (i > 0) {
      EXPECT_LT(class_bytes(i - 1), class_bytes(i));
    }
  }
  EXPECT_EQ(class_bytes(kSizeClasses - 1), kLargestBytes);
}

TEST(SizeClassTest, RandomSizesFit) {
  uint64_t seed = std::random_device{}();
  std::mt19937_64 random(seed);
  SCOPED_TRACE(seed);
  for (int i = 0; i < 100'000; ++i) {
    size_t bytes = 1 + random() % (size_t{1} << (1 + random() % 40));
    unsigned up = class_for(bytes);
    ASSERT_GE(class_bytes(up), bytes);
    ASSERT_LE(class_bytes(up), std::max(kGranule, bytes + bytes / 16 + kGranule)) << bytes;
    if (up > 0) {
      ASSERT_LT(class_bytes(up - 1), bytes);
    }
    if (bytes < kGranule) continue;
    unsigned down = class_within(bytes);
    ASSERT_LE(class_bytes(down), bytes);
    if (down + 1 < kSizeClasses) {
      ASSERT_GT(class_bytes(down + 1), bytes);
    }
  }
}

}  // namespace
}  // namespace thalweg::runtime
