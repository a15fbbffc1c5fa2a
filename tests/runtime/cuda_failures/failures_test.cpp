// Every call of the driver fails once, over a driver that only pretends: nothing leaks, nothing hangs, every buffer tells the truth, and work goes on after it.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>
#include <thread>

#include "runtime/cuda/staging.h"
#include "support/error.h"
#include "tests/runtime/cuda_failures/pretended_driver.h"

namespace thalweg::runtime::cuda {
namespace {

constexpr Result kInvalidValue = 1;

class CudaFailuresTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { pretend_driver(); }
  void TearDown() override { fail_call(0, kSuccess); }
};

// A little of everything. Throws whatever is thrown; counts the release functions that ran.
void use_everything(Device& device, std::atomic<int>& released) {
  std::vector<char> there(300'000), back(300'000);
  std::iota(there.begin(), there.end(), 0);
  Stream &compute = device.compute_stream(), &copies = device.copy_stream();
  std::unique_ptr<Stream> third = device.make_stream("third");
  BufferPtr a = copies.allocate(there.size()), b = compute.allocate(there.size()), c = third->allocate(40 << 20);
  copy_from_host(copies, a, 0, there.data(), there.size());
  copy(compute, a, 0, b, 0, there.size());
  {
    BufferPtr wrapped = device.wrap(back.data(), back.size(), [&] { ++released; });
    Submission(*third).read(b).write(wrapped).label("out").run([from = b->data(), to = back.data(), n = back.size()](void*) { std::memcpy(to, from, n); });
  }
  c.reset();
  c = compute.allocate(60 << 20);
  Submission(compute).write(c).read(a).run([](void*) { on_complete([] {}); });
  c->wait_written();
  device.trim();
  std::vector<char> read(there.size());
  copy_to_host(copies, b, 0, read.data(), read.size());
  EXPECT_EQ(read, there);
}

TEST_F(CudaFailuresTest, EveryCallFailsOnceAndWorkGoesOn) {
  int errors = 0, calls = 0;
  for (Result result : {kInvalidValue, kErrorOutOfMemory}) {
    for (int call = 1;; ++call) {
      std::atomic<int> released{0};
      {
        std::shared_ptr<Device> device;
        fail_call(call, result);
        try {
          device = make_device(0);
          use_everything(*device, released);
        } catch (const Error& error) {
          ++errors;
          EXPECT_STRNE(failed_symbol(), "") << error.what();
        }
        const std::string symbol = failed_symbol();
        SCOPED_TRACE("call " + std::to_string(call) + ": " + symbol);
        fail_call(0, kSuccess);
        if (device != nullptr) {
          device->synchronize();
          EXPECT_EQ(device->memory().live, 0u);
          // A failed call is not a broken GPU: the next step works.
          released = 0;
          use_everything(*device, released);
          device->synchronize();
          EXPECT_EQ(released, 1);
          EXPECT_GT(device->trim(), size_t{0});
        }
        if (symbol.empty()) {
          calls = call;
          break;
        }
      }
      EXPECT_EQ(pretended_used(), 0u) << "after call " << call;
      EXPECT_EQ(pretended_objects(), 0) << "after call " << call;
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(calls, 20);
  EXPECT_GT(errors, 20);
}

TEST_F(CudaFailuresTest, LargeCopiesByManyThreadsComeBackAsTheyWent) {
  unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  auto device = make_device(0);
  for (size_t bytes : {(size_t{4} << 20) + 1, size_t{12} << 20, (size_t{37} << 20) + 1234}) {
    std::vector<char> there(bytes), back(bytes);
    for (size_t i = 0; i < bytes; i += 97) there[i] = static_cast<char>(random());
    BufferPtr buffer = device->copy_stream().allocate(bytes + 100);
    copy_from_host(device->copy_stream(), buffer, 50, there.data(), bytes);
    copy_to_host(device->compute_stream(), buffer, 50, back.data(), bytes);
    EXPECT_TRUE(there == back) << bytes;
    EXPECT_THROW(copy_from_host(device->copy_stream(), buffer, 101, there.data(), bytes), Error);
    EXPECT_THROW(copy_to_host(device->copy_stream(), buffer, 101, back.data(), bytes), Error);
    // A call that fails on any of the threads is the copy's error.
    for (int call : {1, 5, 11}) {
      fail_call(call, kInvalidValue);
      bool failed = false;
      try {
        copy_to_host(device->compute_stream(), buffer, 50, back.data(), bytes);
      } catch (const Error&) {
        failed = true;
      }
      // Failures in looking whether something has completed are only found out later.
      EXPECT_TRUE(failed || std::string(failed_symbol()) != "cuMemcpyDtoHAsync") << failed_symbol();
      fail_call(0, kSuccess);
    }
    copy_to_host(device->compute_stream(), buffer, 50, back.data(), bytes);
    EXPECT_TRUE(there == back) << bytes;
  }
}

TEST_F(CudaFailuresTest, AFullGpuIsOutOfMemoryUntilSomethingIsFreed) {
  auto device = make_device(0);
  std::vector<BufferPtr> held;
  try {
    for (;;) held.push_back(device->compute_stream().allocate(30 << 20));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::OutOfMemory);
  }
  EXPECT_GE(held.size() * (30 << 20), pretended_bytes() * 9 / 10);
  held.pop_back();
  BufferPtr next = device->copy_stream().allocate(30 << 20);
  held.clear();
  next.reset();
  EXPECT_GT(device->trim(), pretended_bytes() / 2);
  EXPECT_EQ(pretended_used(), 0u);
}

TEST_F(CudaFailuresTest, DebugModesThatFit) {
  std::atomic<int> released{0};
  for (const char* modes : {"unmap", "poison", "poison,quarantine=5,delay=3", "sync,deterministic"}) {
    SCOPED_TRACE(modes);
    setenv("THALWEG_DEBUG", modes, 1);
    auto device = make_device(0);
    unsetenv("THALWEG_DEBUG");
    for (int i = 0; i < 5; ++i) use_everything(*device, released);
    device->synchronize();
  }
  EXPECT_EQ(released, 20);
  EXPECT_EQ(pretended_used(), 0u);
  EXPECT_EQ(pretended_objects(), 0);
  setenv("THALWEG_DEBUG", "redzone", 1);
  EXPECT_THROW(make_device(0), Error);  // the host cannot look at a GPU's memory
  unsetenv("THALWEG_DEBUG");
}

TEST_F(CudaFailuresTest, AWrappedStreamThatEndsInACaptureKeepsWhatWasLentToIt) {
  for (bool ends : {false, true}) {
    auto device = make_device(0);
    std::unique_ptr<Stream> theirs = wrap_stream(*device, reinterpret_cast<StreamHandle>(16), "theirs");
    BufferPtr lent = device->compute_stream().allocate(8 << 20);
    void* address = lent->data();
    pretend_capture(true);
    EXPECT_THROW(order_after(device->compute_stream(), *theirs), Error);
    lent->add_use(theirs->axis());
    lent.reset();
    if (ends) theirs.reset();
    for (int i = 0; i < 3; ++i) EXPECT_NE(device->compute_stream().allocate((8 << 20) - i * 1000)->data(), address);
    device->set_memory_limit(17 << 20);  // waiting would be the next resort
    BufferPtr other = device->compute_stream().allocate(8 << 20);
    EXPECT_NE(other->data(), address);
    pretend_capture(false);
    device->memory();  // looks at what has completed
    device->memory();
    device->memory();
    device->memory();
    BufferPtr again = device->compute_stream().allocate(8 << 20);
    EXPECT_EQ(again->data(), address);
  }
}

TEST_F(CudaFailuresTest, ThreadsSubmitAcrossStreamsWhileCompletionComesLate) {
  auto device = make_device(0);
  unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::vector<std::unique_ptr<Stream>> streams;
  for (int i = 0; i < 4; ++i) streams.push_back(device->make_stream("stream"));
  std::vector<BufferPtr> shared;
  for (int i = 0; i < 6; ++i) {
    shared.push_back(streams[0]->allocate(8));
    Submission(*streams[0]).write(shared.back()).run([to = shared.back()->data()](void*) { *static_cast<int64_t*>(to) = 0; });
  }
  constexpr int kThreads = 4, kRounds = 1500;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(seed + static_cast<unsigned>(t));
      for (int i = 0; i < kRounds; ++i) {
        const BufferPtr &from = shared[random() % 6], &to = shared[random() % 6];
        Stream& stream = *streams[random() % 4];
        BufferPtr scratch = stream.allocate(64 << random() % 12);
        Submission(stream).read(from).write(to).write(scratch).run([&, at = to->data(), nested = random() % 16 == 0](void*) {
          ++*static_cast<int64_t*>(at);  // in order, or the thread sanitizer and the sum would tell
          if (nested) Submission(device->copy_stream()).run([](void*) {});
        });
        if (random() % 32 == 0) from->wait_written();
        if (random() % 64 == 0) to->is_written();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  device->synchronize();
  int64_t sum = 0;
  for (const BufferPtr& buffer : shared) sum += *static_cast<int64_t*>(buffer->data());
  EXPECT_EQ(sum, kThreads * kRounds);
}

}  // namespace
}  // namespace thalweg::runtime::cuda
