// The simulated device: the common suite.
#include "runtime/sim/sim_device.h"

#include "tests/runtime/conformance.h"

namespace thalweg::runtime::sim {
namespace {

using conformance::Conformance;
using conformance::Kind;

INSTANTIATE_TEST_SUITE_P(Sim, Conformance,
                         testing::Values(Kind{"sim", [] { return make_device(); }, false},
                                         Kind{"sim_threads", [] { return make_device({.threads = 7}); }, true}),
                         [](const auto& info) { return info.param.name; });

TEST(SimThreadsTest, AHostWaitThatNothingCanEndIsADeadlock) {
  std::atomic<bool> arrived{false};
  Options options{.threads = 3, .patience = std::chrono::milliseconds(50)};
  options.may_run = [&](const Task& task) { return std::string(task.label) != "all-reduce" || arrived.load(); };
  auto device = make_device(options);
  BufferPtr a = device->compute_stream().allocate(64);
  Submission(device->compute_stream()).write(a).label("all-reduce").run([](void*) {});
  EXPECT_THROW(a->wait_written(), Error);
  arrived = true;
  a->wait_written();
  EXPECT_TRUE(a->is_written());
}

TEST(SimThreadsTest, StreamsReallyRunAtTheSameTime) {
  auto device = make_device({.threads = 5});
  std::atomic<int> inside{0};
  auto meet = [&](void*) {
    ++inside;
    while (inside < 2) std::this_thread::yield();
  };
  Submission(device->compute_stream()).run(meet);
  Submission(device->copy_stream()).run(meet);
  device->synchronize();
  EXPECT_EQ(inside, 2);
}

}  // namespace
}  // namespace thalweg::runtime::sim
