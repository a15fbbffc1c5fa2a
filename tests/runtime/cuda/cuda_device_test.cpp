// NVIDIA GPUs: the common suite, and what is their own: copies, streams of others, captures, failures on the device, forks.
#include "runtime/cuda/cuda_device.h"

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <random>

#include "runtime/pooled_device.h"
#include "tests/runtime/cuda/gpu.h"

namespace thalweg::runtime::cuda {
namespace {

using conformance::Conformance;
using conformance::Kind;

// Nothing without a GPU.
std::vector<Kind> kinds() {
  if (device_count() == 0) return {};
  return {Kind{"cuda", [] { return make_device(0); }, true, [](Device& device) { return std::make_shared<GpuWork>(device); }}};
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Conformance);
INSTANTIATE_TEST_SUITE_P(Cuda, Conformance, testing::ValuesIn(kinds()), [](const auto& info) { return info.param.name; });

class CudaDeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_GPU();
    device = make_device(0);
    kernels = std::make_unique<TestKernels>(*device);
  }
  // Words of `value` written and counted by kernels.
  void fill_words(Stream& stream, const BufferPtr& to, uint32_t value) {
    Submission(stream).write(to).label("fill words").run([this, at = to->data(), n = to->size() / 4, value](void* native) {
      launch_with(kernels->fill_words, kWide, native, at, value, uint64_t{n});
    });
  }
  void spin(Stream& stream, uint64_t clocks) {
    Submission(stream).label("spin").run([this, clocks](void* native) { launch_with(kernels->spin, kSingle, native, clocks); });
  }
  uint32_t others(Stream& stream, const BufferPtr& from, uint32_t want) {
    BufferPtr count = stream.allocate(4);
    Submission(stream).read(from).write(count).label("count").run([this, at = from->data(), n = from->size() / 4, want, to = count->data()](void* native) {
      check(driver().fill_bytes(reinterpret_cast<DevicePtr>(to), 0, 4, static_cast<StreamHandle>(native)), "fill memory");
      launch_with(kernels->count_other, kWide, native, at, uint64_t{n}, want, to);
    });
    uint32_t result = 0;
    copy_to_host(stream, count, 0, &result, 4);
    return result;
  }
  std::shared_ptr<Device> device;
  std::unique_ptr<TestKernels> kernels;
};

TEST_F(CudaDeviceTest, SaysWhatItIs) {
  const Properties& all = properties(*device);
  EXPECT_FALSE(all.name.empty());
  EXPECT_GE(all.major, 7);
  EXPECT_GT(all.multiprocessors, 0);
  EXPECT_GT(all.memory_bytes, size_t{1} << 30);
  EXPECT_EQ(device->name(), "CUDA:0");
  EXPECT_TRUE(is_cuda(*device));
  EXPECT_NE(native_stream(device->compute_stream()), nullptr);
  EXPECT_THROW(make_device(99), Error);
  SystemMemory memory = system_memory(*device);
  EXPECT_LE(memory.free, memory.total);
  EXPECT_GT(kernels->fill_words.registers(), 0);
  EXPECT_GT(kernels->fill_words.blocks_per_multiprocessor(256, 0), 0);
}

TEST_F(CudaDeviceTest, CopiesOfEverySizeComeBackAsTheyWent) {
  unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (size_t bytes : {size_t{0}, size_t{1}, size_t{3}, size_t{4096}, (size_t{8} << 20) - 1, (size_t{20} << 20) + 13}) {
    std::vector<char> there(bytes + 16), back(bytes);
    for (char& byte : there) byte = static_cast<char>(random());
    std::vector<char> sent = there;
    BufferPtr a = device->copy_stream().allocate(bytes + 16), b = device->compute_stream().allocate(bytes + 16);
    copy_from_host(device->copy_stream(), a, 0, there.data(), there.size());
    std::fill(there.begin(), there.end(), 0);  // allowed as soon as the call has returned
    copy(device->compute_stream(), a, 7, b, 3, bytes);
    copy_to_host(device->compute_stream(), b, 3, back.data(), bytes);
    EXPECT_TRUE(std::equal(back.begin(), back.end(), sent.begin() + 7)) << bytes;
  }
  BufferPtr small = device->compute_stream().allocate(10);
  EXPECT_THROW(copy_from_host(device->compute_stream(), small, 5, "abcdefgh", 8), Error);
}

