// Decompositions: batch normalisation against the interpreter's own, composites against formulas in double; inlining of calls and composites of a module.
#include "passes/decompose.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "interp/interpreter.h"
#include "ir/builder.h"
#include "ir/parser.h"
#include "ir/verifier.h"
#include "passes/inline_calls.h"
#include "passes/pass.h"

namespace thalweg::passes {
namespace {

using ir::Builder;
using ir::Dims;
using ir::DType;
using ir::Literal;
using ir::OpCode;
using ir::Value;

constexpr uint32_t kSeed = 77;

Literal random_literal(std::mt19937& random, const ir::Type& type, double low = -2, double high = 2) {
  std::uniform_real_distribution<double> distribution(low, high);
  Literal literal(type);
  for (int64_t i = 0; i < type.size(); ++i) {
    auto one = ir::make_splat(ir::tensor(type.dtype), distribution(random));
    std::copy(one->data.begin(), one->data.end(), literal.data.begin() + i * ir::byte_size(type.dtype));
  }
  return literal;
}

std::vector<double> doubles(const Literal& literal) {
  std::vector<double> v;
  for (int64_t i = 0; i < literal.type.size(); ++i) v.push_back(ir::to_double(literal, i));
  return v;
}

void expect_near(const Literal& got, const std::vector<double>& want, double tolerance) {
  ASSERT_EQ(static_cast<size_t>(got.type.size()), want.size());
  for (size_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(ir::to_double(got, static_cast<int64_t>(i)), want[i], tolerance * (1 + std::abs(want[i]))) << "element " << i << " seed " << kSeed;
}

// A function of one composite over arguments of `types`, run after decompose().
struct Composite {
  std::vector<Literal> inputs, outputs;

  Composite(std::mt19937& random, const char* name, const std::vector<ir::Type>& types, const std::vector<ir::Type>& results, ir::Attributes config) {
    ir::Function function;
    function.name = "main";
    std::vector<Value*> args;
    for (const ir::Type& type : types) {
      args.push_back(function.body.add_arg(type));
      inputs.push_back(random_literal(random, type));
    }
    Builder builder(function.body);
    builder.ret(builder.composite(name, args, results, std::move(config)));
    EXPECT_TRUE(decompose(function));
    EXPECT_FALSE(decompose(function));
    ir::verify(function);
    outputs = interp::run(function, inputs);
  }
};

ir::Attributes attributes(std::initializer_list<std::pair<const char*, ir::Attribute>> list) {
  ir::Attributes attrs;
  for (auto& [name, value] : list) attrs.set(name, value);
  return attrs;
}

TEST(Decompose, SoftmaxAndItsLogarithm) {
  std::mt19937 random(kSeed);
  auto type = ir::tensor(DType::F32, {3, 5});
  for (bool logarithm : {false, true}) {
    Composite c(random, logarithm ? "thalweg.log_softmax" : "thalweg.softmax", {type}, {type}, attributes({{"dim", 1}}));
    auto x = doubles(c.inputs[0]);
    std::vector<double> want(15);
    for (int r = 0; r < 3; ++r) {
      double sum = 0;
      for (int i = 0; i < 5; ++i) sum += std::exp(x[r * 5 + i]);
      for (int i = 0; i < 5; ++i) want[r * 5 + i] = logarithm ? x[r * 5 + i] - std::log(sum) : std::exp(x[r * 5 + i]) / sum;
    }
    expect_near(c.outputs[0], want, 1e-6);
  }
}

double gelu_of(double x, bool tanh) {
  return tanh ? 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))) : 0.5 * x * (1 + std::erf(x / std::sqrt(2)));
}

