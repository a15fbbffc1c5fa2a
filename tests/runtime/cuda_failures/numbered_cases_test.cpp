// Cases that have broken allocators, by number, that need a driver with captures and streams of others; the rest are in adversarial_test.cpp.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <map>

#include "runtime/cuda/staging.h"
#include "runtime/pooled_device.h"
#include "support/error.h"
#include "tests/runtime/cuda_failures/pretended_driver.h"

namespace thalweg::runtime::cuda {
namespace {

class NumberedCasesTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { pretend_driver(); }
  void SetUp() override { device = make_device(0); }
  void TearDown() override { pretend_capture(false); }
  std::unique_ptr<Stream> theirs(uintptr_t handle) { return wrap_stream(*device, reinterpret_cast<StreamHandle>(handle), "theirs"); }
  // The pretended driver tells completion only after some looks.
  void look() {
    for (int i = 0; i < 8; ++i) device->memory();
  }
  std::shared_ptr<Device> device;
};

// The legacy default stream waits for every stream that is not made otherwise, and those for it.
TEST_F(NumberedCasesTest, Case19NoStreamOfOursJoinsTheLegacyDefaultStream) {
  auto third = device->make_stream("third");
  BufferPtr a = third->allocate(1 << 20);
  Requests made = pretended_requests();
  EXPECT_GE(made.streams, 3);
  EXPECT_EQ(made.blocking_streams, 0);
}

// No stream has a priority, so none can hold up another of a higher one.
TEST_F(NumberedCasesTest, Case20bStreamsHaveNoPriorities) {
  auto third = device->make_stream("third");
  EXPECT_EQ(pretended_requests().streams_with_priority, 0);
}

// Work that others put on their stream taints what was lent to it, up to the next mark behind it and no further.
TEST_F(NumberedCasesTest, Case32ATaintEndsWithALaterMark) {
  std::unique_ptr<Stream> consumer = theirs(32);
  BufferPtr lent = device->compute_stream().allocate(8 << 20);
  void* address = lent->data();
  lent->add_use(consumer->axis());
  const uint64_t marked = consumer->axis().submitted.load();
  EXPECT_GT(marked, 0u) << "what is queued there has no point";
  lent.reset();
  BufferPtr other = device->compute_stream().allocate(8 << 20, {.no_hidden_wait = true, .deterministic = true});
  EXPECT_NE(other->data(), address) << "reused although their work may still be running";
  other.reset();
  order_after(device->compute_stream(), *consumer);  // a later mark, which our stream waits for
  BufferPtr again = device->compute_stream().allocate(8 << 20, {.no_hidden_wait = true, .deterministic = true});
  BufferPtr more = device->compute_stream().allocate(8 << 20, {.no_hidden_wait = true, .deterministic = true});
  EXPECT_TRUE(again->data() == address || more->data() == address) << "still out of reach after a wait for their stream";
}

// Memory is not shared between processes: none of it could be closed, or freed, while another process uses it.
TEST_F(NumberedCasesTest, Case35NoMemoryIsSharedBetweenProcesses) {
  BufferPtr a = device->compute_stream().allocate(64 << 20), b = device->copy_stream().allocate(100);
  EXPECT_GT(pretended_requests().memories, 0);
  EXPECT_EQ(pretended_requests().shareable_memories, 0);
  for (const char* symbol : {
#define THALWEG_DRIVER(name, symbol, since, ...) symbol,
#include "runtime/cuda/driver.def"
#undef THALWEG_DRIVER
       }) {
    EXPECT_EQ(std::strstr(symbol, "Ipc"), nullptr) << symbol;
    EXPECT_EQ(std::strstr(symbol, "Shareable"), nullptr) << symbol;
  }
}

TEST_F(NumberedCasesTest, Case37TrimDuringACapture) {
  std::unique_ptr<Stream> consumer = theirs(48);
  BufferPtr lent = device->compute_stream().allocate(40 << 20), idle = device->compute_stream().allocate(72 << 20);
  char* address = static_cast<char*>(lent->data());
  std::memset(address, 1, lent->size());
  pretend_capture(true);
  lent->add_use(consumer->axis());
  lent.reset();
  idle.reset();
  look();
  EXPECT_GE(device->trim(), size_t{64} << 20);
  EXPECT_EQ(address[0] + address[(40 << 20) - 1], 2) << "pages that a capture may use were taken away";  // or a fault
  pretend_capture(false);
  look();
  EXPECT_GT(device->trim(), size_t{32} << 20);
}

// Slabs of another allocator: the whole path of guest mode, with copies, on the CUDA backend.
TEST_F(NumberedCasesTest, Case36dAGuestOnAGpu) {
  std::map<char*, size_t> lent;
  {
    auto guest = make_device(0);
    SlabLender lender;
    lender.take = [&](size_t bytes) -> Slab {
      auto* base = static_cast<char*>(std::aligned_alloc(256, bytes));
      lent[base] = bytes;
      return {base, bytes, {}};
    };
    lender.give = [&](char* base) {
      lent.erase(base);
      std::free(base);
    };
    static_cast<PooledDevice&>(*guest).set_lender(lender);
    const size_t used = pretended_used();
    std::vector<char> there(9 << 20, 5), back(9 << 20);
    for (int i = 0; i < 10; ++i) {
      BufferPtr a = guest->copy_stream().allocate(there.size()), b = guest->compute_stream().allocate(there.size());
      copy_from_host(guest->copy_stream(), a, 0, there.data(), there.size());
      copy(guest->compute_stream(), a, 0, b, 0, there.size());
      copy_to_host(guest->compute_stream(), b, 0, back.data(), back.size());
      EXPECT_TRUE(there == back);
    }
    EXPECT_EQ(pretended_used(), used) << "memory of the driver's own was taken";
    EXPECT_FALSE(lent.empty());
    guest->synchronize();
    EXPECT_GT(guest->trim(), size_t{0});
    EXPECT_TRUE(lent.empty());
    BufferPtr again = guest->compute_stream().allocate(1 << 20);
  }
  EXPECT_TRUE(lent.empty()) << "slabs of a device that is gone";
}

TEST_F(NumberedCasesTest, Case70FreedInsideACaptureAndUsedByIt) {
  std::unique_ptr<Stream> consumer = theirs(64);
  BufferPtr outside = device->compute_stream().allocate(8 << 20);
  void* address = outside->data();
  pretend_capture(true);
  outside->add_use(consumer->axis());
  outside.reset();
  for (int i = 0; i < 3; ++i) {
    BufferPtr next = device->compute_stream().allocate(8 << 20);
    EXPECT_NE(next->data(), address) << "reused inside the capture";
  }
  pretend_capture(false);
  look();
  BufferPtr a = device->compute_stream().allocate(8 << 20), b = device->compute_stream().allocate(8 << 20);
  EXPECT_TRUE(a->data() == address || b->data() == address);
}

}  // namespace
}  // namespace thalweg::runtime::cuda
