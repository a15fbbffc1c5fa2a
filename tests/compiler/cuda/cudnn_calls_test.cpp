// Programs with attention and convolutions: what becomes a call of cuDNN, and on a GPU what it computes, against the interpreter.
#include "compiler/cudnn_calls.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>
#include <span>

#include "compiler/few_channels.h"
#include "compiler/rewrite.h"
#include "interp/interpreter.h"
#include "ir/builder.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "passes/pass.h"
#include "tests/compiler/run_program.h"
#include "tests/libs/cuda/described_gpu.h"
#include "tests/runtime/cuda/skip_without_gpu.h"

namespace thalweg::compiler {
namespace {

using ir::Dims;
using ir::DType;
using ir::Value;

std::vector<ir::Literal> random_inputs(const ir::Function& function, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::vector<ir::Literal> inputs;
  for (const auto& arg : function.body.args) {
    ir::Literal& literal = inputs.emplace_back(arg->type);
    const auto bytes = static_cast<size_t>(ir::byte_size(arg->type.dtype));
    for (int64_t i = 0; i < arg->type.size(); ++i) ir::store_double(arg->type.dtype, literal.data.data() + static_cast<size_t>(i) * bytes, normal(random));
  }
  return inputs;
}

double distance(const ir::Literal& got, const ir::Literal& want) {
  const ir::Literal a = ir::expand(got), b = ir::expand(want);
  double apart = 0, size = 0;
  for (int64_t i = 0; i < want.type.size(); ++i) {
    const double x = ir::to_double(a, i), y = ir::to_double(b, i);
    if (std::isinf(y) && x == y) continue;
    apart += (x - y) * (x - y), size += y * y;
  }
  return std::sqrt(apart / size);
}

// A packed projection [batch, tokens, 3, heads, width] through attention to [batch, tokens, heads · width]; and back to the projection's gradient.
struct Step {
  int64_t batch = 2, tokens = 24, heads = 3, width = 16;
  DType dtype = DType::BF16;
  bool causal = false;
  Dims bias;  // empty: none
  bool tokens_first = false;
  bool seen_apart = false;  // the gradient does not see the forward pass's own sums

  std::unique_ptr<ir::Function> function() const {
    auto made = std::make_unique<ir::Function>();
    made->name = "main";
    ir::Builder b(made->body);
    auto argument = [&](Dims dims) {
      auto& args = made->body.args;
      args.push_back(std::make_unique<Value>());
      args.back()->type = ir::tensor(dtype, std::move(dims)), args.back()->index = static_cast<uint32_t>(args.size() - 1);
      return args.back().get();
    };
    const Dims outer = tokens_first ? Dims{tokens, batch} : Dims{batch, tokens};
    const Dims to_heads = tokens_first ? Dims{1, 2, 0, 3} : Dims{0, 2, 1, 3}, back = tokens_first ? Dims{2, 0, 1, 3} : Dims{0, 2, 1, 3};
    Value* packed = argument({outer[0], outer[1], 3, heads, width});
    Value* dy = argument({outer[0], outer[1], heads * width});
    Value* added = bias.empty() ? nullptr : argument(bias);
    Value* parts[3];
    for (int64_t i = 0; i < 3; ++i) {
      Value* part = b.slice(packed, {0, 0, i, 0, 0}, {outer[0], outer[1], i + 1, heads, width}, {1, 1, 1, 1, 1});
      parts[i] = b.transpose(b.reshape(part, {outer[0], outer[1], heads, width}), to_heads);
    }
    ir::Attributes config;
    config.set("causal", causal), config.set("scale", 0.25);
    const ir::Type full = ir::tensor(dtype, {batch, heads, tokens, width});
    std::vector<Value*> operands(parts, parts + 3);
    if (added) operands.push_back(added);
    auto y = b.composite("thalweg.attention", operands, {full, ir::tensor(seen_apart ? DType::F32 : dtype, {batch, heads, tokens})}, config);
    Value* sums = seen_apart ? b.unary(ir::OpCode::Negate, b.unary(ir::OpCode::Negate, y[1])) : y[1];
    Value* dy4 = b.transpose(b.reshape(dy, {outer[0], outer[1], heads, width}), to_heads);
    std::vector<Value*> all{dy4, parts[0], parts[1], parts[2], y[0], sums};
    std::vector<ir::Type> types{full, full, full};
    if (added) all.push_back(added), types.push_back(added->type);
    auto grads = b.composite("thalweg.attention_grad", all, types, config);
    std::vector<Value*> back_parts;
    for (size_t i = 0; i < 3; ++i) back_parts.push_back(b.reshape(b.transpose(grads[i], back), {outer[0], outer[1], 1, heads, width}));
    std::vector<Value*> results{b.reshape(b.transpose(y[0], back), {outer[0], outer[1], heads * width}), b.concatenate(back_parts, 2), y[1]};
    if (added) results.push_back(grads[3]);
    b.ret(results);
    return made;
  }
};

std::vector<ir::Literal> interpreted(const ir::Function& function, const std::vector<ir::Literal>& inputs, const interp::Options& meaning = {}) {
  auto portable = ir::clone(function);
  make_portable(*portable);
  return interp::run(*portable, inputs, meaning);
}

class CudnnCalls : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (!libs::cuda::has_cudnn(&why)) GTEST_SKIP() << why;
  }
};