TEST_F(CudaDeviceTest, TheHostRunsAheadOfTheDevice) {
  Stream& stream = device->compute_stream();
  BufferPtr a = stream.allocate(4096);
  spin(stream, 200'000'000);
  auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 100; ++i) fill_words(stream, a, i);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(50));
  EXPECT_FALSE(a->is_written());
  EXPECT_EQ(others(stream, a, 99), 0u);
  EXPECT_TRUE(a->is_written());
}

TEST_F(CudaDeviceTest, CompletionIsSeenWithoutWaiting) {
  BufferPtr a = device->compute_stream().allocate(4096);
  fill_words(device->compute_stream(), a, 1);
  auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (!a->is_written() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_TRUE(a->is_written());
}

TEST_F(CudaDeviceTest, AnErrorFoundOnTheDeviceStaysWithWhatWasWrittenAndWhatReadIt) {
  Stream& stream = device->compute_stream();
  BufferPtr bad = stream.allocate(64), next = device->copy_stream().allocate(64), good = stream.allocate(64);
  spin(stream, 20'000'000);
  Submission(stream).write(bad).label("check").run([](void*) { on_complete([] { raise(ErrorKind::Index, "index 9 is out of range"); }); });
  Submission(device->copy_stream()).read(bad).write(next).label("next").run([](void*) {});
  fill_words(stream, good, 5);
  try {
    next->wait_written();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Index);
  }
  EXPECT_EQ(others(stream, good, 5), 0u);
  EXPECT_NE(bad->error(), nullptr);
}

TEST_F(CudaDeviceTest, WorkMaySubmitToItsOwnAndOtherStreams) {
  Stream &compute = device->compute_stream(), &copies = device->copy_stream();
  BufferPtr a = compute.allocate(1 << 20), b = copies.allocate(1 << 20);
  Submission(compute).write(a).label("outer").run([&](void* native) {
    launch_with(kernels->fill_words, kWide, native, a->data(), uint32_t{3}, uint64_t{1 << 18});
    copy(copies, a, 0, b, 0, 1 << 20);  // after the outer work
    fill_words(compute, a, 4);
  });
  EXPECT_EQ(others(copies, b, 3), 0u);
  EXPECT_EQ(others(compute, a, 4), 0u);
}

TEST_F(CudaDeviceTest, AStreamOfSomebodyElseIsOrderedAgainstOurs) {
  ContextScope scope(context(*device));
  StreamHandle theirs = nullptr;
  check(driver().stream_create(&theirs, kStreamNonBlocking, 0), "create a stream");
  {
    std::unique_ptr<Stream> wrapped = wrap_stream(*device, theirs, "theirs");
    for (int round = 0; round < 20; ++round) {
      BufferPtr a = device->compute_stream().allocate(16 << 20);
      fill_words(device->compute_stream(), a, 1);
      order_after(*wrapped, device->compute_stream());
      // Work that the runtime is not told of.
      launch_with(kernels->spin, kSingle, theirs, uint64_t{5'000'000});
      launch_with(kernels->fill_words, kWide, theirs, a->data(), uint32_t{2}, uint64_t{4 << 20});
      order_after(device->compute_stream(), *wrapped);
      EXPECT_EQ(others(device->compute_stream(), a, 2), 0u);
      // Freed while their kernels may still run: counted as a use, so nobody gets it early.
      launch_with(kernels->spin, kSingle, theirs, uint64_t{5'000'000});
      launch_with(kernels->fill_words, kWide, theirs, a->data(), uint32_t{7}, uint64_t{4 << 20});
      a->add_use(wrapped->axis());
      a.reset();
      BufferPtr next = device->compute_stream().allocate(16 << 20);
      fill_words(device->compute_stream(), next, 9);
      EXPECT_EQ(others(device->compute_stream(), next, 9), 0u);
    }
  }
  driver().stream_destroy(theirs);
}

