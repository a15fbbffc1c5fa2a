// What every backend must do, as one parametrised suite: each backend's test file instantiates it.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/device.h"
#include "support/error.h"

namespace thalweg::runtime::conformance {

// What the suite puts on streams, and how the host touches a device's memory: here on the host itself.
struct HostWork {
  virtual ~HostWork() = default;
  // Called as work.
  virtual void fill(void* native, void* to, unsigned char value, size_t bytes) { std::memset(to, value, bytes); }
  virtual void copy(void* native, const void* from, void* to, size_t bytes) { std::memcpy(to, from, bytes); }
  virtual void add_one(void* native, void* counter) { ++*static_cast<int64_t*>(counter); }
  virtual void wait_for(void* native, const std::shared_ptr<std::atomic<uint32_t>>& open) {
    while (!open->load()) std::this_thread::yield();
  }
  // Called by the host, at once.
  virtual void read(const void* from, void* to, size_t bytes) { std::memcpy(to, from, bytes); }
  virtual void write(void* to, unsigned char value, size_t bytes) { std::memset(to, value, bytes); }
  // Memory that both the host and work may touch.
  virtual std::shared_ptr<unsigned char> shared_memory(size_t bytes) { return {new unsigned char[bytes], std::default_delete<unsigned char[]>()}; }
};

// How the suite makes a device of a backend, and keeps a stream from going on.
struct Kind {
  std::string name;
  std::function<std::shared_ptr<Device>()> make;
  bool has_threads = true;  // work runs while the host does other things; else only while the host waits
  std::function<std::shared_ptr<HostWork>(Device&)> work = [](Device&) { return std::make_shared<HostWork>(); };
};

inline void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

// Keeps a stream busy until let_go(); on a backend without threads nothing runs anyway until the host waits.
class Hold {
 public:
  Hold(const Kind& kind, const std::shared_ptr<HostWork>& work, Stream& stream) : memory_(work->shared_memory(sizeof(std::atomic<uint32_t>))) {
    open_ = {memory_, new (memory_.get()) std::atomic<uint32_t>(0)};
    if (!kind.has_threads) return;
    Submission(stream).label("hold").run([open = open_, work](void* native) { work->wait_for(native, open); });
  }
  ~Hold() { let_go(); }
  void let_go() { open_->store(1); }

 private:
  std::shared_ptr<unsigned char> memory_;
  std::shared_ptr<std::atomic<uint32_t>> open_;
};

class Conformance : public testing::TestWithParam<Kind> {
 protected:
  void TearDown() override { device->synchronize(); }  // queued work uses `work`, which ends before the device

  std::shared_ptr<Device> device = GetParam().make();
  std::shared_ptr<HostWork> work = GetParam().work(*device);
  Stream& compute = device->compute_stream();
  Stream& copy = device->copy_stream();

