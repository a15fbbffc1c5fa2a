// Whole programs as the compiler puts them together for a GPU, their kernels run by the emulator: bundles, scratch memory, shared places and updates in place,
// against the interpreter. No GPU and no vendor's library is needed; programs with products are left out.
#include "compiler/assembly.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "bench/training_graphs.h"
#include "codegen/cuda/kernel_text.h"
#include "interp/interpreter.h"
#include "ir/builder.h"
#include "passes/pass.h"
#include "runtime/cuda/cuda_device.h"
#include "support/error.h"
#include "tests/codegen/cuda/nests/emulated_gpu.h"
#include "tests/compiler/random_program.h"
#include "tests/runtime/cuda_failures/pretended_driver.h"

namespace thalweg::compiler {
namespace {

using Literals = std::vector<ir::Literal>;
using Memory = std::vector<std::byte>;

class EmulatedProgram : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { runtime::cuda::pretend_driver(); }
  void SetUp() override {
    std::string why;
    if (!codegen::cpu::available(&why)) GTEST_SKIP() << why;
    random_.seed(seed_);
  }

  // The results, or nothing when the program needs a library. With `in_place` every argument may be overwritten.
  std::optional<Literals> run(const ir::Function& source, const Literals& inputs, bool in_place) {
    const std::unique_ptr<ir::Function> function = ir::clone(source);
    passes::simplify(*function);
    Options options;
    options.device = &runtime::cuda::device(0);
    std::optional<Assembly> made;
    try {
      made.emplace(assemble(*function, options, nullptr));
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::Missing || error.kind() == ErrorKind::Vendor) return {};  // no cuBLASLt, or one without a GPU
      throw;
    }
    const exec::Frame& frame = made->frame;
    std::vector<Memory> memory(frame.slots());
    std::vector<char*> at(frame.slots());
    auto allocate = [&](size_t slot, size_t bytes) {
      memory[slot].assign(bytes + 512, std::byte{0xcd});
      const auto address = reinterpret_cast<uintptr_t>(memory[slot].data());
      at[slot] = reinterpret_cast<char*>((address + 255) / 256 * 256);
    };
    for (size_t i = 0; i < inputs.size(); ++i) {
      const ir::Literal full = ir::expand(inputs[i]);
      allocate(frame.argument_slot(i), full.data.size());
      if (!full.data.empty()) std::memcpy(at[frame.argument_slot(i)], full.data.data(), full.data.size());
    }
    for (size_t i = 0; i < frame.outputs.size(); ++i) {
      const exec::OutputPlan& plan = frame.outputs[i];
      const size_t slot = frame.output_slot(i);
      if (in_place && plan.alias >= 0) {
        at[slot] = at[frame.argument_slot(plan.alias)];
        continue;
      }
      allocate(slot, plan.bytes);
      if (plan.forward) std::memcpy(at[slot], at[frame.argument_slot(plan.alias)], plan.bytes);
    }
    for (size_t i = 0; i < frame.constants.size(); ++i) {
      allocate(frame.constant_slot(i), frame.constants[i].size());
      std::copy(frame.constants[i].begin(), frame.constants[i].end(), reinterpret_cast<std::byte*>(at[frame.constant_slot(i)]));
    }
    allocate(frame.arena_slot(), frame.arena_bytes);
    for (const Step& step : made->steps) issue(step, *made, at);
    Literals results;
    for (size_t i = 0; i < frame.outputs.size(); ++i) {
      results.emplace_back(source.result_types()[i]);
      if (frame.outputs[i].bytes) std::memcpy(results.back().data.data(), at[frame.output_slot(i)], frame.outputs[i].bytes);
    }
    return results;
  }

  void issue(const Step& step, const Assembly& assembly, const std::vector<char*>& at) {
    std::vector<void*> args;
    step.each_arg([&](const StepArg& arg, size_t) {
      const exec::Ref& ref = assembly.places.at(arg.buffer);
      args.push_back(at[static_cast<size_t>(ref.slot)] + ref.offset);
    });
    if (step.is_kernel()) {
      std::vector<codegen::cuda::Part> parts;
      for (const KernelPart& part : step.parts) parts.push_back({part.body, part.units, part.args.size(), part.lanes, part.shared_bytes});
      gpu_.run(codegen::cuda::kernel_text(parts, runtime::cuda::properties(runtime::cuda::device(0)).multiprocessors), args);
      ++kernels_;
    } else if (step.copies) {
      if (args[0] != args[1]) std::memcpy(args[1], args[0], static_cast<size_t>(step.args[1].bytes));
    } else {
      ASSERT_TRUE(step.call) << step.name << " runs on a GPU only";
      step.call(args.data());
    }
  }