TEST_F(CudaDeviceTest, CapturesOfOthersAreLeftAlone) {
  ContextScope scope(context(*device));
  StreamHandle theirs = nullptr;
  check(driver().stream_create(&theirs, kStreamNonBlocking, 0), "create a stream");
  {
    std::unique_ptr<Stream> wrapped = wrap_stream(*device, theirs, "theirs");
    for (int mode : {kCaptureGlobal, kCaptureThreadLocal, kCaptureRelaxed}) {
      check(driver().capture_begin(theirs, mode), "begin a capture");
      EXPECT_THROW(wrap_stream(*device, theirs, "capturing"), Error);
      EXPECT_THROW(order_after(device->compute_stream(), *wrapped), Error);
      EXPECT_THROW(order_after(*wrapped, device->compute_stream()), Error);
      EXPECT_THROW(Submission(*wrapped).run([](void*) {}), Error);
      // Everything else goes on: memory from the system, streams, modules, copies, waits.
      auto other = make_device(0);
      BufferPtr a = other->compute_stream().allocate(64 << 20);
      TestKernels loaded(*other);
      std::vector<char> data(20 << 20, 5);
      copy_from_host(other->copy_stream(), a, 0, data.data(), data.size());
      other->synchronize();
      EXPECT_TRUE(a->is_written());
      a.reset();
      EXPECT_GT(other->trim(), size_t{0});
      GraphHandle graph = nullptr;
      EXPECT_EQ(driver().capture_end(theirs, &graph), kSuccess) << "the capture was invalidated, mode " << mode;
      if (graph) driver().graph_destroy(graph);
    }
  }
  driver().stream_destroy(theirs);
}

TEST_F(CudaDeviceTest, MemoryLentToAStreamThatIsCapturingWaitsForTheCapture) {
  ContextScope scope(context(*device));
  StreamHandle theirs = nullptr;
  check(driver().stream_create(&theirs, kStreamNonBlocking, 0), "create a stream");
  {
    std::unique_ptr<Stream> consumer = wrap_stream(*device, theirs, "consumer");
    BufferPtr counter = device->compute_stream().allocate(4);
    for (int round = 0; round < 10; ++round) {
      device->set_memory_limit(0);
      Submission(device->compute_stream()).write(counter).run([to = counter->data()](void* native) {
        check(driver().fill_bytes(reinterpret_cast<DevicePtr>(to), 0, 4, static_cast<StreamHandle>(native)), "fill memory");
      });
      BufferPtr lent = device->compute_stream().allocate(4 << 20);
      fill_words(device->compute_stream(), lent, 3);
      order_after(*consumer, device->compute_stream());
      launch_with(kernels->spin, kSingle, theirs, uint64_t{3'000'000});
      launch_with(kernels->count_other, kWide, theirs, lent->data(), uint64_t{1 << 20}, uint32_t{3}, counter->data());
      check(driver().capture_begin(theirs, kCaptureGlobal), "begin a capture");
      lent->add_use(consumer->axis());  // as the deleter of an exported tensor does
      void* address = lent->data();
      lent.reset();
      device->set_memory_limit(round % 2 ? 5 << 20 : 0);  // with and without room for another block
      BufferPtr next;
      try {
        next = device->compute_stream().allocate(4 << 20);
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::OutOfMemory);
      }
      if (next) {
        EXPECT_NE(next->data(), address);
        fill_words(device->compute_stream(), next, 9);
      }
      GraphHandle graph = nullptr;
      EXPECT_EQ(driver().capture_end(theirs, &graph), kSuccess) << "the capture was invalidated";
      if (graph) driver().graph_destroy(graph);
      next.reset();
      next = device->compute_stream().allocate(4 << 20);  // now there is an order to be had
      fill_words(device->compute_stream(), next, 9);
      order_after(device->compute_stream(), *consumer);
      uint32_t wrong = 1;
      copy_to_host(device->compute_stream(), counter, 0, &wrong, 4);
      EXPECT_EQ(wrong, 0u);
    }
  }
  driver().stream_destroy(theirs);
}

TEST_F(CudaDeviceTest, BrokenCodeIsRefusedWithTheDriversLog) {
  const char text[] = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry f() { nonsense; }\n";
  try {
    Module module(*device, std::span(text, sizeof text));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Vendor);
    EXPECT_NE(std::string(error.what()).find("nonsense"), std::string::npos) << error.what();
  }
  EXPECT_THROW(kernels->module.kernel("no_such_kernel"), Error);
  BufferPtr a = device->compute_stream().allocate(4);
  Submission(device->compute_stream()).write(a).run([this](void* native) {
    launch_with(kernels->add_one, LaunchShape{{1, 1, 1}, {5000, 1, 1}, 0}, native, uint64_t{0});
  });
  EXPECT_THROW(a->wait_written(), Error);
  BufferPtr b = device->compute_stream().allocate(4096);
  fill_words(device->compute_stream(), b, 6);
  EXPECT_EQ(others(device->compute_stream(), b, 6), 0u);
}