  Hold hold(Stream& stream) { return Hold(GetParam(), work, stream); }
  void fill(Stream& stream, const BufferPtr& buffer, unsigned char value) {
    Submission(stream).write(buffer).label("fill").run(
        [work = work.get(), to = buffer->data(), n = buffer->size(), value](void* native) { work->fill(native, to, value, n); });
  }
  void transfer(Stream& stream, const BufferPtr& from, const BufferPtr& to) { transfer(stream, from, to, to->size()); }
  void transfer(Stream& stream, const BufferPtr& from, const BufferPtr& to, size_t bytes) {
    Submission(stream).read(from).write(to).label("transfer").run([work = work.get(), a = from->data(), b = to->data(), bytes](void* native) {
      work->copy(native, a, b, bytes);
    });
  }
  int value(const BufferPtr& buffer) {
    buffer->wait_written();
    std::vector<unsigned char> bytes(buffer->size());
    work->read(buffer->data(), bytes.data(), bytes.size());
    for (size_t i = 1; i < bytes.size(); ++i) {
      if (bytes[i] != bytes[0]) return -1;
    }
    return bytes[0];
  }
  static ErrorKind kind_of(const std::function<void()>& call, std::string* message = nullptr) {
    try {
      call();
    } catch (const Error& error) {
      if (message) *message = error.what();
      return error.kind();
    }
    ADD_FAILURE() << "nothing was thrown";
    return ErrorKind::Internal;
  }
};

TEST_P(Conformance, WorkRunsInOrderOfSubmission) {
  auto order = std::make_shared<std::vector<int>>();
  for (int i = 0; i < 1000; ++i) Submission(compute).run([order, i](void*) { order->push_back(i); });
  compute.synchronize();
  ASSERT_EQ(order->size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ((*order)[i], i);
}

TEST_P(Conformance, AllocationsAreAlignedApartAndOfTheirSize) {
  std::vector<BufferPtr> buffers;
  for (size_t bytes : {1, 64, 255, 256, 257, 4095, 4096, 4097, 100'000, 1 << 20, (1 << 20) + 1, 5'000'000}) {
    for (int i = 0; i < 3; ++i) {
      buffers.push_back(compute.allocate(bytes));
      EXPECT_EQ(buffers.back()->size(), bytes);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(buffers.back()->data()) % 64, 0u);
      EXPECT_EQ(&buffers.back()->device(), device.get());
      fill(compute, buffers.back(), static_cast<unsigned char>(buffers.size()));
    }
  }
  for (size_t i = 0; i < buffers.size(); ++i) EXPECT_EQ(value(buffers[i]), static_cast<int>(i + 1));
}

TEST_P(Conformance, AnEmptyBufferIsValid) {
  BufferPtr buffer = compute.allocate(0);
  EXPECT_EQ(buffer->size(), 0u);
  EXPECT_NE(buffer->data(), nullptr);
  Submission(compute).write(buffer).run([](void*) {});
  buffer->wait_written();
  EXPECT_TRUE(buffer->is_written());
}

TEST_P(Conformance, ReadsOnOtherStreamsWaitForTheWrite) {
  BufferPtr a = compute.allocate(1 << 16), b = copy.allocate(1 << 16);
  Hold held = hold(compute);
  fill(compute, a, 7);
  transfer(copy, a, b);
  EXPECT_FALSE(b->is_written());
  held.let_go();
  EXPECT_EQ(value(b), 7);
}

TEST_P(Conformance, WritesOnOtherStreamsWaitForReadsAndWrites) {
  BufferPtr a = compute.allocate(1 << 16), b = copy.allocate(1 << 16);
  fill(compute, a, 1);
  Hold held = hold(copy);
  transfer(copy, a, b);
  fill(compute, a, 2);  // must not overtake the transfer
  fill(copy, a, 3);
  held.let_go();
  EXPECT_EQ(value(b), 1);
  EXPECT_EQ(value(a), 3);
}

TEST_P(Conformance, TheHostCanWaitForReads) {
  BufferPtr a = compute.allocate(1 << 12), b = copy.allocate(1 << 12);
  fill(compute, a, 1);
  a->wait_written();
  transfer(copy, a, b);
  a->wait_unused();
  work->write(a->data(), 9, a->size());
  EXPECT_EQ(value(b), 1);
}

TEST_P(Conformance, FreedMemoryIsReusedOnItsStreamAtOnce) {
  Hold held = hold(compute);
  BufferPtr a = compute.allocate(100'000), result = compute.allocate(100'000);
  fill(compute, a, 5);
  transfer(compute, a, result);
  void* address = a->data();
  a.reset();
  BufferPtr b = compute.allocate(100'000);
  EXPECT_EQ(b->data(), address);
  fill(compute, b, 6);
  held.let_go();
  EXPECT_EQ(value(result), 5);
  EXPECT_EQ(value(b), 6);
}

TEST_P(Conformance, FreedMemoryInUseIsNotHandedToAnotherStream) {
  Hold held = hold(compute);
  BufferPtr a = compute.allocate(100'000), result = compute.allocate(100'000);
  fill(compute, a, 5);
  transfer(compute, a, result);
  a.reset();
  BufferPtr b = copy.allocate(100'000);
  fill(copy, b, 6);
  held.let_go();
  EXPECT_EQ(value(result), 5);
  EXPECT_EQ(value(b), 6);
}

TEST_P(Conformance, FreedMemoryThatAnotherStreamStillReadsIsNotReused) {
  BufferPtr a = compute.allocate(100'000), result = copy.allocate(100'000);
  fill(compute, a, 5);
  Hold held = hold(copy);
  transfer(copy, a, result);
  a.reset();
  BufferPtr b = compute.allocate(100'000);
  fill(compute, b, 6);
  EXPECT_EQ(value(b), 6);
  held.let_go();
  EXPECT_EQ(value(result), 5);
}

TEST_P(Conformance, SubmissionsHoldNoReferences) {
  BufferPtr a = compute.allocate(64);
  Hold held = hold(compute);
  fill(compute, a, 1);
  EXPECT_EQ(a->use_count(), 1u);
}

TEST_P(Conformance, AnErrorStaysWithTheBuffersWritten) {
  BufferPtr bad = compute.allocate(64), good = compute.allocate(64);
  Submission(compute).write(bad).run([](void*) { raise(ErrorKind::Index, "index 9 is out of range"); });
  fill(compute, good, 3);
  std::string message;
  EXPECT_EQ(kind_of([&] { bad->wait_written(); }, &message), ErrorKind::Index);
  EXPECT_EQ(message, "index 9 is out of range");
  EXPECT_NE(bad->error(), nullptr);
  compute.synchronize();
  EXPECT_EQ(value(good), 3);
  EXPECT_NE(compute.take_error(), nullptr);
  EXPECT_EQ(compute.take_error(), nullptr);
  bad->clear_error();
  bad->wait_written();
  fill(compute, bad, 4);
  EXPECT_EQ(value(bad), 4);
  EXPECT_EQ(bad->error(), nullptr);
}

TEST_P(Conformance, WorkThatReadsAFailedBufferIsNotRunAndFailsAlike) {
  BufferPtr bad = compute.allocate(64), next = copy.allocate(64), last = compute.allocate(64), good = compute.allocate(64);
  auto ran = std::make_shared<std::atomic<int>>(0);
  Submission(compute).write(bad).run([](void*) { raise(ErrorKind::Index, "index 9 is out of range"); });
  Submission(copy).read(bad).write(next).run([ran](void*) { ++*ran; });
  Submission(compute).read(next).read(good).write(last).run([ran](void*) { ++*ran; });
  std::string message;
  EXPECT_EQ(kind_of([&] { last->wait_written(); }, &message), ErrorKind::Index);
  EXPECT_EQ(message, "index 9 is out of range");
  Submission(compute).read(last).write(good).run([ran](void*) { ++*ran; });  // after it has failed
  EXPECT_EQ(kind_of([&] { good->wait_written(); }), ErrorKind::Index);
  EXPECT_EQ(*ran, 0);
  bad->clear_error();
  Submission(compute).read(bad).write(good).run([ran](void*) { ++*ran; });
  good->wait_written();
  EXPECT_EQ(*ran, 1);
}

TEST_P(Conformance, MemoryForTheHostIsUnusedByEarlierWork) {
  Hold held = hold(compute);
  BufferPtr result = copy.allocate(100'000);
  {
    BufferPtr a = copy.allocate(100'000);
    fill(compute, a, 5);
    transfer(compute, a, result);
  }
  BufferPtr host = copy.allocate_for_host(100'000);  // must not wait for the stream that is held
  work->write(host->data(), 6, host->size());
  held.let_go();
  EXPECT_EQ(value(result), 5);
  EXPECT_EQ(value(host), 6);
  host.reset();
  BufferPtr other = compute.allocate(100'000);
  fill(compute, other, 7);
  other.reset();
  host = compute.allocate_for_host(100'000);
  work->write(host->data(), 8, host->size());
  EXPECT_EQ(value(host), 8);
}

TEST_P(Conformance, BeyondTheLimitIsOutOfMemoryAndTheNextStepWorks) {
  device->set_memory_limit(8 << 20);
  BufferPtr kept = compute.allocate(6 << 20);
  fill(compute, kept, 1);
  std::string message;
  EXPECT_EQ(kind_of([&] { compute.allocate(3 << 20); }, &message), ErrorKind::OutOfMemory);
  for (const char* part : {"3.00 MiB", "stream compute", "live 6.00 MiB", "limit 8.00 MiB", "1 buffer of fill"}) {
    EXPECT_NE(message.find(part), std::string::npos) << part << " is missing in: " << message;
  }
  EXPECT_EQ(kind_of([&] { compute.allocate(size_t{1} << 60); }), ErrorKind::OutOfMemory);
  kept.reset();
  BufferPtr next = compute.allocate(7 << 20);
  fill(compute, next, 2);
  EXPECT_EQ(value(next), 2);
  EXPECT_EQ(device->memory_counts().failures, 2u);
}

TEST_P(Conformance, UnderALimitMemoryInUseByAnotherStreamIsWaitedFor) {
  device->set_memory_limit(8 << 20);
  BufferPtr result = copy.allocate(1 << 20);
  {
    BufferPtr a = compute.allocate(6 << 20);
    fill(compute, a, 5);
    transfer(copy, a, result, 1 << 20);
  }
  for (int i = 0; i < 10; ++i) {
    BufferPtr b = compute.allocate((6 << 20) - (i << 16));
    fill(compute, b, 6);
    b.reset();
    BufferPtr c = copy.allocate(5 << 19);
    fill(copy, c, 7);
  }
  EXPECT_EQ(value(result), 5);
  EXPECT_LE(device->memory().reserved, size_t{16} << 20);
}

TEST_P(Conformance, FlagsKeepTheLadderShort) {
  device->set_memory_limit(4 << 20);
  BufferPtr result = copy.allocate(64);
  BufferPtr a = compute.allocate(3 << 20);
  fill(compute, a, 1);
  Hold held = hold(copy);
  Submission(copy).read(a).write(result).run([](void*) {});
  a.reset();
  EXPECT_EQ(kind_of([&] { compute.allocate(3 << 20, {.no_hidden_wait = true, .no_growth = true}); }), ErrorKind::OutOfMemory);
  EXPECT_EQ(device->memory_counts().hidden_waits, 0u);
  BufferPtr b = compute.allocate(3 << 20, {.no_growth = true});
  EXPECT_EQ(device->memory_counts().hidden_waits, 1u);
  held.let_go();
}

TEST_P(Conformance, MemoryInfoAddsUp) {
  auto sums = [&] {
    MemoryInfo info = device->memory();
    EXPECT_EQ(info.live + info.pending + info.cached, info.reserved);
    return info;
  };
  BufferPtr a = compute.allocate(3 << 20), b = compute.allocate(1000);
  fill(compute, a, 1);
  EXPECT_EQ(sums().live, size_t{3 << 20} + 1024);
  Hold held = hold(compute);
  fill(compute, a, 2);
  a.reset();
  EXPECT_GE(sums().pending, size_t{3} << 20);
  EXPECT_EQ(sums().live, 1024u);
  held.let_go();
  device->synchronize();
  EXPECT_EQ(sums().pending, 0u);
  EXPECT_GE(sums().peak_live, size_t{3} << 20);
  device->reset_peak();
  EXPECT_EQ(sums().peak_live, 1024u);
  EXPECT_GT(device->trim(), size_t{0});
  EXPECT_EQ(sums().live, 1024u);
  EXPECT_LE(sums().cached, size_t{2} << 20);
  BufferPtr c = compute.allocate(3 << 20);
  fill(compute, c, 3);
  EXPECT_EQ(value(c), 3);
}

TEST_P(Conformance, WrappedMemoryIsReleasedOnceAfterItsLastUse) {
  std::shared_ptr<unsigned char> memory = work->shared_memory(1000);
  std::fill_n(memory.get(), 1000, 4);
  auto released = std::make_shared<std::atomic<int>>(0);
  BufferPtr result = copy.allocate(1000);
  BufferPtr unused = device->wrap(memory.get(), 1000, [released] { ++*released; });
  unused.reset();
  EXPECT_EQ(*released, 1);
  Hold held = hold(copy);
  {
    BufferPtr wrapped = device->wrap(memory.get(), 1000, [memory, released] {
      std::fill_n(memory.get(), 1000, 0);
      ++*released;
    });
    EXPECT_EQ(wrapped->data(), memory.get());
    EXPECT_TRUE(wrapped->is_written());
    transfer(copy, wrapped, result);
  }
  EXPECT_EQ(*released, 1);
  held.let_go();
  device->synchronize();
  EXPECT_EQ(value(result), 4);
  device->synchronize();
  EXPECT_EQ(*released, 2);
}

TEST_P(Conformance, AStreamThatEndsCompletesItsWork) {
  BufferPtr a = compute.allocate(4096);
  auto ran = std::make_shared<int>(0);
  {
    std::unique_ptr<Stream> stream = device->make_stream("short");
    for (int i = 0; i < 100; ++i) Submission(*stream).write(a).run([ran](void*) { ++*ran; });
    BufferPtr own = stream->allocate(4096);
    fill(*stream, own, 1);
    fill(*stream, a, 8);
  }
  EXPECT_EQ(*ran, 100);
  EXPECT_EQ(value(a), 8);
  BufferPtr kept;
  for (int i = 0; i < 20; ++i) {
    std::unique_ptr<Stream> stream = device->make_stream("next");
    kept = stream->allocate(4096);
    fill(*stream, kept, static_cast<unsigned char>(i));
    transfer(compute, kept, a);
  }
  EXPECT_EQ(value(a), 19);
}

TEST_P(Conformance, WaitingForItsOwnStreamInsideWorkIsAnError) {
  BufferPtr a = compute.allocate(64);
  Submission(compute).write(a).run([&](void*) { compute.synchronize(); });
  EXPECT_EQ(kind_of([&] { a->wait_written(); }), ErrorKind::Device);
}

TEST_P(Conformance, ManyThreadsAllocateSubmitAndFree) {
  if (!GetParam().has_threads) GTEST_SKIP() << "the stepper has one host thread";
  std::unique_ptr<Stream> third = device->make_stream("third");
  Stream* streams[] = {&compute, &copy, third.get()};
  BufferPtr total = compute.allocate(sizeof(int64_t));
  fill(compute, total, 0);
  constexpr int kThreads = 8, kRounds = 200;
  auto tag_of = [](int t, int i) { return static_cast<unsigned char>(t * 31 + i); };
  std::shared_ptr<unsigned char> ends = work->shared_memory(2 * kThreads * kRounds);  // first and last byte of each round's copy
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRounds; ++i) {
        Stream& first = *streams[(t + i) % 3];
        Stream& second = *streams[(t + i + 1 + i % 2) % 3];
        size_t bytes = 64u << (i % 12);
        BufferPtr a = first.allocate(bytes), b = second.allocate(bytes);
        fill(first, a, tag_of(t, i));
        transfer(second, a, b);
        a.reset();
        unsigned char* seen = ends.get() + 2 * (t * kRounds + i);
        Submission(first).read(b).write(total).run([work = work.get(), at = static_cast<char*>(b->data()), bytes, seen, to = total->data()](void* native) {
          work->copy(native, at, seen, 1);
          work->copy(native, at + bytes - 1, seen + 1, 1);
          work->add_one(native, to);
        });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  total->wait_written();
  device->synchronize();
  int64_t sum = 0;
  work->read(total->data(), &sum, sizeof sum);
  EXPECT_EQ(sum, kThreads * kRounds);
  int wrong = 0;
  for (int t = 0; t < kThreads; ++t) {
    for (int i = 0; i < kRounds; ++i) {
      const unsigned char* seen = ends.get() + 2 * (t * kRounds + i);
      wrong += seen[0] != tag_of(t, i) || seen[1] != tag_of(t, i);
    }
  }
  EXPECT_EQ(wrong, 0);
}

}  // namespace thalweg::runtime::conformance