TEST(Decompose, GeluAndItsGradient) {
  std::mt19937 random(kSeed);
  auto type = ir::tensor(DType::F32, {40});
  for (const char* form : {"none", "tanh"}) {
    bool tanh = std::string(form) == "tanh";
    Composite forward(random, "thalweg.gelu", {type}, {type}, attributes({{"approximate", form}}));
    Composite backward(random, "thalweg.gelu_grad", {type, type}, {type}, attributes({{"approximate", form}}));
    auto x = doubles(forward.inputs[0]), dy = doubles(backward.inputs[0]), at = doubles(backward.inputs[1]);
    std::vector<double> y, dx;
    for (size_t i = 0; i < x.size(); ++i) {
      y.push_back(gelu_of(x[i], tanh));
      dx.push_back(dy[i] * (gelu_of(at[i] + 1e-5, tanh) - gelu_of(at[i] - 1e-5, tanh)) / 2e-5);
    }
    expect_near(forward.outputs[0], y, 1e-6);
    expect_near(backward.outputs[0], dx, 1e-5);
  }
}

// sum(dy · layer_norm(x)) in double, for numeric gradients.
double layer_norm_loss(const std::vector<double>& x, const std::vector<double>& w, const std::vector<double>& dy, int rows, int width, double eps) {
  double loss = 0;
  for (int r = 0; r < rows; ++r) {
    double mean = 0, variance = 0;
    for (int i = 0; i < width; ++i) mean += x[r * width + i] / width;
    for (int i = 0; i < width; ++i) variance += std::pow(x[r * width + i] - mean, 2) / width;
    for (int i = 0; i < width; ++i) loss += dy[r * width + i] * w[i] * (x[r * width + i] - mean) / std::sqrt(variance + eps);
  }
  return loss;
}

TEST(Decompose, LayerNormGradientAgreesWithDifferences) {
  std::mt19937 random(kSeed);
  constexpr int rows = 4, width = 6;
  constexpr double eps = 1e-5;
  auto full = ir::tensor(DType::F64, {2, 2, width}), row = ir::tensor(DType::F64, {2, 2}), weight = ir::tensor(DType::F64, {width});
  Composite forward(random, "thalweg.layer_norm", {full, weight, weight}, {full, row, row}, attributes({{"axis", 2}, {"eps", eps}}));
  ir::Function function;
  function.name = "main";
  std::vector<Value*> args;
  for (const ir::Type& type : {full, full, row, row, weight}) args.push_back(function.body.add_arg(type));
  Builder builder(function.body);
  builder.ret(builder.composite("thalweg.layer_norm_grad", args, {full, weight, weight}, attributes({{"axis", 2}})));
  ASSERT_TRUE(decompose(function));
  Literal dy_literal = random_literal(random, full);
  auto grads = interp::run(function, std::vector<Literal>{dy_literal, forward.inputs[0], forward.outputs[1], forward.outputs[2], forward.inputs[1]});
  auto x = doubles(forward.inputs[0]), w = doubles(forward.inputs[1]), dy = doubles(dy_literal);
  auto slope = [&](std::vector<double>& at, size_t i) {
    double kept = at[i], h = 1e-5;
    at[i] = kept + h;
    double up = layer_norm_loss(x, w, dy, rows, width, eps);
    at[i] = kept - h;
    double down = layer_norm_loss(x, w, dy, rows, width, eps);
    at[i] = kept;
    return (up - down) / (2 * h);
  };
  std::vector<double> dx, dw, db(width, 0.0);
  for (size_t i = 0; i < x.size(); ++i) dx.push_back(slope(x, i)), db[i % width] += dy[i];
  for (size_t i = 0; i < w.size(); ++i) dw.push_back(slope(w, i));
  expect_near(grads[0], dx, 1e-6);
  expect_near(grads[1], dw, 1e-6);
  expect_near(grads[2], db, 1e-12);
}

