// Ranges of addresses on a GPU: what is mapped when, up to a card that is full.
#include "runtime/cuda/mapped_memory.h"

#include <random>

#include "runtime/cuda/cuda_device.h"
#include "tests/runtime/cuda/skip_without_gpu.h"

namespace thalweg::runtime::cuda {
namespace {

class MappedMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_GPU();
    device = make_device(0);
    check(driver().device_get(&gpu, 0), "open a GPU");
  }
  size_t free_bytes() const { return system_memory(*device).free; }
  std::shared_ptr<Device> device;
  DeviceHandle gpu = 0;
};

TEST_F(MappedMemoryTest, ChunksAreUnmappedWhenNoneOfTheirPagesIsWanted) {
  MappedMemory memory(context(*device), gpu, 16);
  const size_t page = memory.page_bytes();
  size_t bytes = size_t{1} << 30;
  char* base = memory.reserve(bytes);
  ASSERT_NE(base, nullptr);
  EXPECT_TRUE(memory.commit(base, 20 * page));
  EXPECT_EQ(memory.mapped(), 20 * page);
  memory.decommit(base + page, 14 * page);  // one page of the first chunk stays
  EXPECT_EQ(memory.mapped(), 20 * page);
  memory.decommit(base + 15 * page, 5 * page);
  EXPECT_EQ(memory.mapped(), 16 * page);
  EXPECT_TRUE(memory.commit(base + 2 * page, 20 * page));  // over mapped and unmapped pages
  EXPECT_EQ(memory.mapped(), 22 * page);
  memory.decommit(base, 22 * page);
  EXPECT_EQ(memory.mapped(), 0u);
  memory.unreserve(base, bytes);
}

TEST_F(MappedMemoryTest, RandomPagesComeAndGo) {
  unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  MappedMemory memory(context(*device), gpu, 4);
  const size_t page = memory.page_bytes();
  size_t bytes = 64 * page;
  char* base = memory.reserve(bytes);
  std::vector<bool> wanted(64);
  for (int step = 0; step < 300; ++step) {
    size_t first = random() % 64, last = first + 1 + random() % (64 - first);
    bool want = random() % 2;
    bool all_other = true;
    for (size_t i = first; i < last; ++i) all_other = all_other && wanted[i] != want;
    if (!all_other) continue;  // pages are committed and given back in turn
    if (want) {
      ASSERT_TRUE(memory.commit(base + first * page, (last - first) * page));
    } else {
      memory.decommit(base + first * page, (last - first) * page);
    }
    for (size_t i = first; i < last; ++i) wanted[i] = want;
    size_t least = 0;
    for (size_t i = 0; i < 64; ++i) least += wanted[i];
    EXPECT_GE(memory.mapped(), least * page);
    EXPECT_LE(memory.mapped(), 4 * least * page);
  }
  memory.unreserve(base, bytes);
  EXPECT_EQ(memory.mapped(), 0u);
}

TEST_F(MappedMemoryTest, AFullCardIsAnAnswerAndLeavesNothingBehind) {
  const size_t before = free_bytes();
  {
    MappedMemory memory(context(*device), gpu, 64);
    size_t bytes = size_t{1} << 40;
    char* base = memory.reserve(bytes);
    const size_t page = memory.page_bytes(), most = before / (4 * page) * (4 * page);
    EXPECT_TRUE(memory.commit(base, most / 2));
    EXPECT_FALSE(memory.commit(base + most / 2, most));
    EXPECT_EQ(memory.mapped(), most / 2);
    EXPECT_TRUE(memory.commit(base + most / 2, most / 4));
    memory.unreserve(base, bytes);
  }
  EXPECT_GE(free_bytes() + (size_t{64} << 20), before);
}

}  // namespace
}  // namespace thalweg::runtime::cuda
