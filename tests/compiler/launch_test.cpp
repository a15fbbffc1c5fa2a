// Launching: donated arguments, outputs that are arguments, failing checks, threads, training graphs.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "bench/training_graphs.h"
#include "interp/interpreter.h"
#include "libs/cpu/parallel.h"
#include "support/error.h"
#include "tests/compiler/run_program.h"

namespace thalweg {
namespace {

using bench::Graph;
using ir::DType;
using ir::OpCode;
using V = ir::Value*;

std::vector<ir::Literal> random_inputs(const ir::Function& function, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(0.1f, 2.0f);
  std::vector<ir::Literal> inputs;
  for (const auto& arg : function.body.args) {
    ir::Literal literal(arg->type);
    for (int64_t i = 0; i < arg->type.size(); ++i) {
      if (arg->type.dtype == DType::F32) literal.set<float>(i, uniform(random));
      if (arg->type.dtype == DType::S64) literal.set<int64_t>(i, static_cast<int64_t>(random() % 7));
    }
    inputs.push_back(std::move(literal));
  }
  return inputs;
}

void expect_close(const std::vector<ir::Literal>& got, const std::vector<ir::Literal>& want, double tolerance, const char* what, unsigned seed) {
  for (size_t r = 0; r < want.size(); ++r) {
    double scale = 0;
    for (int64_t i = 0; i < want[r].type.size(); ++i) scale = std::max(scale, std::abs(ir::to_double(want[r], i)));
    for (int64_t i = 0; i < want[r].type.size(); ++i)
      ASSERT_NEAR(ir::to_double(got[r], i), ir::to_double(want[r], i), tolerance * (scale + 1e-6))
          << what << ", seed " << seed << ", result " << r << ", element " << i;
  }
}

struct Case {
  const char* name;
  Graph graph;
};

std::vector<Case> cases() {
  std::vector<Case> list;
  list.push_back({"layer_norm", bench::layer_norm(70, 48)});
  list.push_back({"layer_norm_grad", bench::layer_norm_grad(300, 192)});
  list.push_back({"softmax", bench::softmax(40, 65)});
  list.push_back({"softmax_grad", bench::softmax_grad(40, 65)});
  list.push_back({"gelu", bench::gelu(33, 96)});
  list.push_back({"gelu_grad", bench::gelu_grad(257, 100)});
  list.push_back({"sgd", bench::sgd({{30, 20}, {20}, {7, 3, 2}, {9000}})});
  list.push_back({"adamw", bench::adamw({{30, 20}, {20}, {7, 3, 2}, {1}})});
  list.push_back({"batch_norm", bench::batch_norm(3, 5, 6, 7)});
  list.push_back({"batch_norm_grad", bench::batch_norm_grad(3, 5, 6, 7)});
  list.push_back({"cross_entropy", bench::cross_entropy(33, 7)});
  return list;
}

TEST(Launch, TrainingGraphsAgreeWithTheInterpreter) {
  const unsigned seed = std::random_device{}();
  for (Case& c : cases()) {
    std::vector<ir::Literal> inputs = random_inputs(*c.graph.function, seed);
    expect_close(testing::compile_and_run(*c.graph.function, inputs), interp::run(*c.graph.function, inputs), 2e-5, c.name, seed);
    if (HasFatalFailure()) return;
  }
}

TEST(Launch, ThreadCountDoesNotChangeBits) {
  const unsigned seed = std::random_device{}();
  const int before = libs::cpu::threads();
  for (Case& c : cases()) {
    std::vector<ir::Literal> inputs = random_inputs(*c.graph.function, seed);
    libs::cpu::set_threads(1);
    auto one = testing::compile_and_run(*c.graph.function, inputs);
    libs::cpu::set_threads(3);
    auto three = testing::compile_and_run(*c.graph.function, inputs);
    libs::cpu::set_threads(before);
    for (size_t r = 0; r < one.size(); ++r) EXPECT_EQ(one[r].data, three[r].data) << c.name << ", seed " << seed << ", result " << r;
  }
}

TEST(Launch, LayerNormIsOneKernelAndItsGradientTwo) {
  EXPECT_EQ(compiler::compile(bench::layer_norm(64, 32).function)->info().kernels, 1);
  EXPECT_EQ(compiler::compile(bench::layer_norm_grad(640, 192).function)->info().kernels, 2);
  EXPECT_EQ(compiler::compile(bench::softmax(64, 32).function)->info().kernels, 1);
  EXPECT_EQ(compiler::compile(bench::adamw({{8, 8}, {8}, {3}}).function)->info().kernels, 1);
}

// An optimizer step in place: parameters and momenta keep their buffers, gradients do not appear.
TEST(Launch, DonatedArgumentsAreUpdatedInPlace) {
  Graph graph = bench::sgd({{40, 30}, {30}});
  std::vector<ir::Literal> inputs = random_inputs(*graph.function, 3);
  std::vector<ir::Literal> want = interp::run(*graph.function, inputs);
  auto executable = compiler::compile(ir::clone(*graph.function));
  runtime::Stream& stream = runtime::cpu::device().compute_stream();
  std::vector<exec::Argument> arguments;
  std::vector<void*> addresses;
  for (const ir::Literal& input : inputs) {
    exec::Argument argument;
    if (input.type.rank() == 0) {
      std::memcpy(&argument.scalar, input.data.data(), input.data.size());
    } else {
      argument.buffer = stream.allocate(input.data.size());
      argument.buffer->wait_unused();
      std::memcpy(argument.buffer->data(), input.data.data(), input.data.size());
      argument.donated = true;
    }
    addresses.push_back(argument.buffer ? argument.buffer->data() : nullptr);
    arguments.push_back(std::move(argument));
  }
  exec::LaunchResult result = executable->launch(stream, arguments);
  for (size_t i = 0; i < want.size(); ++i) {
    result.outputs[i]->wait_written();
    EXPECT_TRUE(std::find(addresses.begin(), addresses.end(), result.outputs[i]->data()) != addresses.end()) << "output " << i << " got new memory";
    EXPECT_EQ(std::memcmp(result.outputs[i]->data(), want[i].data.data(), want[i].data.size()), 0) << "output " << i;
  }
}

// Every result needs the old value: only one of them may take the donated buffer, and only after all have read it.
TEST(Launch, DonationNeverDestroysWhatIsStillRead) {
  const unsigned seed = std::random_device{}();
  for (int round = 0; round < 4; ++round) {
    Graph g;
    V x = g.arg({64, 48}), y = g.arg({48, 64});
    V updated = g.add(x, 1.0);
    V sum = g.b.sum(x, {1});
    V turned = g.mul(g.b.transpose(x, {1, 0}), y);
    V softened = bench::softmax_of(g, x);
    V product = g.b.dot(x, y, {{}, {}, {1}, {0}});
    std::vector<V> results{updated, sum, turned, softened, product, x};
    std::rotate(results.begin(), results.begin() + round, results.end());
    g.b.ret(results);
    std::vector<ir::Literal> inputs = random_inputs(*g.function, seed);
    std::vector<ir::Literal> want = interp::run(*g.function, inputs);
    auto executable = compiler::compile(ir::clone(*g.function));
    expect_close(testing::launch(*executable, inputs, g.function->result_types(), true, {true, true}), want, 1e-5, "donated", seed);
    if (HasFatalFailure()) return;
  }
}

TEST(Launch, ArgumentsAndConstantsAsOutputs) {
  Graph g;
  V x = g.arg({5}), s = g.arg({});
  V constant = g.b.constant(ir::make_ints(DType::S64, {4, 5, 6}));
  V y = g.add(x, x);
  g.b.ret({x, s, constant, x, y, y, g.b.splat(x->type, 2.5), g.b.reshape(y, {5, 1})});
  std::vector<ir::Literal> inputs = random_inputs(*g.function, 5);
  auto got = testing::compile_and_run(*g.function, inputs), want = interp::run(*g.function, inputs);
  for (size_t r = 0; r < want.size(); ++r)
    for (int64_t i = 0; i < want[r].type.size(); ++i) EXPECT_EQ(ir::to_double(got[r], i), ir::to_double(want[r], i)) << "result " << r;
}

TEST(Launch, FailedCheckKeepsDonatedArguments) {
  Graph g;
  V weight = g.arg({10, 8}), labels = g.arg({3}, DType::S64);
  ir::Attributes config;
  config.set("low", int64_t{0});
  config.set("high", int64_t{10});
  config.set("message", "label");
  config.set("has_side_effect", true);
  V updated = g.mul(weight, 3.0);
  g.b.custom_call("thalweg.check_index", {labels}, {ir::tensor(DType::I1)}, std::move(config));
  g.b.ret({updated});
  auto executable = compiler::compile(ir::clone(*g.function));
  runtime::Stream& stream = runtime::cpu::device().compute_stream();
  for (int64_t label : {9, 10, -1}) {
    exec::Argument w, l;
    w.buffer = stream.allocate(320), l.buffer = stream.allocate(24);
    w.donated = true;
    w.buffer->wait_unused(), l.buffer->wait_unused();
    for (int i = 0; i < 80; ++i) static_cast<float*>(w.buffer->data())[i] = static_cast<float>(i);
    for (int i = 0; i < 3; ++i) static_cast<int64_t*>(l.buffer->data())[i] = i == 1 ? label : 0;
    const exec::Argument arguments[] = {w, l};
    exec::LaunchResult result = executable->launch(stream, arguments);
    stream.synchronize();
    const float* values = static_cast<float*>(w.buffer->data());
    if (label == 9) {
      EXPECT_NO_THROW(result.outputs[0]->wait_written());
      EXPECT_EQ(static_cast<float*>(result.outputs[0]->data())[79], 79 * 3.0f);
    } else {
      try {
        result.outputs[0]->wait_written();
        ADD_FAILURE() << "label " << label << " was accepted";
      } catch (const Error& e) {
        EXPECT_EQ(e.kind(), ErrorKind::Index);
        EXPECT_NE(std::string(e.what()).find(std::to_string(label)), std::string::npos) << e.what();
      }
      for (int i = 0; i < 80; ++i) ASSERT_EQ(values[i], static_cast<float>(i)) << "a donated argument changed";
    }
  }
}

}  // namespace
}  // namespace thalweg
