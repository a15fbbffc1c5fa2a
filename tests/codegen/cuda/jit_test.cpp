// NVRTC on a machine without a GPU: images, caching in memory and on disk, wrong text, every scalar function of the prelude compiled for the GPU.
#include "codegen/cuda/jit.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "codegen/cuda/nvrtc.h"
#include "support/error.h"

namespace thalweg::codegen::cuda {
namespace {

constexpr int kHopper = 90;

KernelSource map_kernel(const std::string& name, const std::string& type, const std::string& expression) {
  return {name, "extern \"C\" __global__ void " + name + "(const " + type + "* x, " + type +
                    "* y, int64_t n) {\nconst int64_t i = (int64_t)blockIdx.x * blockDim.x" + " + threadIdx.x;\nif (i >= n) return;\nconst " + type +
                    " a = x[i], b = x[n - 1 - i];\ny[i] = s_convert<" + type + ">(" + expression + ");\n}\n"};
}

class CudaJit : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (!has_nvrtc(&why)) GTEST_SKIP() << why;
  }
};

TEST_F(CudaJit, GivesMachineCodeOfTheKernel) {
  KernelSource kernel = map_kernel("twice", "float", "s_add(a, a)");
  const Image image = compile({&kernel, 1}, kHopper)[0];
  EXPECT_EQ(image->substr(0, 4),
            "\x7f"
            "ELF");
  EXPECT_NE(image->find("twice"), std::string::npos);
}

TEST_F(CudaJit, FindsEqualTextInMemoryAndTellsArchitecturesApart) {
  KernelSource kernel = map_kernel("cached", "double", "s_sub(a, 4.0)");
  const KernelSource both[] = {kernel, kernel};
  const auto first = compile(both, kHopper);
  const JitStats before = stats();
  EXPECT_EQ(compile(both, kHopper), first);
  EXPECT_EQ(first[0], first[1]);
  EXPECT_EQ(stats().memory_hits, before.memory_hits + 2);
  EXPECT_EQ(stats().compiled, before.compiled);
  EXPECT_NE(*compile(both, 100)[0], *first[0]);
}

TEST_F(CudaJit, WrongTextGivesTheLogAndTheText) {
  const KernelSource kernels[] = {map_kernel("good", "int32_t", "s_add(a, 11)"), map_kernel("bad", "int32_t", "no_such_function(a)")};
  try {
    compile(kernels, kHopper);
    FAIL() << "no error";
  } catch (const Error& error) {
    const std::string what = error.what();
    EXPECT_EQ(error.kind(), ErrorKind::Internal);
    EXPECT_NE(what.find("identifier \"no_such_function\" is undefined"), std::string::npos) << what;
    EXPECT_NE(what.find("void bad("), std::string::npos) << what;
  }
  EXPECT_NO_THROW(compile({kernels, 1}, kHopper));
}

TEST_F(CudaJit, AnArchitectureThatNvrtcDoesNotKnowIsNamed) {
  KernelSource kernel = map_kernel("old", "float", "a");
  EXPECT_THROW(compile({&kernel, 1}, 11), Error);
}

// The scalar functions are written for all compilers; the GPU's must take each of them at each type.
TEST_F(CudaJit, TakesEveryScalarFunction) {
  const std::vector<std::string> real = {"s_exp(a)",    "s_expm1(a)",  "s_log(a)",    "s_log1p(a)",      "s_tanh(a)",     "s_logistic(a)", "s_erf(a)",
                                         "s_erfc(a)",   "s_sin(a)",    "s_cos(a)",    "s_tan(a)",        "s_cbrt(a)",     "s_pow(a, b)",   "s_atan2(a, b)",
                                         "s_abs(a)",    "s_sign(a)",   "s_sqrt(a)",   "s_rsqrt(a)",      "s_rem(a, b)",   "s_floor(a)",    "s_ceil(a)",
                                         "s_max(a, b)", "s_min(a, b)", "s_div(a, b)", "s_round_even(a)", "s_round_afz(a)"};
  const std::vector<std::string> integer = {"s_abs(a)",    "s_sign(a)", "s_div(a, b)", "s_rem(a, b)", "s_pow(a, b)",
                                            "s_max(a, b)", "s_clz(a)",  "s_popcnt(a)", "s_xor(a, b)"};
  std::vector<KernelSource> kernels;
  auto add = [&](const char* type, const std::vector<std::string>& expressions) {
    KernelSource kernel{"all_" + std::string(type), "extern \"C\" __global__ void all_" + std::string(type) + "(const " + type + "* x, " + type +
                                                        "* y) {\nconst " + type + " a = x[0], b = x[1];\n"};
    for (size_t i = 0; i < expressions.size(); ++i) kernel.text += "y[" + std::to_string(i) + "] = s_convert<" + type + ">(" + expressions[i] + ");\n";
    kernel.text += "}\n";
    kernels.push_back(kernel);
  };
  for (const char* type : {"float", "double", "bf16_t", "f16_t"}) add(type, real);
  for (const char* type : {"int8_t", "int32_t", "int64_t", "uint64_t"}) add(type, integer);
  add("c64_t", {"s_exp(a)", "s_log(a)", "s_sqrt(a)", "s_tanh(a)", "s_pow(a, b)", "s_div(a, b)"});
  for (const Image& image : compile(kernels, kHopper)) EXPECT_GT(image->size(), 500u);
}

}  // namespace
}  // namespace thalweg::codegen::cuda