TEST_F(CudnnCalls, TakenAttentionWithoutPlansMeansTheSame) {
  // Calls go back to composites where cuDNN has no plan, as without a driver.
  if (runtime::cuda::device_count() > 0) GTEST_SKIP() << "cuDNN has plans here";
  for (const Dims& bias : {Dims{}, Dims{24, 24}, Dims{2, 1, 1, 24}})
    for (const bool apart : {false, true}) {
      Step step;
      step.bias = bias, step.seen_apart = apart;
      auto function = step.function();
      ir::verify(*function);
      const auto inputs = random_inputs(*function, 7);
      const auto want = interpreted(*function, inputs);
      take_attention(*function);
      passes::simplify(*function);
      const CudnnTarget target{libs::cuda::cudnn::Gpu::described(libs::cuda::cudnn::kH200)};
      EXPECT_TRUE(draft_cudnn_calls(*function, target).empty());
      ir::verify(*function);
      const auto got = interp::run(*function, inputs);
      for (size_t i = 0; i < want.size(); ++i) EXPECT_LT(distance(got[i], want[i]), 0x1p-7) << "result " << i << "\n" << ir::print(*function);
    }
}

TEST_F(CudnnCalls, AttentionReadsAndWritesHeadsWhereTheyLie) {
  SKIP_WITHOUT_GPU();  // plans for attention need a driver
  for (const bool tokens_first : {false, true}) {
    Step step;
    step.tokens_first = tokens_first;
    auto function = step.function();
    take_attention(*function);
    passes::simplify(*function);
    const CudnnTarget target{libs::cuda::cudnn::Gpu::described(libs::cuda::cudnn::kH200)};
    const CudnnDrafts drafts = draft_cudnn_calls(*function, target);
    ir::verify(*function);
    ASSERT_EQ(drafts.size(), 2u) << ir::print(*function);
    const Dims order = tokens_first ? Dims{step.tokens, step.batch, step.heads, step.width} : Dims{step.batch, step.tokens, step.heads, step.width};
    for (const auto& [op, call] : plan_cudnn_calls(drafts)) {
      std::vector<int64_t> offsets;
      for (const CudnnCall::Read& read : call.reads)
        if (read.base == function->body.args[0].get()) offsets.push_back(read.offset);
      const int64_t part = step.heads * step.width * 2;
      EXPECT_EQ(offsets, (std::vector<int64_t>{0, part, 2 * part})) << "q, k and v are read from the projection";
      EXPECT_EQ(op->result()->type.dims, order) << ir::print(*function);
      if (op->attrs.string("call_target_name") == "thalweg.attention_grad") {
        EXPECT_EQ(call.reads[0].base, function->body.args[1].get()) << "dy";
        EXPECT_EQ(call.reads[1].base->def->attrs.string("call_target_name"), "thalweg.attention") << "y";
        EXPECT_EQ(call.reads[2].base->def->attrs.string("call_target_name"), "thalweg.attention") << "sums";
      }
    }
  }
}

// A convolution whose input lies in memory with its channels last, then one over rows.
std::unique_ptr<ir::Module> convolutions() {
  return ir::parse(R"(func.func public @main(%x: tensor<2x12x12x16xf32>, %w: tensor<24x16x3x3xf32>) -> (tensor<2x24x6x6xf32>, tensor<2x12x12x24xf32>) {
  %0 = stablehlo.transpose %x, dims = [0, 3, 1, 2] : (tensor<2x12x12x16xf32>) -> tensor<2x16x12x12xf32>
  %1 = stablehlo.custom_call @thalweg.convolution(%0, %w) {backend_config = {dilation = array<i64: 1, 1>, groups = 1 : i64, mode = "forward", output_padding = array<i64: 0, 0>, padding = array<i64: 1, 1>, stride = array<i64: 2, 2>, transposed = false}, api_version = 4 : i32} : (tensor<2x16x12x12xf32>, tensor<24x16x3x3xf32>) -> tensor<2x24x6x6xf32>
  %2 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[o, i, 0, 1]->[b, 0, 1, f], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x12x12x16xf32>, tensor<24x16x3x3xf32>) -> tensor<2x12x12x24xf32>
  return %1, %2 : tensor<2x24x6x6xf32>, tensor<2x12x12x24xf32>
})",
                   "test");
}

