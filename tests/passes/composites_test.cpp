// Composites with gradients: each gradient against differences of its own forward composite in f64, and forwards against formulas.
#include "passes/composites.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "interp/interpreter.h"
#include "ir/verifier.h"
#include "passes/cse.h"
#include "passes/decompose.h"

namespace thalweg::passes {
namespace {

using ir::Builder;
using ir::DType;
using ir::Literal;
using ir::Type;
using ir::Value;
using Literals = std::vector<Literal>;

constexpr uint32_t kSeed = 91;

Literal random_literal(std::mt19937& random, const Type& type) {
  std::uniform_real_distribution<double> distribution(-2, 2);
  Literal literal(type);
  auto* data = reinterpret_cast<double*>(literal.data.data());
  for (int64_t i = 0; i < type.size(); ++i) data[i] = distribution(random);
  return literal;
}

Literal integers(std::vector<int64_t> values) {
  Literal literal(ir::tensor(DType::S64, {static_cast<int64_t>(values.size())}));
  std::copy(values.begin(), values.end(), reinterpret_cast<int64_t*>(literal.data.data()));
  return literal;
}

double& element(Literal& literal, int64_t i) { return reinterpret_cast<double*>(literal.data.data())[i]; }
double element(const Literal& literal, int64_t i) { return reinterpret_cast<const double*>(literal.data.data())[i]; }

Type f64(ir::Dims dims) { return ir::tensor(DType::F64, std::move(dims)); }

ir::Attributes attributes(std::initializer_list<std::pair<const char*, ir::Attribute>> list) {
  ir::Attributes attrs;
  for (auto& [name, value] : list) attrs.set(name, value);
  return attrs;
}

// One composite as a function, decomposed and run.
Literals run(const char* name, const Literals& inputs, const std::vector<Type>& results, const ir::Attributes& config) {
  ir::Function function;
  function.name = "main";
  std::vector<Value*> args;
  for (const Literal& input : inputs) args.push_back(function.body.add_arg(input.type));
  Builder builder(function.body);
  builder.ret(builder.composite(name, args, results, config));
  EXPECT_TRUE(decompose(function));
  ir::verify(function);
  return interp::run(function, inputs);
}

// The slope of sum(dy · result 0 of the composite) along every element of input `at`, by central differences.
std::vector<double> slopes(const char* name, Literals inputs, size_t at, const std::vector<Type>& results, const ir::Attributes& config, const Literal& dy) {
  auto value = [&] {
    const Literal y = run(name, inputs, results, config)[0];
    double sum = 0;
    for (int64_t i = 0; i < y.type.size(); ++i) sum += element(y, i) * element(dy, i);
    return sum;
  };
  std::vector<double> out;
  for (int64_t i = 0; i < inputs[at].type.size(); ++i) {
    const double kept = element(inputs[at], i), h = 1e-6;
    element(inputs[at], i) = kept + h;
    const double up = value();
    element(inputs[at], i) = kept - h;
    out.push_back((up - value()) / (2 * h));
    element(inputs[at], i) = kept;
  }
  return out;
}

void expect_near(const Literal& got, const std::vector<double>& want, double tolerance, const char* what) {
  ASSERT_EQ(static_cast<size_t>(got.type.size()), want.size()) << what;
  for (size_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(element(got, static_cast<int64_t>(i)), want[i], tolerance * (1 + std::abs(want[i]))) << what << " element " << i << " seed " << kSeed;
}

TEST(Composites, AttentionGradient) {
  std::mt19937 random(kSeed);
  for (const bool biased : {false, true}) {
    for (const bool causal : {false, true}) {
      const auto config = attributes({{"scale", 0.7}, {"causal", causal}});
      Literals inputs{random_literal(random, f64({2, 3, 4})), random_literal(random, f64({2, 5, 4})), random_literal(random, f64({2, 5, 2}))};
      if (biased) inputs.push_back(random_literal(random, f64({3, 1})));
      const std::vector<Type> results{f64({2, 3, 2}), f64({2, 3})};
      const Literals forward = run("thalweg.attention", inputs, results, config);
      const Literal dy = random_literal(random, f64({2, 3, 2}));
      Literals grad_inputs{dy, inputs[0], inputs[1], inputs[2], forward[0], forward[1]};
      std::vector<Type> grad_types{inputs[0].type, inputs[1].type, inputs[2].type};
      if (biased) {
        grad_inputs.push_back(inputs[3]);
        grad_types.push_back(inputs[3].type);
      }
      const Literals grads = run("thalweg.attention_grad", grad_inputs, grad_types, config);
      for (size_t i = 0; i < grads.size(); ++i) expect_near(grads[i], slopes("thalweg.attention", inputs, i, results, config, dy), 1e-7, "attention");
    }
  }
}

TEST(Composites, ARowWithoutKeysIsZero) {
  std::mt19937 random(kSeed);
  const auto config = attributes({{"scale", 1.0}, {"causal", false}});
  Literals inputs{random_literal(random, f64({1, 2, 3})), random_literal(random, f64({1, 4, 3})), random_literal(random, f64({1, 4, 3})),
                  random_literal(random, f64({2, 4}))};
  for (int i = 0; i < 4; ++i) element(inputs[3], i) = -INFINITY;
  const Literals forward = run("thalweg.attention", inputs, {f64({1, 2, 3}), f64({1, 2})}, config);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(element(forward[0], i), 0);
  EXPECT_EQ(element(forward[1], 0), -INFINITY);
  const Literals grads =
      run("thalweg.attention_grad", {random_literal(random, f64({1, 2, 3})), inputs[0], inputs[1], inputs[2], forward[0], forward[1], inputs[3]},
          {inputs[0].type, inputs[1].type, inputs[2].type}, config);
  for (const Literal& grad : grads)
    for (int64_t i = 0; i < grad.type.size(); ++i) ASSERT_TRUE(std::isfinite(element(grad, i)));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(element(grads[0], i), 0);
}

// Forward and gradient in one function: one product of the scores, one exponential of them.
TEST(Composites, PairedAttentionIsComputedOnce) {
  ir::Function function;
  function.name = "main";
  std::vector<Value*> a;
  for (int i = 0; i < 4; ++i) a.push_back(function.body.add_arg(f64({2, 3, 3})));
  Builder b(function.body);
  const auto config = attributes({{"scale", 0.5}, {"causal", false}});
  auto y = b.composite("thalweg.attention", {a[0], a[1], a[2]}, {f64({2, 3, 3}), f64({2, 3})}, config);
  auto grads = b.composite("thalweg.attention_grad", {a[3], a[0], a[1], a[2], y[0], y[1]}, {f64({2, 3, 3}), f64({2, 3, 3}), f64({2, 3, 3})}, config);
  grads.push_back(y[0]);
  b.ret(grads);
  ASSERT_TRUE(decompose(function));
  cse(function, nullptr);
  int dots = 0, exponentials = 0;
  for (const auto& op : function.body.ops) {
    dots += op->code == ir::OpCode::DotGeneral;
    exponentials += op->code == ir::OpCode::Exponential;
  }
  EXPECT_EQ(dots, 6);
  EXPECT_EQ(exponentials, 1);
}

TEST(Composites, BatchNormGradient) {
  std::mt19937 random(kSeed);
  const auto config = attributes({{"eps", 1e-3}});
  const Type x = f64({3, 2, 4}), c = f64({2});
  const Literals inputs{random_literal(random, x), random_literal(random, c), random_literal(random, c)};
  const std::vector<Type> results{x, c, c, c};
  const Literals forward = run("thalweg.batch_norm", inputs, results, config);
  const Literal dy = random_literal(random, x);
  const Literals grads = run("thalweg.batch_norm_grad", {dy, inputs[0], forward[1], forward[2], inputs[1]}, {x, c, c}, attributes({{"training", true}}));
  for (size_t i = 0; i < 3; ++i) expect_near(grads[i], slopes("thalweg.batch_norm", inputs, i, results, config, dy), 1e-7, "training");
  for (int channel = 0; channel < 2; ++channel) {
    double mean = 0, variance = 0;
    for (int n = 0; n < 3; ++n)
      for (int i = 0; i < 4; ++i) mean += element(inputs[0], (n * 2 + channel) * 4 + i) / 12;
    for (int n = 0; n < 3; ++n)
      for (int i = 0; i < 4; ++i) variance += std::pow(element(inputs[0], (n * 2 + channel) * 4 + i) - mean, 2) / 12;
    EXPECT_NEAR(element(forward[1], channel), mean, 1e-12);
    EXPECT_NEAR(element(forward[3], channel), variance, 1e-12);
    EXPECT_NEAR(element(forward[2], channel), 1 / std::sqrt(variance + 1e-3), 1e-12);
  }
  const Literals fixed{inputs[0], forward[1], forward[3], inputs[1], inputs[2]};
  const Literals constant = run("thalweg.batch_norm_grad", {dy, inputs[0], forward[1], forward[2], inputs[1]}, {x, c, c}, attributes({{"training", false}}));
  expect_near(constant[0], slopes("thalweg.batch_norm_inference", fixed, 0, {x}, config, dy), 1e-7, "inference x");
  expect_near(constant[1], slopes("thalweg.batch_norm_inference", fixed, 3, {x}, config, dy), 1e-7, "inference weight");
  expect_near(constant[2], slopes("thalweg.batch_norm_inference", fixed, 4, {x}, config, dy), 1e-7, "inference bias");
}

TEST(Composites, NllLossAndItsGradient) {
  std::mt19937 random(kSeed);
  const Literal labels = integers({2, 0, -100, 1});
  const Type x = f64({4, 3});
  for (const char* reduction : {"none", "mean", "sum"}) {
    const auto config = attributes({{"reduction", reduction}, {"ignore_index", -100}});
    const Literals inputs{random_literal(random, x), labels, random_literal(random, f64({3}))};
    const bool each = std::string(reduction) == "none";
    const Type loss = each ? f64({4}) : f64({});
    const Literals forward = run("thalweg.nll_loss", inputs, {loss, f64({})}, config);
    double sum = 0, total = 0;
    for (int n : {0, 1, 3}) {
      const int64_t label = reinterpret_cast<const int64_t*>(labels.data.data())[n];
      const double one = -element(inputs[0], n * 3 + label) * element(inputs[2], label);
      if (each) {
        EXPECT_NEAR(element(forward[0], n), one, 1e-12);
      }
      sum += one;
      total += element(inputs[2], label);
    }
    if (!each) {
      EXPECT_NEAR(element(forward[0], 0), std::string(reduction) == "mean" ? sum / total : sum, 1e-12);
      EXPECT_NEAR(element(forward[1], 0), total, 1e-12);
    }
    const Literal dy = random_literal(random, loss);
    const Literals grads = run("thalweg.nll_loss_grad", {dy, labels, forward[1], inputs[2]}, {x}, config);
    expect_near(grads[0], slopes("thalweg.nll_loss", inputs, 0, {loss, f64({})}, config, dy), 1e-7, reduction);
  }
}

TEST(Composites, OptimizerUpdates) {
  std::mt19937 random(kSeed);
  const Type t = f64({5}), s = f64({});
  auto number = [&](double value) {
    Literal literal(s);
    element(literal, 0) = value;
    return literal;
  };
  const Literals in{random_literal(random, t), random_literal(random, t), number(0.1), number(0.9), number(0.2), number(0.01), random_literal(random, t)};
  const Literals sgd = run("thalweg.sgd", in, {t, t}, attributes({{"nesterov", true}, {"first", false}}));
  for (int i = 0; i < 5; ++i) {
    const double p = element(in[0], i), g = element(in[1], i) + 0.01 * p, buffer = 0.9 * element(in[6], i) + 0.8 * g;
    EXPECT_NEAR(element(sgd[0], i), p - 0.1 * (g + 0.9 * buffer), 1e-12);
    EXPECT_NEAR(element(sgd[1], i), buffer, 1e-12);
  }
  Literals state{random_literal(random, t), random_literal(random, t), random_literal(random, t), random_literal(random, t)};
  for (int i = 0; i < 5; ++i) element(state[3], i) = std::abs(element(state[3], i));
  for (const bool decoupled : {false, true}) {
    Literals inputs = state;
    for (double value : {3.0, 0.1, 0.9, 0.99, 0.05, 1e-6}) inputs.push_back(number(value));
    const Literals adam = run("thalweg.adam", inputs, {t, t, t}, attributes({{"decoupled", decoupled}}));
    for (int i = 0; i < 5; ++i) {
      double p = element(state[0], i), g = element(state[1], i);
      if (decoupled)
        p -= 0.1 * 0.05 * p;
      else
        g += 0.05 * p;
      const double m = 0.9 * element(state[2], i) + 0.1 * g, v = 0.99 * element(state[3], i) + 0.01 * g * g;
      const double step = 0.1 / (1 - std::pow(0.9, 3)) * m / (std::sqrt(v) / std::sqrt(1 - std::pow(0.99, 3)) + 1e-6);
      EXPECT_NEAR(element(adam[0], i), p - step, 1e-12);
      EXPECT_NEAR(element(adam[1], i), m, 1e-12);
      EXPECT_NEAR(element(adam[2], i), v, 1e-12);
    }
  }
}

}  // namespace
}  // namespace thalweg::passes
