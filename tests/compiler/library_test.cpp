// Products and calls that a library serves: what it is given, and that its results are used.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "interp/interpreter.h"
#include "ir/builder.h"
#include "libs/cpu/opaque.h"
#include "tests/compiler/run_program.h"

namespace thalweg {
namespace {

using ir::DType;
using V = ir::Value*;

float from_bf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
uint16_t to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

int calls = 0;

// at::matmul with the flags of the configuration, for bf16 of equal ranks.
void fake_matmul(const std::string& config, std::span<const libs::cpu::TensorArg> in, std::span<const libs::cpu::TensorArg> out) {
  ++calls;
  const bool ta = config.find("transpose_a=1") != std::string::npos, tb = config.find("transpose_b=1") != std::string::npos;
  const auto &a = in[0], &b = in[1], &c = out[0];
  const size_t r = a.dims.size();
  const int64_t batch = r == 3 ? a.dims[0] : 1, m = c.dims[r - 2], n = c.dims[r - 1], k = ta ? a.dims[r - 2] : a.dims[r - 1];
  ASSERT_EQ(a.dims[r - (ta ? 1 : 2)], m);
  ASSERT_EQ(b.dims[r - (tb ? 1 : 2)], k);
  ASSERT_EQ(b.dims[r - (tb ? 2 : 1)], n);
  const uint16_t *pa = static_cast<const uint16_t*>(a.data), *pb = static_cast<const uint16_t*>(b.data);
  for (int64_t s = 0; s < batch; ++s)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        float sum = 0;
        for (int64_t x = 0; x < k; ++x)
          sum += from_bf16(pa[s * m * k + (ta ? x * m + i : i * k + x)]) * from_bf16(pb[s * k * n + (tb ? j * k + x : x * n + j)]);
        static_cast<uint16_t*>(c.data)[(s * m + i) * n + j] = to_bf16(sum);
      }
}

TEST(Library, TakesSixteenBitProductsOfEveryLayout) {
  libs::cpu::register_opaque("thalweg.matmul", fake_matmul);
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  struct Case {
    ir::Dims lhs, rhs;
    ir::DotDims dims;
  };
  const Case cases[] = {
      {{5, 7}, {7, 3}, {{}, {}, {1}, {0}}},
      {{5, 7}, {3, 7}, {{}, {}, {1}, {1}}},
      {{7, 5}, {7, 3}, {{}, {}, {0}, {0}}},
      {{7, 5}, {3, 7}, {{}, {}, {0}, {1}}},
      {{2, 5, 7}, {2, 7, 3}, {{0}, {0}, {2}, {1}}},
      {{2, 7, 5}, {2, 3, 7}, {{0}, {0}, {1}, {2}}},
      {{5, 2, 7}, {7, 2, 3}, {{1}, {1}, {2}, {0}}},
      {{2, 5, 7}, {7, 3}, {{}, {}, {2}, {0}}},
      {{4, 2, 6}, {2, 6, 3}, {{}, {}, {1, 2}, {0, 1}}},
      {{7}, {7}, {{}, {}, {0}, {0}}},
  };
  for (const Case& c : cases) {
    ir::Function function;
    function.name = "main";
    ir::Builder b(function.body);
    std::vector<ir::Literal> inputs;
    for (const ir::Dims& dims : {c.lhs, c.rhs}) {
      ir::Literal literal(ir::tensor(DType::BF16, dims));
      for (int64_t i = 0; i < literal.type.size(); ++i) literal.set<uint16_t>(i, to_bf16(static_cast<float>(random() % 9) - 4));
      inputs.push_back(literal);
      function.body.add_arg(literal.type);
    }
    b.ret({b.dot(function.body.args[0].get(), function.body.args[1].get(), c.dims)});
    calls = 0;
    auto got = testing::compile_and_run(function, inputs), want = interp::run(function, inputs);
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(got[0].data, want[0].data) << "seed " << seed << ", " << ir::to_string(inputs[0].type) << " · " << ir::to_string(inputs[1].type);
  }
}

TEST(Library, GetsConfigurationShapesAndMayFail) {
  static std::string seen;
  libs::cpu::register_opaque("test.negate", [](const std::string& config, std::span<const libs::cpu::TensorArg> in, std::span<const libs::cpu::TensorArg> out) {
    seen = config;
    if (in[0].dims != ir::Dims{2, 3}) throw std::runtime_error("wrong shape");
    for (int i = 0; i < 6; ++i) static_cast<float*>(out[0].data)[i] = -static_cast<const float*>(in[0].data)[i];
  });
  for (const ir::Dims& dims : {ir::Dims{2, 3}, ir::Dims{3, 2}}) {
    ir::Function function;
    function.name = "main";
    ir::Builder b(function.body);
    V x = function.body.add_arg(ir::tensor(DType::F32, dims));
    ir::Attributes config;
    config.set("sizes", ir::Dims{4, 5});
    config.set("fast", true);
    config.set("count", int64_t{7});
    config.set("word", "plain");
    b.ret({b.custom_call("test.negate", {b.binary(ir::OpCode::Add, x, x)}, {x->type}, std::move(config))[0]});
    ir::Literal input(x->type);
    for (int i = 0; i < 6; ++i) input.set<float>(i, static_cast<float>(i));
    if (dims[0] == 2) {
      auto got = testing::compile_and_run(function, {input});
      for (int i = 0; i < 6; ++i) EXPECT_EQ(got[0].get<float>(i), -2.0f * static_cast<float>(i));
      EXPECT_EQ(seen, "count=7;fast=1;sizes=4,5;word=plain;");
    } else {
      EXPECT_ANY_THROW(testing::compile_and_run(function, {input}));
    }
  }
}

}  // namespace
}  // namespace thalweg