TEST_F(CudaDeviceTest, MoreThanTheGpuHasIsOutOfMemoryAndTheNextStepWorks) {
  SystemMemory memory = system_memory(*device);
  std::vector<BufferPtr> held;
  std::string message;
  try {
    for (;;) held.push_back(device->compute_stream().allocate(memory.total / 20));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::OutOfMemory);
    message = error.what();
  }
  EXPECT_GE(held.size() * (memory.total / 20), memory.free * 9 / 10);
  EXPECT_NE(message.find("GiB"), std::string::npos) << message;
  held.pop_back();
  held.pop_back();
  BufferPtr next = device->compute_stream().allocate(memory.total / 20);
  fill_words(device->compute_stream(), next, 3);
  EXPECT_EQ(others(device->compute_stream(), next, 3), 0u);
  held.clear();
  next.reset();
  device->synchronize();
  EXPECT_GT(device->trim(), memory.free / 2);
  EXPECT_GE(system_memory(*device).free, memory.free - (size_t{64} << 20));
}

TEST_F(CudaDeviceTest, MemoryThatOthersGiveBackIsTriedBeforeOutOfMemory) {
  auto& pooled = static_cast<PooledDevice&>(*device);
  SystemMemory memory = system_memory(*device);
  auto other = make_device(0);
  BufferPtr theirs = other->compute_stream().allocate(memory.free / 2);
  int asked = 0;
  pooled.set_memory_relief([&](size_t) {
    ++asked;
    theirs.reset();
    return other->trim() > 0;
  });
  BufferPtr ours = device->compute_stream().allocate(memory.free / 10 * 8);
  EXPECT_EQ(asked, 1);
  EXPECT_THROW(device->compute_stream().allocate(memory.free / 10 * 8), Error);
  EXPECT_EQ(asked, 2);
  pooled.set_memory_relief(nullptr);
}

// Runs `body` in a forked child and returns its exit status.
int in_child(const std::function<int()>& body) {
  pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 254;
}

TEST_F(CudaDeviceTest, AForkedChildIsToldWhatToDo) {
  BufferPtr a = device->compute_stream().allocate(4096);
  fill_words(device->compute_stream(), a, 1);
  a->wait_written();
  fill_words(device->compute_stream(), a, 1);
  EXPECT_EQ(in_child([&] {
              auto says_spawn = [](const std::function<void()>& call) {
                try {
                  call();
                  return false;
                } catch (const Error& error) {
                  return error.kind() == ErrorKind::Device && std::string(error.what()).find("spawn") != std::string::npos;
                }
              };
              if (device_count() != 0) return 1;
              if (!says_spawn([] { cuda::device(0); })) return 2;
              if (!says_spawn([&] { a->wait_written(); })) return 3;
              BufferPtr b = device->compute_stream().allocate(4096);
              Submission(device->compute_stream()).write(b).run([](void*) {});
              if (!says_spawn([&] { b->wait_written(); })) return 4;
              a.reset();
              b.reset();
              return 0;
            }),
            0);
  EXPECT_EQ(others(device->compute_stream(), a, 1), 0u);
}

// A kernel that writes where nothing is breaks the whole context: in a process of its own.
TEST(CudaFailureTest, AFaultOnTheDeviceIsAnErrorThatNamesTheWork) {
  SKIP_WITHOUT_GPU();
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        auto device = make_device(0);
        TestKernels kernels(*device);
        BufferPtr a = device->compute_stream().allocate(64);
        Submission(device->compute_stream()).write(a).label("bad kernel").run([&](void* native) {
          launch_with(kernels.write_to, kSingle, native, uint64_t{16});
        });
        int found = 0;
        try {
          a->wait_written();
        } catch (const Error& error) {
          found += error.kind() == ErrorKind::Device && std::string(error.what()).find("bad kernel") != std::string::npos;
        }
        BufferPtr b = device->compute_stream().allocate(64);
        Submission(device->compute_stream()).write(b).label("later").run([&](void* native) { launch_with(kernels.spin, kSingle, native, uint64_t{1}); });
        try {
          b->wait_written();
        } catch (const Error&) {
          ++found;
        }
        _exit(found == 2 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(CudaImportTest, NothingTouchesTheGpuBeforeADeviceIsMade) {
  std::string reason;
  int count = device_count(&reason);
  if (count == 0) {
    EXPECT_FALSE(reason.empty());
    try {
      device(0);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Missing);
    }
  }
}

}  // namespace
}  // namespace thalweg::runtime::cuda
