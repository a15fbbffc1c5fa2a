// Graphs that others capture and replay over memory of ours, on a GPU: cases 19, 71 to 73.
#include <gtest/gtest.h>

#include "runtime/cuda/staging.h"
#include "tests/runtime/cuda/skip_without_gpu.h"
#include "tests/runtime/cuda/test_kernels.h"

namespace thalweg::runtime::cuda {
namespace {

constexpr size_t kBytes = size_t{16} << 20;
constexpr uint64_t kLong = 20'000'000;  // clocks: about 10 ms

class GraphsTest : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_GPU();
    device = make_device(0);
    kernels = std::make_unique<TestKernels>(*device);
    scope = std::make_unique<ContextScope>(context(*device));
    for (StreamHandle& stream : theirs) check(driver().stream_create(&stream, kStreamNonBlocking, 0), "create a stream");
    for (int i : {0, 1}) wrapped[i] = wrap_stream(*device, theirs[i], "theirs");
    counter = device->compute_stream().allocate(4);
  }
  void TearDown() override {
    if (!device) return;
    for (auto& stream : wrapped) stream.reset();
    for (StreamHandle stream : theirs) driver().stream_destroy(stream);
    counter.reset();
    kernels.reset();
    scope.reset();
  }
  BufferPtr filled(uint32_t value) {
    BufferPtr buffer = device->compute_stream().allocate(kBytes);
    Submission(device->compute_stream()).write(buffer).run([&, at = buffer->data(), value](void* native) {
      launch_with(kernels->fill_words, kWide, native, at, value, uint64_t{kBytes / 4});
    });
    return buffer;
  }
  void clear_counter() {
    Submission(device->compute_stream()).write(counter).run([to = counter->data()](void* native) {
      check(driver().fill_bytes(reinterpret_cast<DevicePtr>(to), 0, 4, static_cast<StreamHandle>(native)), "fill memory");
    });
  }
  uint32_t wrong() {
    for (auto& stream : wrapped) order_after(device->compute_stream(), *stream);
    uint32_t count = 1;
    copy_to_host(device->compute_stream(), counter, 0, &count, 4);
    return count;
  }
  // A graph that takes its time and then counts what in the buffer is not `value`.
  GraphExecHandle graph_over(const BufferPtr& buffer, uint32_t value) {
    check(driver().capture_begin(theirs[0], kCaptureGlobal), "begin a capture");
    launch_with(kernels->spin, kSingle, theirs[0], kLong);
    launch_with(kernels->count_other, kWide, theirs[0], buffer->data(), uint64_t{kBytes / 4}, value, counter->data());
    GraphHandle graph = nullptr;
    check(driver().capture_end(theirs[0], &graph), "end a capture");
    GraphExecHandle exec = nullptr;
    check(driver().graph_instantiate(&exec, graph, 0), "make a graph executable");
    driver().graph_destroy(graph);
    return exec;
  }
  void replay(GraphExecHandle exec, int on, const BufferPtr& uses) {
    check(driver().graph_launch(exec, theirs[on]), "launch a graph");
    uses->add_use(wrapped[on]->axis());
  }
  // Takes what memory there is and writes to it.
  void overwrite() {
    std::vector<BufferPtr> next;
    for (int i = 0; i < 3; ++i) next.push_back(filled(9));
  }

  std::shared_ptr<Device> device;
  std::unique_ptr<TestKernels> kernels;
  std::unique_ptr<ContextScope> scope;
  StreamHandle theirs[2] = {};
  std::unique_ptr<Stream> wrapped[2];
  BufferPtr counter;
};

TEST_F(GraphsTest, Case19TheLegacyDefaultStreamHoldsUpNothingOfOurs) {
  auto* legacy = reinterpret_cast<StreamHandle>(uintptr_t{1});
  BufferPtr a = filled(1);
  a->wait_written();
  launch_with(kernels->spin, kSingle, legacy, 100 * kLong);
  BufferPtr b = filled(2);
  b->wait_written();
  EXPECT_EQ(driver().stream_query(legacy), kErrorNotReady) << "our work waited for the legacy default stream";
  std::unique_ptr<Stream> wrapped_legacy = wrap_stream(*device, legacy, "legacy");
  order_after(device->compute_stream(), *wrapped_legacy);  // unless it is asked to
  BufferPtr c = filled(3);
  c->wait_written();
  EXPECT_EQ(driver().stream_query(legacy), kSuccess);
}

TEST_F(GraphsTest, Case71AReplayAndAFreeOutsideOfIt) {
  BufferPtr lent = filled(5);
  clear_counter();
  order_after(*wrapped[0], device->compute_stream());
  GraphExecHandle exec = graph_over(lent, 5);
  for (int i = 0; i < 3; ++i) replay(exec, 0, lent);
  lent.reset();
  overwrite();
  EXPECT_EQ(wrong(), 0u);
  driver().graph_exec_destroy(exec);
}

TEST_F(GraphsTest, Case72TwoReplaysThatOverlap) {
  BufferPtr lent = filled(6);
  clear_counter();
  for (auto& stream : wrapped) order_after(*stream, device->compute_stream());
  GraphExecHandle first = graph_over(lent, 6), second = graph_over(lent, 6);
  replay(first, 0, lent);
  replay(second, 1, lent);
  replay(first, 0, lent);
  lent.reset();
  overwrite();
  EXPECT_EQ(wrong(), 0u);
  driver().graph_exec_destroy(first);
  driver().graph_exec_destroy(second);
}

TEST_F(GraphsTest, Case73AGraphDestroyedWhileItRuns) {
  BufferPtr lent = filled(7);
  clear_counter();
  order_after(*wrapped[0], device->compute_stream());
  GraphExecHandle exec = graph_over(lent, 7);
  replay(exec, 0, lent);
  check(driver().graph_exec_destroy(exec), "destroy a graph");
  lent.reset();
  overwrite();
  EXPECT_EQ(wrong(), 0u);
}

}  // namespace
}  // namespace thalweg::runtime::cuda
