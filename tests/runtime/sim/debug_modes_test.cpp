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

TEST(DebugModesOnADeviceTest, AGuardTellsWhoWroteBeyondABuffer) {
  under_all(
      [](World& w) {
        BufferPtr good = w.allocate(w.compute(), 1000), bad = w.allocate(w.copy(), 1000);
        w.stamp(w.compute(), good, 1);
        w.expect(w.copy(), good, 1);
        Submission(w.copy()).write(bad).label("careless").run([to = static_cast<char*>(bad->data())](void*) { std::memset(to, 0, 1003); });
        w.free(good);
        w.free(bad);
        BufferPtr next = w.allocate(w.compute(), 1000);
        w.stamp(w.compute(), next, 2);
        w.expect(w.copy(), next, 2);
        w.free(next);
        w.finish();
        std::vector<std::string> reports = w.sim().device().guard_reports();
        if (reports.size() != 1) return w.set_fault(std::to_string(reports.size()) + " reports");
        bool clear = reports[0].find("3 bytes behind the 1000 of careless, the first 0 behind its end") != std::string::npos;
        if (!clear) w.set_fault(reports[0]);
      },
      {.modes = {.redzone = true}});
}

TEST(DebugModesOnADeviceTest, UnmappedMemoryIsGoneWhenItsUsersHaveFinishedAndNotBefore) {
  under_all(
      [](World& w) {
        BufferPtr a = w.allocate(w.compute(), 5000), b = w.allocate(w.copy(), 5000);
        w.stamp(w.compute(), a, 1);
        w.move(w.copy(), a, b, 1);  // the kernels see to it that their memory is mapped
        void* address = a->data();
        w.free(a);
        BufferPtr c = w.allocate(w.compute(), 5000);
        if (c->data() == address) w.set_fault("the addresses were used again");
        w.stamp(w.compute(), c, 2);
        w.host_expect(b, 1);
        w.host_expect(c, 2);
        w.finish();
        if (w.sim().is_mapped(address, 5000)) w.set_fault("still mapped");
      },
      {.page_bytes = 4096, .range_bytes = 8192, .modes = {.unmap = true}});
}

TEST(DebugModesOnADeviceTest, UnmappedMemoryRunsOutWithAnError) {
  World w({.page_bytes = 4096, .memory_bytes = 8192, .modes = {.unmap = true}});
  BufferPtr a = w.allocate(w.compute(), 4096);
  w.stamp(w.compute(), a, 1);
  EXPECT_THROW(w.allocate(w.copy(), 8192), Error);
  a.reset();
  BufferPtr b = w.allocate(w.copy(), 8192);  // once the stamp has run
  w.stamp(w.copy(), b, 2);
  w.host_expect(b, 2);
}

}  // namespace
}  // namespace thalweg::runtime::sim