TEST_F(CudnnCalls, ConvolutionsReadAndWriteChannelsWhereTheyLie) {
  auto module = convolutions();
  ir::Function& function = module->main();
  const CudnnTarget target{libs::cuda::cudnn::Gpu::described(libs::cuda::cudnn::kH200)};
  const CudnnDrafts drafts = draft_cudnn_calls(function, target);
  ir::verify(function);
  ASSERT_EQ(drafts.size(), 2u) << ir::print(function);
  for (const auto& [op, call] : plan_cudnn_calls(drafts)) {
    EXPECT_EQ(call.reads[0].base, function.body.args[0].get()) << "the input is read where it lies";
    EXPECT_NE(call.reads[1].base, function.body.args[1].get()) << "the weights are laid channels last";
    EXPECT_EQ(op->result()->type.dims.back(), 24) << "channels last";
  }
}

// Every product of a convolution added to its result; the tensors in PyTorch's order, sums in double. Which operand is which says opaque_calls.cpp.
ir::Literal convolved(const ir::Op& op, std::span<const ir::Literal> operands) {
  const ir::Attributes& config = op.attrs.dict("backend_config");
  const bool transposed = config.boolean("transposed", false);
  const std::string mode = config.string("mode");
  // Images, weights, places: 0 and 1 for operands, 2 for the result.
  int x = 0, w = 1, y = 2;
  if (mode == "weight_grad") {
    x = transposed ? 0 : 1, y = 1 - x, w = 2;
  } else if ((mode == "forward") == transposed) {
    x = 2, y = 0;
  }
  ir::Literal result(op.result()->type);
  const ir::Literal* tensors[] = {&operands[0], &operands[1], &result};
  std::vector<double> values[3];
  for (int t = 0; t < 3; ++t)
    for (int64_t i = 0; i < tensors[t]->type.size(); ++i) values[t].push_back(t == 2 ? 0 : ir::to_double(*tensors[t], i));
  const Dims &xd = tensors[x]->type.dims, &wd = tensors[w]->type.dims, &yd = tensors[y]->type.dims;
  const Dims stride = config.ints("stride"), padding = config.ints("padding"), dilation = config.ints("dilation");
  const int64_t out = wd[0] / config.integer("groups");
  for (int64_t n = 0; n < xd[0]; ++n)
    for (int64_t o = 0; o < wd[0]; ++o)
      for (int64_t i = 0; i < yd[2]; ++i)
        for (int64_t j = 0; j < yd[3]; ++j)
          for (int64_t r = 0; r < wd[2]; ++r)
            for (int64_t q = 0; q < wd[3]; ++q) {
              const int64_t h = i * stride[0] + r * dilation[0] - padding[0], v = j * stride[1] + q * dilation[1] - padding[1];
              if (h < 0 || h >= xd[2] || v < 0 || v >= xd[3]) continue;
              for (int64_t c = 0; c < wd[1]; ++c) {
                int64_t at[3];
                at[x] = ((n * xd[1] + o / out * wd[1] + c) * xd[2] + h) * xd[3] + v;
                at[w] = ((o * wd[1] + c) * wd[2] + r) * wd[3] + q;
                at[y] = ((n * yd[1] + o) * yd[2] + i) * yd[3] + j;
                values[2][static_cast<size_t>(at[2])] += values[0][static_cast<size_t>(at[0])] * values[1][static_cast<size_t>(at[1])];
              }
            }
  const auto bytes = static_cast<size_t>(ir::byte_size(result.type.dtype));
  for (size_t i = 0; i < values[2].size(); ++i) ir::store_double(result.type.dtype, result.data.data() + i * bytes, values[2][i]);
  return result;
}

