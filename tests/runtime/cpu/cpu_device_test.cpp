// The CPU device: the common suite, and what is its own: fork, exit, idle threads.
#include "runtime/cpu/cpu_device.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>

#include "tests/runtime/conformance.h"
#include "tests/runtime/cpu/guest.h"

// The thread sanitizer kills forked children that start threads, unless told otherwise.
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_options() { return "die_after_fork=0"; }

namespace thalweg::runtime::cpu {
namespace {

using conformance::Conformance;
using conformance::Kind;

INSTANTIATE_TEST_SUITE_P(Cpu, Conformance, testing::Values(Kind{"cpu", [] { return make_device(1); }, true}, Kind{"guest", make_guest, true}),
                         [](const auto& info) { return info.param.name; });

// Runs `body` in a forked child and returns its exit status, 255 when it does not end within ten seconds.
int in_child(const std::function<int()>& body) {
  pid_t child = fork();
  if (child == 0) _exit(body());
  for (int i = 0; i < 1000; ++i) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child) return WIFEXITED(status) ? WEXITSTATUS(status) : 254;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return 255;
}

TEST(CpuDeviceTest, AForkedChildHasWorkingStreamsAndNotTheParentsWork) {
  Stream& stream = device().compute_stream();
  BufferPtr done = stream.allocate(64), pending = stream.allocate(64), copied = device().copy_stream().allocate(64);
  Submission(stream).write(done).run([to = done->data()](void*) { *static_cast<int*>(to) = 41; });
  done->wait_written();
  std::atomic<bool> open{false};
  std::atomic<int> ran{0};
  Submission(stream).run([&](void*) {
    while (!open) std::this_thread::yield();
  });
  Submission(stream).write(pending).run([&](void*) { ++ran; });
  int status = in_child([&] {
    if (*static_cast<int*>(done->data()) != 41) return 1;
    try {
      pending->wait_written();
      return 2;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::Device) return 3;
    }
    open = true;
    Submission(stream).read(done).write(copied).run(
        [from = done->data(), to = copied->data()](void*) { *static_cast<int*>(to) = *static_cast<const int*>(from) + 1; });
    copied->wait_written();
    if (*static_cast<int*>(copied->data()) != 42) return 4;
    BufferPtr fresh = stream.allocate(1 << 20);
    Submission(stream).write(fresh).run([](void*) {});
    device().synchronize();
    return ran == 0 ? 0 : 5;
  });
  EXPECT_EQ(status, 0);
  open = true;
  pending->wait_written();
  EXPECT_EQ(ran, 1);
}

TEST(CpuDeviceTest, ForksWhileOtherThreadsAllocateAndFail) {
  Stream& stream = device().compute_stream();
  std::atomic<bool> stop{false};
  std::thread worker([&] {
    while (!stop) {
      BufferPtr a = stream.allocate(4096), b = device().copy_stream().allocate(4096);
      Submission(stream).write(a).run([](void*) { throw std::runtime_error("on purpose"); });
      Submission(device().copy_stream()).read(a).write(b).run([](void*) {});
    }
  });
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(in_child([&] {
                BufferPtr a = stream.allocate(4096), b = device().copy_stream().allocate(1 << 20);
                Submission(stream).write(a).run([to = a->data()](void*) { *static_cast<int*>(to) = 7; });
                Submission(device().copy_stream()).read(a).write(b).run([](void*) {});
                b->wait_written();
                return *static_cast<int*>(a->data()) == 7 ? 0 : 1;
              }),
              0);
  }
  stop = true;
  worker.join();
  device().synchronize();
}

TEST(CpuDeviceTest, ExitsCleanlyWithPendingWork) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer allows no threads after a fork";
#endif
  int status = in_child([]() -> int {
    Stream& stream = device().compute_stream();
    BufferPtr a = stream.allocate(1 << 20);
    for (int i = 0; i < 100; ++i) Submission(stream).write(a).run([](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(50)); });
    static BufferPtr dropped_late = device().copy_stream().allocate(100);
    static std::unique_ptr<Stream> ends_late = device().make_stream("late");
    Submission(*ends_late).write(dropped_late).run([](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(50)); });
    std::exit(0);
  });
  EXPECT_EQ(status, 0);
}