  void compare(const Literals& got, const Literals& want, double tolerance, const std::string& what) {
    for (size_t r = 0; r < want.size(); ++r) {
      const ir::Literal full = ir::expand(want[r]);
      for (int64_t i = 0; i < full.type.size(); ++i) {
        const double g = ir::to_double(got[r], i), w = ir::to_double(full, i);
        if (std::isnan(g) && std::isnan(w)) continue;
        ASSERT_LE(std::abs(g - w), tolerance * (1 + std::abs(w)))
            << what << ", seed " << seed_ << ", result " << r << ", element " << i << ": " << g << ", " << w;
      }
    }
  }

  const unsigned seed_ = std::random_device{}();
  std::mt19937_64 random_;
  thalweg::testing::EmulatedGpu gpu_;
  int kernels_ = 0;
};

TEST_F(EmulatedProgram, RandomProgramsEqualTheInterpreter) {
  int compared = 0;
  for (int n = 0; n < 30; ++n) {
    testing::RandomProgram random(seed_ + static_cast<uint64_t>(n));
    const std::unique_ptr<ir::Function> function = random.make(4 + n % 20);
    Literals inputs;
    for (const auto& arg : function->body.args) inputs.push_back(random.input(arg->type));
    const Literals want = interp::run(*function, inputs);
    const std::optional<Literals> got = run(*function, inputs, n % 2 == 0);
    if (!got) continue;
    ++compared;
    compare(*got, want, 0, "program " + std::to_string(n));
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(compared, 8);
  EXPECT_GT(kernels_, 8);
}

// An embedding's gradient goes through several kernels that share scratch memory, and is used by what follows.
TEST_F(EmulatedProgram, ScattersBeforeItsResultIsUsed) {
  ir::Function function;
  function.name = "main";
  ir::Builder b(function.body);
  ir::Value* table = function.body.add_arg(ir::tensor(ir::DType::F32, {90, 33}));
  ir::Value* rows = function.body.add_arg(ir::tensor(ir::DType::S64, {300}));
  ir::Value* updates = function.body.add_arg(ir::tensor(ir::DType::F32, {300, 33}));
  ir::Value* zeros = b.splat(table->type, 0);
  ir::Value* gradient = b.scatter(zeros, rows, updates, {{1}, {0}, {}, {}, {0}, 1},
                                  [](ir::Builder& body, ir::Value* x, ir::Value* y) { return body.binary(ir::OpCode::Add, x, y); });
  ir::Value* stepped = b.binary(ir::OpCode::Subtract, table, b.binary(ir::OpCode::Multiply, gradient, b.splat(table->type, 0.5)));
  b.ret({stepped, b.sum(b.binary(ir::OpCode::Multiply, gradient, gradient), {0, 1})});
  for (bool in_place : {false, true}) {
    Literals inputs;
    for (const auto& arg : function.body.args) {
      ir::Literal& input = inputs.emplace_back(arg->type);
      for (int64_t i = 0; i < arg->type.size(); ++i) {
        std::byte* const at = input.data.data() + i * ir::byte_size(arg->type.dtype);
        if (ir::is_integer(arg->type.dtype)) {
          ir::store_int(arg->type.dtype, at, static_cast<int64_t>(random_() % 90));
        } else {
          ir::store_double(arg->type.dtype, at, static_cast<double>(random_() % 17) - 8);
        }
      }
    }
    const Literals want = interp::run(function, inputs);
    const std::optional<Literals> got = run(function, inputs, in_place);
    ASSERT_TRUE(got);
    compare(*got, want, 0, "embedding");  // sums of small integers are exact
  }
}

TEST_F(EmulatedProgram, TrainingGraphsAgreeWithTheInterpreter) {
  std::vector<std::pair<std::string, bench::Graph>> graphs;
  graphs.push_back({"layer_norm", bench::layer_norm(37, 96)});
  graphs.push_back({"layer_norm_grad", bench::layer_norm_grad(130, 72)});
  graphs.push_back({"softmax", bench::softmax(21, 50)});
  graphs.push_back({"adamw", bench::adamw({{30, 20}, {20}, {7, 3, 2}, {1}})});
  graphs.push_back({"batch_norm_grad", bench::batch_norm_grad(3, 5, 6, 7)});
  graphs.push_back({"cross_entropy", bench::cross_entropy(33, 7)});
  for (auto& [name, graph] : graphs) {
    Literals inputs;
    for (const auto& arg : graph.function->body.args) {
      ir::Literal& input = inputs.emplace_back(arg->type);
      for (int64_t i = 0; i < arg->type.size(); ++i) {
        std::byte* const at = input.data.data() + i * ir::byte_size(arg->type.dtype);
        if (ir::is_integer(arg->type.dtype)) {
          ir::store_int(arg->type.dtype, at, static_cast<int64_t>(random_() % 7));
        } else {
          ir::store_double(arg->type.dtype, at, 0.1 + static_cast<double>(random_() % 1000) / 1000);
        }
      }
    }
    const Literals want = interp::run(*graph.function, inputs);
    const std::optional<Literals> got = run(*graph.function, inputs, true);
    ASSERT_TRUE(got) << name;
    compare(*got, want, 2e-5, name);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace thalweg::compiler