TEST(FewChannels, FoldedConvolutionsMeanTheSame) {
  interp::Options meaning;
  meaning.custom_call = [](const ir::Op& op, std::span<const ir::Literal> operands) { return std::vector<ir::Literal>{convolved(op, operands)}; };
  const unsigned seed = std::random_device{}();
  for (const Dims& shape : {Dims{3, 7, 2, 3, 12, 14}, Dims{3, 3, 1, 1, 6, 7}, Dims{1, 11, 4, 2, 23, 19}, Dims{4, 5, 3, 1, 11, 13}, Dims{3, 2, 2, 0, 7, 8}})
    for (const bool forward : {true, false}) {
      const auto [channels, window, stride, padding] = std::array{shape[0], shape[1], shape[2], shape[3]};
      const Dims x{2, channels, shape[4], shape[5]}, w{5, channels, window, window};
      const Dims y{2, 5, (x[2] + 2 * padding - window) / stride + 1, (x[3] + 2 * padding - window) / stride + 1};
      ir::Function function;
      ir::Builder b(function.body);
      for (const Dims& dims : {forward ? x : y, forward ? w : x}) {
        function.body.args.push_back(std::make_unique<Value>());
        function.body.args.back()->type = ir::tensor(DType::F32, dims);
        function.body.args.back()->index = static_cast<uint32_t>(function.body.args.size() - 1);
      }
      ir::Attributes config;
      config.set("mode", std::string(forward ? "forward" : "weight_grad"));
      config.set("stride", Dims{stride, stride}), config.set("padding", Dims{padding, padding}), config.set("dilation", Dims{1, 1});
      config.set("output_padding", Dims{0, 0}), config.set("transposed", false), config.set("groups", int64_t{1});
      b.ret(
          b.custom_call("thalweg.convolution", {function.body.args[0].get(), function.body.args[1].get()}, {ir::tensor(DType::F32, forward ? y : w)}, config));
      const auto inputs = random_inputs(function, seed);
      const auto want = interp::run(function, inputs, meaning);
      FoldedImages images;
      int folded_calls = 0;
      rewrite(function, [&](ir::Builder& builder, ir::Op& op) -> std::vector<Value*> {
        if (op.code != ir::OpCode::CustomCall) return {};
        const auto folded = fold_few_channels(builder, op, images);
        if (!folded) return {};
        ++folded_calls;
        return {folded->back(builder, builder.custom_call("thalweg.convolution", folded->operands, {folded->result}, folded->config)[0])};
      });
      ir::verify(function);
      EXPECT_EQ(folded_calls, 1);
      const auto got = interp::run(function, inputs, meaning);
      EXPECT_LT(distance(got[0], want[0]), 1e-6) << "seed " << seed << ", window " << window << ", stride " << stride << (forward ? "" : ", gradient");
    }
}

// y = relu(convolution(x) · per channel), and the two gradients of the convolution for a given dy.
std::unique_ptr<ir::Function> convolution_step(DType dtype, int64_t channels, int64_t groups, bool transposed, bool channels_last) {
  auto made = std::make_unique<ir::Function>();
  made->name = "main";
  ir::Builder b(made->body);
  auto argument = [&](Dims dims) {
    auto& args = made->body.args;
    if (channels_last && dims.size() == 4) dims = {dims[0], dims[2], dims[3], dims[1]};
    args.push_back(std::make_unique<Value>());
    args.back()->type = ir::tensor(dtype, std::move(dims)), args.back()->index = static_cast<uint32_t>(args.size() - 1);
    return channels_last && args.back()->type.rank() == 4 ? b.transpose(args.back().get(), {0, 3, 1, 2}) : args.back().get();
  };
  const int64_t outputs = 16;
  const Dims image{2, channels, 9, 8}, places = transposed ? Dims{2, outputs, 18, 16} : Dims{2, outputs, 5, 4};
  const Dims weights = transposed ? Dims{channels, outputs / groups, 4, 4} : Dims{outputs, channels / groups, 3, 3};
  Value *x = argument(image), *w = argument(weights), *dy = argument(places), *scale = argument({outputs});
  auto call = [&](const char* mode, Value* first, Value* second, const Dims& dims) {
    ir::Attributes config;
    config.set("mode", std::string(mode));
    config.set("stride", Dims{2, 2}), config.set("padding", Dims{1, 1}), config.set("dilation", Dims{1, 1}), config.set("output_padding", Dims{0, 0});
    config.set("transposed", transposed), config.set("groups", groups);
    return b.custom_call("thalweg.convolution", {first, second}, {ir::tensor(dtype, dims)}, config)[0];
  };
  Value* y = call("forward", x, w, places);
  Value* scaled = b.binary(ir::OpCode::Multiply, y, b.broadcast(scale, places, {1}));
  Value* passed = b.binary(ir::OpCode::Maximum, scaled, b.splat(scaled->type, 0));
  Value* means = b.sum(b.convert(passed, DType::F32), {0, 2, 3});
  b.ret({passed, call("input_grad", dy, w, image), call("weight_grad", dy, x, weights), means});
  return made;
}

