// What the debug modes do to a device.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/runtime/sim/world.h"

namespace thalweg::runtime::sim {
namespace {

TEST(DebugModesOnADeviceTest, PoisonTurnsWhatIsReadTooLateIntoNan) {
  World w({.page_bytes = 4096, .memory_bytes = 4096, .modes = {.poison = true}});
  BufferPtr a = w.allocate(w.compute(), 4096);
  w.stamp(w.compute(), a, 1);
  w.expect(w.copy(), a, 1);  // the fill must wait for it
  auto* floats = static_cast<const float*>(a->data());
  a.reset();
  w.finish();
  for (int i = 0; i < 1024; ++i) ASSERT_TRUE(std::isnan(floats[i])) << i;
  BufferPtr b = w.allocate(w.copy(), 4096);
  w.stamp(w.copy(), b, 2);
  w.host_expect(b, 2);
  EXPECT_EQ(w.fault(), "");
}

TEST(DebugModesOnADeviceTest, QuarantineKeepsMemoryFromReuse) {
  World w({.modes = {.quarantine = 3}});
  void* first = w.allocate(w.compute(), 1024)->data();
  for (int i = 0; i < 3; ++i) EXPECT_NE(w.allocate(w.compute(), 1024)->data(), first);
  EXPECT_EQ(w.device().memory().live, 0u);
  EXPECT_EQ(w.device().memory().pending, 3 * 1024u);
  EXPECT_EQ(w.allocate(w.compute(), 1024)->data(), first);
}

TEST(DebugModesOnADeviceTest, Case65AQuarantineThatHoldsAllMemoryGivesWay) {
  World w({.page_bytes = 4096, .memory_bytes = 4096, .modes = {.poison = true, .quarantine = 100}});
  for (uint64_t i = 0; i < 20; ++i) {
    BufferPtr a = w.allocate(w.compute(), 1024);
    w.stamp(w.copy(), a, i);
    w.host_expect(a, i);
  }
  EXPECT_EQ(w.device().memory_counts().failures, 0u);
  EXPECT_EQ(w.fault(), "");
}

TEST(DebugModesOnADeviceTest, SyncLeavesNothingQueued) {
  World w({.modes = {.sync = true, .delay = 3}});
  BufferPtr a = w.allocate(w.compute(), 1024);
  for (uint64_t i = 0; i < 20; ++i) {
    w.stamp(i % 2 ? w.copy() : w.compute(), a, i);
    EXPECT_TRUE(a->is_written());
  }
}

}  // namespace
}  // namespace thalweg::runtime::sim
