// Programs for GPUs over a driver that only pretends: device memory is the host's, so that commands can compute in it. Order, slots, scalars, calls of the
// host, and every call of the driver failing once.
#include "exec/cuda_program.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "runtime/cuda/staging.h"
#include "support/error.h"
#include "tests/runtime/cuda_failures/pretended_driver.h"

namespace thalweg::exec {
namespace {

using runtime::BufferPtr;

constexpr size_t kCount = 1000, kBytes = kCount * sizeof(float);
constexpr runtime::cuda::Result kInvalidValue = 1;

class CudaProgramTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { runtime::cuda::pretend_driver(); }
  void SetUp() override {
    random_.seed(seed_);
    device_ = runtime::cuda::make_device(0);
  }
  void TearDown() override { runtime::cuda::fail_call(0, runtime::cuda::kSuccess); }

  runtime::Stream& stream() { return device_->compute_stream(); }
  std::vector<float> numbers() {
    std::vector<float> x(kCount);
    for (float& v : x) v = static_cast<float>(random_() % 1000);
    return x;
  }
  BufferPtr buffer(const std::vector<float>& x) {
    BufferPtr b = stream().allocate(x.size() * sizeof(float));
    runtime::cuda::copy_from_host(stream(), b, 0, x.data(), x.size() * sizeof(float));
    return b;
  }
  std::vector<float> values(const BufferPtr& b) {
    std::vector<float> x(b->size() / sizeof(float));
    b->wait_written();
    runtime::cuda::copy_to_host(stream(), b, 0, x.data(), b->size());
    return x;
  }

