// Text to functions: results, caching in memory and on disk, wrong text, several threads, every scalar function bit for bit as this compiler's.
#include "codegen/cpu/jit.h"

#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <random>
#include <thread>

#include "ir/scalar.h"
#include "support/error.h"

namespace thalweg::codegen::cpu {
namespace {

KernelSource map_kernel(const std::string& name, const std::string& from, const std::string& to, const std::string& expression) {
  return {name, "extern \"C\" void " + name + "(void* const* args, long begin, long end) {\n  const " + from + "* __restrict__ x = (const " + from +
                    "*)args[0];\n  " + to + "* __restrict__ y = (" + to +
                    "*)args[1];\n  for (long i = begin; i < end; ++i) { auto a = x[i]; y[i] = " + expression + "; }\n}\n"};
}

TEST(Jit, ComputesTheRangeItIsGiven) {
  std::string why;
  ASSERT_TRUE(available(&why)) << why;
  KernelSource kernel = map_kernel("twice_plus_one", "float", "float", "s_add(s_mul(a, 2.0f), 1.0f)");
  KernelFn fn = compile({&kernel, 1})[0];
  std::vector<float> x(100, 3.0f), y(100, 0.0f);
  void* args[] = {x.data(), y.data()};
  fn(args, 10, 90);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(y[i], i >= 10 && i < 90 ? 7.0f : 0.0f);
}

TEST(Jit, FindsEqualTextInMemory) {
  KernelSource kernel = map_kernel("cached", "double", "double", "s_sub(a, 4.0)");
  KernelSource twice[] = {kernel, kernel};
  auto first = compile(twice);
  auto before = stats();
  auto second = compile(twice);
  EXPECT_EQ(first[0], first[1]);
  EXPECT_EQ(first, second);
  EXPECT_EQ(stats().memory_hits, before.memory_hits + 2);
  EXPECT_EQ(stats().compiled, before.compiled);
}

TEST(Jit, SameNameWithOtherTextIsAnotherFunction) {
  KernelSource kernels[] = {map_kernel("name", "int", "int", "s_add(a, 1)"), map_kernel("name", "int", "int", "s_add(a, 2)")};
  auto fns = compile(kernels);
  int x = 5, y = 0;
  void* args[] = {&x, &y};
  fns[0](args, 0, 1);
  EXPECT_EQ(y, 6);
  fns[1](args, 0, 1);
  EXPECT_EQ(y, 7);
}

TEST(Jit, WrongTextGivesClangsMessageAndTheText) {
  KernelSource kernels[] = {map_kernel("good", "int", "int", "s_add(a, 11)"), map_kernel("bad", "int", "int", "no_such_function(a)")};
  try {
    compile(kernels);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Internal);
    EXPECT_NE(std::string(error.what()).find("no_such_function"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("undeclared"), std::string::npos) << error.what();
  }
  EXPECT_NE(compile({kernels, 1})[0], nullptr);
}

TEST(Jit, SeveralThreadsAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::vector<KernelSource> kernels;
      for (int i = 0; i < 3; ++i) kernels.push_back(map_kernel("threads", "int", "int", "s_add(a, " + std::to_string(100 + (i + t) % 5) + ")"));
      auto fns = compile(kernels);
      for (int i = 0; i < 3; ++i) {
        int x = 1, y = 0;
        void* args[] = {&x, &y};
        fns[i](args, 0, 1);
        good += y == 101 + (i + t) % 5;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(good, 12);
}

// Every unary f32 row of ops.def, and a 16-bit one: the vectorised kernel gives the bits of this file's compiler.
TEST(Jit, ScalarFunctionsGiveTheSameBits) {
  using namespace thalweg::scalar;
  struct Row {
    const char* expression;
    float (*here)(float);
    bf16_t (*here16)(bf16_t);
  };
#define THALWEG_OP(...)
#define THALWEG_BINARY(...)
#define THALWEG_UNARY(name, text, cls, expression) THALWEG_ROW_##cls(expression)
#define THALWEG_ROW_Float(expression) {#expression, [](float a) -> float { return expression; }, [](bf16_t a) -> bf16_t { return expression; }},
#define THALWEG_ROW_FloatComplex(expression) THALWEG_ROW_Float(expression)
#define THALWEG_ROW_Numeric(expression) THALWEG_ROW_Float(expression)
#define THALWEG_ROW_SignedNumeric(expression) THALWEG_ROW_Float(expression)
#define THALWEG_ROW_Integer(expression)
#define THALWEG_ROW_BoolInteger(expression)
  const Row rows[] = {
#include "ir/ops.def"
  };
#undef THALWEG_UNARY
#undef THALWEG_BINARY
#undef THALWEG_OP
  std::vector<KernelSource> kernels;
  for (const Row& row : rows) {
    kernels.push_back(map_kernel("f32", "float", "float", row.expression));
    kernels.push_back(map_kernel("bf16", "bf16_t", "bf16_t", row.expression));
  }
  auto fns = compile(kernels);
  constexpr uint32_t seed = 99;
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> near(-6.0f, 6.0f);
  std::vector<float> x(4001), y(x.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] = i % 2 ? near(random) : std::bit_cast<float>(static_cast<uint32_t>(random()));
  std::vector<bf16_t> x16(x.size()), y16(x.size());
  for (size_t i = 0; i < x.size(); ++i) x16[i] = to_bf16(x[i]);
  for (size_t r = 0; r < std::size(rows); ++r) {
    void* args[] = {x.data(), y.data()};
    fns[2 * r](args, 0, static_cast<int64_t>(x.size()));
    void* args16[] = {x16.data(), y16.data()};
    fns[2 * r + 1](args16, 0, static_cast<int64_t>(x.size()));
    for (size_t i = 0; i < x.size(); ++i) {
      float want = rows[r].here(x[i]);
      if (std::isnan(want))
        ASSERT_TRUE(std::isnan(y[i])) << rows[r].expression << " of " << x[i];
      else
        ASSERT_EQ(std::bit_cast<uint32_t>(y[i]), std::bit_cast<uint32_t>(want)) << rows[r].expression << " of " << x[i] << " seed " << seed;
      bf16_t want16 = rows[r].here16(x16[i]);
      if (std::isnan(to_float(want16)))
        ASSERT_TRUE(std::isnan(to_float(y16[i])));
      else
        ASSERT_EQ(y16[i].bits, want16.bits) << rows[r].expression << " of bf16 " << to_float(x16[i]);
    }
  }
}

}  // namespace
}  // namespace thalweg::codegen::cpu