TEST(Decompose, AttentionWithMask) {
  std::mt19937 random(kSeed);
  constexpr int tokens = 3, width = 4;
  auto type = ir::tensor(DType::F32, {2, tokens, width});
  Composite c(random, "thalweg.attention", {type, type, type, ir::tensor(DType::F32, {tokens, tokens})}, {type}, attributes({{"scale", 0.5}}));
  auto q = doubles(c.inputs[0]), k = doubles(c.inputs[1]), v = doubles(c.inputs[2]), mask = doubles(c.inputs[3]);
  std::vector<double> want;
  for (int b = 0; b < 2; ++b) {
    for (int i = 0; i < tokens; ++i) {
      double weights[tokens], sum = 0;
      for (int j = 0; j < tokens; ++j) {
        double score = mask[i * tokens + j];
        for (int d = 0; d < width; ++d) score += 0.5 * q[(b * tokens + i) * width + d] * k[(b * tokens + j) * width + d];
        sum += weights[j] = std::exp(score);
      }
      for (int d = 0; d < width; ++d) {
        double y = 0;
        for (int j = 0; j < tokens; ++j) y += weights[j] / sum * v[(b * tokens + j) * width + d];
        want.push_back(y);
      }
    }
  }
  expect_near(c.outputs[0], want, 1e-6);
}

TEST(Decompose, BatchNormalisationAsTheInterpreterHasIt) {
  std::mt19937 random(kSeed);
  auto x = ir::tensor(DType::F64, {2, 3, 4}), f = ir::tensor(DType::F64, {3});
  struct Case {
    OpCode code;
    std::vector<ir::Type> operands;
  };
  for (const Case& c :
       {Case{OpCode::BatchNormInference, {x, f, f, f, f}}, Case{OpCode::BatchNormTraining, {x, f, f}}, Case{OpCode::BatchNormGrad, {x, f, f, f, x}}}) {
    ir::Function function;
    function.name = "main";
    std::vector<Value*> args;
    std::vector<Literal> inputs;
    for (const ir::Type& type : c.operands) {
      args.push_back(function.body.add_arg(type));
      inputs.push_back(random_literal(random, type, 0.5, 2));
    }
    Builder builder(function.body);
    ir::Op* op = builder.make(c.code, args, attributes({{"epsilon", 0.001}, {"feature_index", 1}}));
    std::vector<Value*> results;
    for (auto& result : op->results) results.push_back(result.get());
    builder.ret(results);
    auto before = interp::run(function, inputs);
    ASSERT_TRUE(decompose(function));
    auto after = interp::run(function, inputs);
    for (size_t i = 0; i < before.size(); ++i) expect_near(after[i], doubles(before[i]), 1e-12);
  }
}

TEST(InlineCalls, NestedCallsAndCompositesOfTheModule) {
  const char* text = R"(
module @m {
  func.func public @main(%a: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
    %0 = call @outer(%a) : (tensor<3xf32>) -> tensor<3xf32>
    %1 = stablehlo.composite "some.double" %0 {decomposition = @double} : (tensor<3xf32>) -> tensor<3xf32>
    return %0, %1 : tensor<3xf32>, tensor<3xf32>
  }
  func.func private @outer(%x: tensor<3xf32>) -> tensor<3xf32> {
    %0 = call @double(%x) : (tensor<3xf32>) -> tensor<3xf32>
    %1 = call @double(%0) : (tensor<3xf32>) -> tensor<3xf32>
    return %1 : tensor<3xf32>
  }
  func.func private @double(%x: tensor<3xf32>) -> tensor<3xf32> {
    %0 = stablehlo.add %x, %x : tensor<3xf32>
    return %0 : tensor<3xf32>
  }
})";
  auto module = ir::parse(text, "test");
  std::mt19937 random(kSeed);
  std::vector<Literal> inputs{random_literal(random, ir::tensor(DType::F32, {3}))};
  auto function = ir::clone(module->main());
  EXPECT_TRUE(simplify(*function, module.get()));
  ir::verify(*function);
  EXPECT_EQ(function->body.ops.size(), 4u);  // three additions and the return
  auto got = interp::run(*function, inputs);
  auto x = doubles(inputs[0]);
  expect_near(got[0], {4 * x[0], 4 * x[1], 4 * x[2]}, 0);
  expect_near(got[1], {8 * x[0], 8 * x[1], 8 * x[2]}, 0);
}

}  // namespace
}  // namespace thalweg::passes