// On a GPU.
class CudnnPrograms : public CudnnCalls {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_GPU();
    CudnnCalls::SetUp();
    setenv("THALWEG_TEST_DEVICE", "cuda", 1);
    seed_ = std::random_device{}();
  }
  // Names of what ran by somebody else.
  void check(const ir::Function& function, double tolerance, int calls, const interp::Options& meaning = {}) {
    SCOPED_TRACE("seed " + std::to_string(seed_));
    const auto inputs = random_inputs(function, seed_);
    const auto want = interpreted(function, inputs, meaning);
    Options options;
    options.device = &runtime::cuda::device();
    auto executable = compile(ir::clone(function), options);
    EXPECT_GE(executable->info().library_calls, calls);
    EXPECT_EQ(executable->info().opaque_calls, 0) << executable->info().opaque_names[0];
    const auto got = thalweg::testing::launch(*executable, inputs, function.result_types());
    for (size_t i = 0; i < want.size(); ++i) EXPECT_LT(distance(got[i], want[i]), tolerance) << "result " << i;
  }
  unsigned seed_ = 0;
};

TEST_F(CudnnPrograms, AttentionStepsFollowTheInterpreter) {
  for (const DType dtype : {DType::BF16, DType::F16})
    for (const bool causal : {false, true})
      for (const bool tokens_first : {false, true}) {
        Step step;
        step.dtype = dtype, step.causal = causal, step.tokens_first = tokens_first, step.width = 32;
        check(*step.function(), dtype == DType::BF16 ? 0x1p-6 : 0x1p-9, 2);
      }
}

TEST_F(CudnnPrograms, BiasedAttentionFollowsTheInterpreter) {
  for (const Dims& bias : {Dims{24, 24}, Dims{2, 1, 1, 24}, Dims{1, 3, 24, 24}})
    for (const bool apart : {false, true}) {
      Step step;
      step.bias = bias, step.seen_apart = apart, step.width = 32;
      check(*step.function(), 0x1p-6, 2);
    }
}

TEST_F(CudnnPrograms, RowsThatTheBiasShutsOutAreZero) {
  Step step;
  step.bias = {24, 24}, step.width = 32;
  auto function = step.function();
  auto inputs = random_inputs(*function, seed_);
  for (int64_t column = 0; column < 24; ++column)
    for (const int64_t row : {0, 5, 23}) ir::store_double(step.dtype, inputs[2].data.data() + (row * 24 + column) * 2, -INFINITY);
  const auto want = interpreted(*function, inputs);
  Options options;
  options.device = &runtime::cuda::device();
  auto executable = compile(ir::clone(*function), options);
  const auto got = thalweg::testing::launch(*executable, inputs, function->result_types());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_LT(distance(got[i], want[i]), 0x1p-6) << "result " << i << ", seed " << seed_;
}

TEST_F(CudnnPrograms, ConvolutionStepsFollowTheirDefinition) {
  interp::Options meaning;
  meaning.custom_call = [](const ir::Op& op, std::span<const ir::Literal> operands) { return std::vector<ir::Literal>{convolved(op, operands)}; };
  for (const DType dtype : {DType::F32, DType::BF16})
    for (const bool channels_last : {false, true})
      for (const bool transposed : {false, true})
        for (const auto& [channels, groups] : {std::pair<int64_t, int64_t>{16, 1}, {16, 2}, {3, 1}}) {
          SCOPED_TRACE("channels " + std::to_string(channels) + ", groups " + std::to_string(groups) + (channels_last ? ", last" : "") +
                       (transposed ? ", transposed" : "") + (dtype == DType::F32 ? ", f32" : ", bf16"));
          check(*convolution_step(dtype, channels, groups, transposed, channels_last), dtype == DType::F32 ? 1e-5 : 0x1p-7, 3, meaning);
        }
}

TEST_F(CudnnPrograms, ConvolutionsFollowTheInterpreter) {
  auto plain = ir::parse(R"(func.func public @main(%x: tensor<2x12x12x16xf32>, %w: tensor<24x16x3x3xf32>) -> tensor<2x12x12x24xf32> {
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[o, i, 0, 1]->[b, 0, 1, f], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x12x12x16xf32>, tensor<24x16x3x3xf32>) -> tensor<2x12x12x24xf32>
  return %0 : tensor<2x12x12x24xf32>
})",
                         "test");
  check(plain->main(), 1e-5, 1);
}

}  // namespace
}  // namespace thalweg::compiler
