// Recordings of memory and work.
#include "runtime/history.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/runtime/sim/world.h"

namespace thalweg::runtime::sim {
namespace {

std::vector<Happening> kinds(const std::vector<HistoryEvent>& events) {
  std::vector<Happening> all;
  for (const HistoryEvent& event : events) all.push_back(event.what);
  return all;
}

TEST(HistoryTest, AFreeIsCompleteWhenItsUsersAre) {
  World w({});
  record_history(100);
  BufferPtr a = w.allocate(w.compute(), 1000);
  latest_history()->name(*a, "a long name of a buffer that a label would not hold");
  w.stamp(w.copy(), a, 1, "stamp");
  auto address = reinterpret_cast<uintptr_t>(a->data());
  a.reset();
  EXPECT_EQ(kinds(latest_history()->events()), (std::vector{Happening::Allocated, Happening::Freed}));
  w.finish();
  std::vector<HistoryEvent> events = latest_history()->events();
  ASSERT_EQ(kinds(events), (std::vector{Happening::Allocated, Happening::Freed, Happening::Ran, Happening::Completed}));
  for (size_t i : {0, 1, 3}) {
    EXPECT_EQ(events[i].address, address);
    EXPECT_EQ(events[i].bytes, 1000u);
    EXPECT_EQ(events[i].stream, "compute");
    EXPECT_EQ(events[i].text, "a long name of a buffer that a label would not hold");
  }
  EXPECT_EQ(events[2].stream, "copy");
  EXPECT_EQ(events[2].text, "stamp");
  record_history(0);
  BufferPtr b = w.allocate(w.compute(), 1000);
  EXPECT_EQ(latest_history()->events().size(), 4u);
}

TEST(HistoryTest, KeepsTheLatestEvents) {
  World w({});
  record_history(6);
  std::vector<BufferPtr> buffers;
  for (size_t i = 1; i <= 20; ++i) buffers.push_back(w.allocate(w.compute(), 1000 * i));
  buffers.clear();
  std::vector<HistoryEvent> events = latest_history()->events();
  EXPECT_EQ(events.size(), 6u);
  EXPECT_EQ(events.back().bytes, 20000u);
  record_history(0);
}

TEST(HistoryTest, BlocksCoverTheReservedMemory) {
  World w({.page_bytes = 4096});
  BufferPtr a = w.allocate(w.compute(), 1000), b = w.allocate(w.copy(), size_t{3} << 20), c = w.allocate(w.compute(), 2000);
  w.stamp(w.compute(), a, 1, "first");
  w.stamp(w.compute(), c, 1, "third");
  w.free(c);
  std::vector<char> theirs(5000);
  BufferPtr adopted = w.device().wrap(theirs.data(), theirs.size(), nullptr), again = w.device().wrap(theirs.data(), 100, nullptr);
  {
    BufferPtr gone = w.device().wrap(theirs.data() + 4000, 100, nullptr), empty = w.device().wrap(nullptr, 0, nullptr);
  }
  std::vector<MemoryBlock> blocks = w.device().memory_blocks();
  auto is_adopted = [](const MemoryBlock& block) { return block.stream == "adopted"; };
  ASSERT_EQ(std::count_if(blocks.begin(), blocks.end(), is_adopted), 1);
  const MemoryBlock lent = *std::find_if(blocks.begin(), blocks.end(), is_adopted);
  EXPECT_EQ(lent.address, reinterpret_cast<uintptr_t>(theirs.data()));
  EXPECT_EQ(lent.requested, 5000u);
  EXPECT_TRUE(lent.live && !lent.pending);
  EXPECT_TRUE(std::is_sorted(blocks.begin(), blocks.end(), [](const auto& a, const auto& b) { return a.address < b.address; }));
  std::erase_if(blocks, is_adopted);
  MemoryInfo info = w.device().memory();
  size_t live = 0, pending = 0, all = 0;
  for (const MemoryBlock& block : blocks) {
    all += block.bytes;
    live += block.live ? block.bytes : 0;
    pending += block.pending ? block.bytes : 0;
  }
  EXPECT_EQ(all, info.reserved);
  EXPECT_EQ(live, info.live);
  EXPECT_EQ(pending, info.pending);
  auto found = std::find_if(blocks.begin(), blocks.end(), [&](const MemoryBlock& block) { return block.address == reinterpret_cast<uintptr_t>(a->data()); });
  ASSERT_NE(found, blocks.end());
  EXPECT_EQ(found->label, "first");
  EXPECT_EQ(found->requested, 1000u);
}

TEST(HistoryTest, OutOfMemory) {
  World w({.page_bytes = 4096, .memory_bytes = 8192});
  record_history(10);
  EXPECT_THROW(w.compute().allocate(1 << 20), Error);
  std::vector<HistoryEvent> events = latest_history()->events();
  ASSERT_EQ(kinds(events), std::vector{Happening::OutOfMemory});
  EXPECT_EQ(events[0].bytes, size_t{1} << 20);
  record_history(0);
}

}  // namespace
}  // namespace thalweg::runtime::sim