  const unsigned seed_ = std::random_device{}();
  std::mt19937 random_;
  std::shared_ptr<runtime::Device> device_;
};

// args[1] = args[0] + by, on the host in place of a kernel.
CudaCall add(float by) {
  return [by](void* const* args, void*) {
    for (size_t i = 0; i < kCount; ++i) static_cast<float*>(args[1])[i] = static_cast<const float*>(args[0])[i] + by;
  };
}

// out = ((x + 1) + scalar) + constant, the first sum in the arena; may update x in place.
CudaProgram sums(runtime::Device& device, const std::vector<float>& constant) {
  CudaProgram p;
  p.argument_bytes = {kBytes, sizeof(float)};
  p.argument_scalar = {false, true};
  p.outputs = {{kBytes, 0, false}};
  p.constants.resize(1);
  const auto* bytes = reinterpret_cast<const std::byte*>(constant.data());
  p.constants[0].assign(bytes, bytes + kBytes);
  p.arena_bytes = 2 * kBytes;
  const Ref x{p.argument_slot(0), 0}, scalar{p.argument_slot(1), 0}, out{p.output_slot(0), 0}, fixed{p.constant_slot(0), 0}, first{p.arena_slot(), 0},
      second{p.arena_slot(), kBytes};
  auto sum = [](void* const* args, void*) {
    for (size_t i = 0; i < kCount; ++i) static_cast<float*>(args[2])[i] = static_cast<const float*>(args[0])[i] + *static_cast<const float*>(args[1]);
  };
  auto host_sum = [](void* const* args) {
    for (size_t i = 0; i < kCount; ++i) static_cast<float*>(args[2])[i] = static_cast<const float*>(args[0])[i] + static_cast<const float*>(args[1])[i];
  };
  p.commands.push_back(CudaCallCommand{"add", add(1), {x, first}});
  p.commands.push_back(CudaCallCommand{"add scalar", sum, {first, scalar, second}});
  p.commands.push_back(CudaCallCommand{"host", host_call(device, host_sum, {{kBytes, false}, {kBytes, false}, {kBytes, true}}), {second, fixed, out}});
  upload_constants(p, device.compute_stream());
  return p;
}

uint64_t bits(float x) {
  uint64_t b = 0;
  std::memcpy(&b, &x, sizeof x);
  return b;
}

TEST_F(CudaProgramTest, RunsInOrderWithScalarsConstantsAndTheHost) {
  const std::vector<float> x = numbers(), constant = numbers();
  auto executable = make_executable(sums(*device_, constant), *device_);
  for (float scalar : {2.0f, 5.0f}) {
    const Argument args[] = {{buffer(x), 0, false}, {nullptr, bits(scalar), false}};
    const LaunchResult result = executable->launch(stream(), args);
    const std::vector<float> y = values(result.outputs[0]);
    for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(y[i], x[i] + 1 + scalar + constant[i]) << "seed " << seed_;
    EXPECT_EQ(values(args[0].buffer), x);
  }
}

TEST_F(CudaProgramTest, UpdatesDonatedArgumentsInPlace) {
  const std::vector<float> x = numbers(), constant = numbers();
  auto executable = make_executable(sums(*device_, constant), *device_);
  const Argument args[] = {{buffer(x), 0, true}, {nullptr, bits(1), false}};
  void* const at = args[0].buffer->data();
  const LaunchResult result = executable->launch(stream(), args);
  EXPECT_EQ(result.outputs[0]->data(), at);
  EXPECT_EQ(values(result.outputs[0])[7], x[7] + 2 + constant[7]);
}

TEST_F(CudaProgramTest, CopiesArgumentsThatLieAtOddAddresses) {
  const std::vector<float> x = numbers(), constant = numbers();
  CudaProgram program = sums(*device_, constant);
  uintptr_t seen = 1;
  program.commands.insert(
      program.commands.begin(),
      CudaCallCommand{"look", [&seen](void* const* args, void*) { seen = reinterpret_cast<uintptr_t>(args[0]); }, {{program.argument_slot(0), 0}}});
  auto executable = make_executable(std::move(program), *device_);
  std::vector<float> odd(kCount + 1);
  std::copy(x.begin(), x.end(), odd.begin() + 1);
  BufferPtr lent = device_->wrap(odd.data() + 1, kBytes, nullptr);
  const Argument args[] = {{lent, 0, false}, {nullptr, bits(0), false}};
  EXPECT_EQ(values(executable->launch(stream(), args).outputs[0])[3], x[3] + 1 + constant[3]);
  EXPECT_EQ(seen % kArgumentAlignment, 0u);
}

TEST_F(CudaProgramTest, HandsArgumentsOnOrCopiesThem) {
  const std::vector<float> x = numbers();
  CudaProgram p;
  p.argument_bytes = {kBytes, sizeof(float)};
  p.argument_scalar = {false, true};
  p.outputs = {{kBytes, 0, true}, {sizeof(float), 1, true}};
  auto executable = make_executable(std::move(p), *device_);
  for (bool donated : {false, true}) {
    const Argument args[] = {{buffer(x), 0, donated}, {nullptr, bits(3.5f), false}};
    const LaunchResult result = executable->launch(stream(), args);
    EXPECT_EQ(result.outputs[0]->data() == args[0].buffer->data(), donated);
    EXPECT_EQ(values(result.outputs[0]), x);
    EXPECT_EQ(values(result.outputs[1]), std::vector<float>{3.5f});
  }
}

TEST_F(CudaProgramTest, AnErrorOfTheHostIsTheLaunchs) {
  CudaProgram p;
  p.argument_bytes = {kBytes};
  p.argument_scalar = {false};
  p.outputs = {{kBytes, -1, false}};
  auto fail = [](void* const*) { raise(ErrorKind::NotFinite, "made to fail"); };
  p.commands.push_back(CudaCallCommand{"fail", host_call(*device_, fail, {{kBytes, false}, {kBytes, true}}), {{p.argument_slot(0), 0}, {p.output_slot(0), 0}}});
  auto executable = make_executable(std::move(p), *device_);
  const Argument args[] = {{buffer(numbers()), 0, false}};
  const LaunchResult result = executable->launch(stream(), args);
  try {
    result.outputs[0]->wait_written();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::NotFinite);
  }
  EXPECT_NO_THROW(args[0].buffer->wait_written());
}

// Whatever call of the driver fails, the launch or its outputs tell it, the arguments stay as they were, and the next launch is right.
TEST_F(CudaProgramTest, EveryCallFailsOnceAndTheNextLaunchIsRight) {
  const std::vector<float> x = numbers(), constant = numbers();
  auto executable = make_executable(sums(*device_, constant), *device_);
  const Argument args[] = {{buffer(x), 0, false}, {nullptr, bits(2), false}};
  args[0].buffer->wait_written();
  int failures = 0;
  for (runtime::cuda::Result how : {kInvalidValue, runtime::cuda::kErrorOutOfMemory}) {
    for (int call = 1;; ++call) {
      runtime::cuda::fail_call(call, how);
      std::vector<float> y;
      try {
        y = values(executable->launch(stream(), args).outputs[0]);
      } catch (const Error&) {
        ++failures;
      }
      const bool failed = *runtime::cuda::failed_symbol() != 0;
      runtime::cuda::fail_call(0, runtime::cuda::kSuccess);
      (void)stream().take_error();
      if (!y.empty())
        for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(y[i], x[i] + 3 + constant[i]) << "call " << call << ", seed " << seed_;
      ASSERT_EQ(values(args[0].buffer), x) << "call " << call;
      if (!failed) break;
      ASSERT_LT(call, 1000);
    }
  }
  EXPECT_GT(failures, 5);
}

}  // namespace
}  // namespace thalweg::exec
