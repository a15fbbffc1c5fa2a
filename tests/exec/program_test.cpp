// Programs of hand-made commands: slots, aliases, errors, nesting.
#include "exec/program.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>

#include "runtime/cpu/cpu_device.h"
#include "support/error.h"

namespace thalweg::exec {
namespace {

runtime::Stream& stream() { return runtime::cpu::device().compute_stream(); }

Argument argument(std::vector<float> values, bool donated = false) {
  Argument a;
  a.buffer = stream().allocate(values.size() * 4);
  a.buffer->wait_unused();
  std::memcpy(a.buffer->data(), values.data(), values.size() * 4);
  a.donated = donated;
  return a;
}

std::vector<float> values(const runtime::BufferPtr& buffer, size_t n) {
  buffer->wait_written();
  std::vector<float> out(n);
  std::memcpy(out.data(), buffer->data(), n * 4);
  return out;
}

void add_one(void* const* args, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) static_cast<float*>(args[1])[i] = static_cast<const float*>(args[0])[i] + 1;
}

// out = (x + 1) + 1 through the arena, over enough units to be shared.
Program two_steps(int64_t n) {
  Program p;
  p.argument_bytes = {static_cast<size_t>(n) * 4};
  p.argument_scalar = {false};
  p.outputs = {{static_cast<size_t>(n) * 4, 0, false}};
  p.arena_bytes = static_cast<size_t>(n) * 4;
  KernelCommand first{"first", add_one, n, 16, {{p.argument_slot(0), 0}, {p.arena_slot(), 0}}},
      second{"second", add_one, n, 16, {{p.arena_slot(), 0}, {p.output_slot(0), 0}}};
  p.commands = {first, second};
  return p;
}

TEST(Program, RunsCommandsInOrder) {
  auto executable = make_executable(two_steps(100));
  std::vector<float> x(100);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  const Argument args[] = {argument(x)};
  auto result = executable->launch(stream(), args);
  std::vector<float> y = values(result.outputs[0], 100);
  for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i], x[i] + 2);
  EXPECT_NE(result.outputs[0]->data(), args[0].buffer->data());
  EXPECT_EQ(values(args[0].buffer, 100), x);
}

TEST(Program, DonatedArgumentBecomesTheOutput) {
  auto executable = make_executable(two_steps(64));
  const Argument args[] = {argument(std::vector<float>(64, 5), true)};
  auto result = executable->launch(stream(), args);
  EXPECT_EQ(result.outputs[0].get(), args[0].buffer.get());
  EXPECT_EQ(values(result.outputs[0], 64), std::vector<float>(64, 7));
}

TEST(Program, AFailedDonatedArgumentFailsTheLaunch) {
  auto executable = make_executable(two_steps(64));
  const Argument args[] = {argument(std::vector<float>(64, 5), true)};
  runtime::Submission(stream()).write(args[0].buffer).run([](void*) { raise(ErrorKind::Device, "made on purpose"); });
  auto result = executable->launch(stream(), args);
  EXPECT_EQ(result.outputs[0].get(), args[0].buffer.get());
  try {
    result.outputs[0]->wait_written();
    ADD_FAILURE() << "the launch ran on what was never written";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("made on purpose"), std::string::npos);
  }
}

TEST(Program, ForwardedArgumentIsCopiedUnlessDonated) {
  Program p;
  p.argument_bytes = {8};
  p.argument_scalar = {false};
  p.outputs = {{8, 0, true}};
  auto executable = make_executable(p);
  for (bool donated : {false, true}) {
    const Argument args[] = {argument({1, 2}, donated)};
    auto result = executable->launch(stream(), args);
    EXPECT_EQ(values(result.outputs[0], 2), (std::vector<float>{1, 2}));
    EXPECT_EQ(result.outputs[0].get() == args[0].buffer.get(), donated);
  }
}

TEST(Program, ScalarsAndConstantsHaveAddresses) {
  Program p;
  p.argument_bytes = {4};
  p.argument_scalar = {true};
  p.outputs = {{4, -1, false}};
  p.constants = {std::vector<std::byte>(4)};
  const float half = 0.5f;
  std::memcpy(p.constants[0].data(), &half, 4);
  CallCommand call{"multiply",
                   [](void* const* a) { *static_cast<float*>(a[2]) = *static_cast<float*>(a[0]) * *static_cast<float*>(a[1]); },
                   {{p.argument_slot(0), 0}, {p.constant_slot(0), 0}, {p.output_slot(0), 0}}};
  p.commands = {call};
  Argument scalar;
  const float eight = 8;
  std::memcpy(&scalar.scalar, &eight, 4);
  const Argument args[] = {scalar};
  EXPECT_EQ(values(make_executable(p)->launch(stream(), args).outputs[0], 1)[0], 4);
}

TEST(Program, ErrorsTravelWithTheOutputs) {
  Program p;
  p.outputs = {{4, -1, false}};
  p.commands = {CallCommand{"fail", [](void* const*) { raise(ErrorKind::Index, "index 7 is out of range"); }, {}}};
  auto result = make_executable(p)->launch(stream(), {});
  try {
    result.outputs[0]->wait_written();
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::Index);
  }
}

TEST(Program, ChecksItsArguments) {
  auto executable = make_executable(two_steps(100));
  EXPECT_THROW(executable->launch(stream(), {}), Error);
  const Argument small[] = {argument({1, 2, 3})};
  EXPECT_THROW(executable->launch(stream(), small), Error);
  EXPECT_THROW(executable->launch(stream(), std::vector<Argument>(1)), Error);
}

TEST(Program, NestedRunsUseTheirOwnArena) {
  Program p = two_steps(10);
  std::vector<float> x(10, 1), y(10);
  void *in[] = {x.data()}, *out[] = {y.data()};
  NestedRun nested(p);
  nested(in, out);
  EXPECT_EQ(y, std::vector<float>(10, 3));
}

TEST(Program, EmptyOutputs) {
  Program p;
  p.outputs = {{0, -1, false}};
  auto result = make_executable(p)->launch(stream(), {});
  ASSERT_TRUE(result.outputs[0]);
  EXPECT_EQ(result.outputs[0]->size(), 0u);
}

}  // namespace
}  // namespace thalweg::exec