TEST(CpuDeviceTest, Case18AThreadEndsWithItsStream) {
  BufferPtr kept, sum = device().compute_stream().allocate(64);
  for (int i = 0; i < 20; ++i) {
    std::thread([&] {
      auto stream = device().make_stream("of a thread");
      kept = stream->allocate(4096);
      Submission(*stream).write(kept).run([to = kept->data(), i](void*) { *static_cast<int*>(to) = i; });
      BufferPtr own = stream->allocate(4096);
      Submission(*stream).read(kept).write(own).run([](void*) {});
    }).join();
    Submission(device().compute_stream()).read(kept).write(sum).run([from = kept->data(), to = sum->data()](void*) {
      *static_cast<int*>(to) = *static_cast<const int*>(from);
    });
    kept.reset();
    sum->wait_written();
    EXPECT_EQ(*static_cast<int*>(sum->data()), i);
  }
}

TEST(CpuDeviceTest, Case22FreedFromSixteenThreads) {
  auto device = make_device(2);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  std::vector<BufferPtr> all(1600);
  for (size_t i = 0; i < all.size(); ++i) all[i] = device->compute_stream().allocate(256 << i % 8);
  for (int t = 0; t < 16; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = static_cast<size_t>(t); i < all.size(); i += 16) {
        Submission(i % 2 ? device->compute_stream() : device->copy_stream()).write(all[i]).run([](void*) {});
        all[i].reset();
        BufferPtr next = device->compute_stream().allocate(256 << i % 8);
        Submission(device->compute_stream()).write(next).run([to = next->data(), i](void*) { *static_cast<size_t*>(to) = i; });
        next->wait_written();
        if (*static_cast<size_t*>(next->data()) != i) ++wrong;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(device->memory().live, 0u);
}

TEST(CpuDeviceTest, Case23AllocationsWhileMemoryIsTrimmedAndMeasured) {
  auto device = make_device(2);
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop) {
      device->trim();
      MemoryInfo info = device->memory();
      EXPECT_LE(info.cached + info.pending, info.reserved);
      device->memory_report();
    }
  });
  for (int i = 0; i < 2000; ++i) {
    BufferPtr a = device->compute_stream().allocate(1000 << i % 12), b = device->copy_stream().allocate(1000 << i % 12);
    Submission(device->compute_stream()).write(a).run([to = a->data(), i](void*) { *static_cast<int*>(to) = i; });
    Submission(device->copy_stream()).read(a).write(b).run([](void*) {});
    a->wait_written();
    ASSERT_EQ(*static_cast<int*>(a->data()), i);
  }
  stop = true;
  other.join();
}

TEST(CpuDeviceTest, Case60WaitingForMemoryWhileAnotherThreadFrees) {
  auto device = make_device(2);
  device->set_memory_limit(8 << 20);
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Stream& stream = t % 2 ? device->compute_stream() : device->copy_stream();
      for (int i = 0; i < 200; ++i) {
        try {
          BufferPtr a = stream.allocate(3 << 20);
          Submission(stream).write(a).run([to = a->data()](void*) { *static_cast<int*>(to) = 1; });
          Submission(t % 2 ? device->copy_stream() : device->compute_stream()).read(a).run([](void*) {});
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), ErrorKind::OutOfMemory);
          ++failures;  // more than two at once do not fit
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  BufferPtr last = device->compute_stream().allocate(7 << 20);
  EXPECT_LE(device->memory().live, size_t{8} << 20);
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](const timeval& time) { return time.tv_sec + time.tv_usec * 1e-6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

TEST(CpuDeviceTest, IdleStreamsUseNoProcessor) {
  std::vector<std::unique_ptr<Stream>> streams;
  for (int i = 0; i < 8; ++i) {
    streams.push_back(device().make_stream("idle"));
    Submission(*streams.back()).run([](void*) {});
    streams.back()->synchronize();
  }
  double before = cpu_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(cpu_seconds() - before, 0.05);
}

// Debug mode unmap: touching a buffer that is gone, or beyond one that lives, is a fault.
TEST(CpuDeviceDeathTest, UnmappedMemoryFaults) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto fresh = [] { return make_device(1, {.unmap = true}); };
  {
    auto device = fresh();
    BufferPtr kept = device->compute_stream().allocate(100'000);
    std::memset(kept->data(), 1, kept->size());
  }
  auto touch_gone = [&] {
    auto device = fresh();
    char* address;
    {
      BufferPtr gone = device->compute_stream().allocate(100'000);
      address = static_cast<char*>(gone->data());
      std::memset(address, 1, gone->size());
    }
    *static_cast<volatile char*>(address) = 2;
  };
  auto touch_beyond = [&] {
    auto device = fresh();
    BufferPtr buffer = device->compute_stream().allocate(4096);
    static_cast<volatile char*>(buffer->data())[4096] = 2;
  };
  EXPECT_DEATH(touch_gone(), "");
  EXPECT_DEATH(touch_beyond(), "");
}

}  // namespace
}  // namespace thalweg::runtime::cpu
