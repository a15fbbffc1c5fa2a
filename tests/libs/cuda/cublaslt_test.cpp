// Products on the GPU against sums in double, over element types, transposes, strides and batches.
#include "libs/cuda/cublaslt.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/staging.h"
#include "support/error.h"
#include "tests/runtime/cuda/skip_without_gpu.h"

namespace thalweg::libs::cuda {
namespace {

// The nearest value with `bits` bits of fraction.
double rounded(double x, int bits) {
  int exponent = 0;
  const double fraction = std::frexp(x, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(fraction, bits + 1)), exponent - bits - 1);
}

struct Matrix {
  std::vector<double> values;
  std::vector<char> bytes;
};

// Of values that f16 and bf16 hold exactly, so that all types multiply the same numbers.
Matrix random_matrix(std::mt19937& random, size_t count, ProductType element) {
  Matrix made;
  std::normal_distribution<double> normal;
  for (size_t i = 0; i < count; ++i) {
    const double x = rounded(std::clamp(normal(random), -4.0, 4.0), 7) * (std::abs(normal(random)) < 0.01 ? 0 : 1);
    made.values.push_back(x);
    const float f = static_cast<float>(x);
    const uint32_t bits = std::bit_cast<uint32_t>(f);
    uint64_t code = std::bit_cast<uint64_t>(x);
    size_t bytes = 8;
    if (element == ProductType::F32) code = bits, bytes = 4;
    if (element == ProductType::BF16) code = bits >> 16, bytes = 2;
    if (element == ProductType::F16) {
      code = std::abs(x) < 0x1p-14 ? 0 : (bits >> 16 & 0x8000) | ((bits >> 13 & 0x3ffff) - (112u << 10));
      bytes = 2;
      if (code == 0) made.values.back() = 0;
    }
    made.bytes.insert(made.bytes.end(), reinterpret_cast<const char*>(&code), reinterpret_cast<const char*>(&code) + bytes);
  }
  return made;
}

double value(const std::vector<char>& bytes, size_t i, ProductType element) {
  auto get = [&](auto raw) {
    std::memcpy(&raw, bytes.data() + i * sizeof raw, sizeof raw);
    return raw;
  };
  if (element == ProductType::F64) return get(double{});
  if (element == ProductType::F32) return get(float{});
  const uint16_t code = get(uint16_t{});
  if (element == ProductType::BF16) return std::bit_cast<float>(static_cast<uint32_t>(code) << 16);
  const int exponent = code >> 10 & 31;
  const double size = exponent ? std::ldexp(1024 + (code & 1023), exponent - 25) : std::ldexp(code & 1023, -24);
  return code >> 15 ? -size : size;
}

class CublasLt : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_GPU();
    std::string why;
    if (!has_cublaslt(&why)) GTEST_SKIP() << why;
    seed_ = std::random_device{}();
    random_.seed(seed_);
    device_ = runtime::cuda::make_device();
  }
  void check(const ProductShape& s, bool measured = false) {
    SCOPED_TRACE("seed " + std::to_string(seed_));
    Matrix a = random_matrix(random_, static_cast<size_t>((s.batch - 1) * s.stride_a + (s.trans_a ? s.k : s.m) * s.lda), s.element);
    Matrix b = random_matrix(random_, static_cast<size_t>((s.batch - 1) * s.stride_b + (s.trans_b ? s.n : s.k) * s.ldb), s.element);
    Matrix c = random_matrix(random_, static_cast<size_t>((s.batch - 1) * s.stride_c + s.m * s.ldc), s.element);
    runtime::Stream& stream = device_->compute_stream();
    runtime::BufferPtr on_device[3], scratch;
    Matrix* const matrices[] = {&a, &b, &c};
    for (int i = 0; i < 3; ++i) {
      on_device[i] = stream.allocate(matrices[i]->bytes.size());
      runtime::cuda::copy_from_host(stream, on_device[i], 0, matrices[i]->bytes.data(), matrices[i]->bytes.size());
    }
    Product product(*device_, s);
    if (measured) product.measure(stream);
    scratch = stream.allocate(product.workspace_bytes());
    runtime::Submission(stream)
        .read(on_device[0])
        .read(on_device[1])
        .write(on_device[2])
        .write(scratch)
        .run([&, x = on_device[0]->data(), y = on_device[1]->data(), z = on_device[2]->data(), w = scratch->data()](void* native) {
          product.run(x, y, z, w, native);
        });
    std::vector<char> got(c.bytes.size());
    runtime::cuda::copy_to_host(stream, on_device[2], 0, got.data(), got.size());
    compare(s, a, b, c, got);
  }
  void compare(const ProductShape& s, const Matrix& a, const Matrix& b, const Matrix& old, const std::vector<char>& got) {
    // Factors are exact in every type, TF32 included: what differs is the order of sums, and one rounding of the result.
    const double tolerance = s.element == ProductType::F64 ? 1e-13 : s.element == ProductType::F32 ? 2e-6 : s.element == ProductType::BF16 ? 0x1p-8 : 0x1p-10;
    std::vector<bool> written(old.values.size());
    for (int64_t e = 0; e < s.batch; ++e)
      for (int64_t i = 0; i < s.m; ++i)
        for (int64_t j = 0; j < s.n; ++j) {
          double want = 0, size = 0;
          for (int64_t p = 0; p < s.k; ++p) {
            const double x = a.values[static_cast<size_t>(e * s.stride_a + (s.trans_a ? p * s.lda + i : i * s.lda + p))];
            const double y = b.values[static_cast<size_t>(e * s.stride_b + (s.trans_b ? j * s.ldb + p : p * s.ldb + j))];
            want += x * y, size += std::abs(x * y);
          }
          const size_t at = static_cast<size_t>(e * s.stride_c + i * s.ldc + j);
          written[at] = true;
          ASSERT_NEAR(value(got, at, s.element), want, tolerance * std::abs(want) + 2e-6 * size) << "entry " << e << ", row " << i << ", column " << j;
        }
    for (size_t i = 0; i < written.size(); ++i) {
      if (written[i]) continue;
      ASSERT_EQ(value(got, i, s.element), value(old.bytes, i, s.element)) << "between rows, element " << i;
    }
  }

  unsigned seed_ = 0;
  std::mt19937 random_;
  std::shared_ptr<runtime::Device> device_;
};

TEST_F(CublasLt, MultipliesEveryElementTypeAndTranspose) {
  for (const ProductType element : {ProductType::F32, ProductType::F64, ProductType::F16, ProductType::BF16})
    for (int transposes = 0; transposes < 4; ++transposes) {
      SCOPED_TRACE("element " + std::to_string(static_cast<int>(element)) + ", transposes " + std::to_string(transposes));
      ProductShape s;
      s.element = element, s.trans_a = transposes & 1, s.trans_b = transposes & 2;
      s.m = 48, s.n = 80, s.k = 96;
      s.lda = s.trans_a ? s.m : s.k, s.ldb = s.trans_b ? s.k : s.n, s.ldc = s.n;
      check(s);
    }
}

TEST_F(CublasLt, TakesBatchesGapsAndOddSizes) {
  ProductShape s;
  s.m = 7, s.n = 13, s.k = 5, s.batch = 3;
  s.lda = 9, s.ldb = 16, s.ldc = 15, s.stride_a = 70, s.stride_b = 0, s.stride_c = 120;
  check(s);
  s.element = ProductType::BF16, s.tf32 = false;
  check(s);
  s.element = ProductType::F32, s.tf32 = true, s.m = s.n = s.k = 64, s.lda = s.ldb = s.ldc = 64, s.stride_a = s.stride_b = s.stride_c = 64 * 64;
  check(s);
  s = {};
  check(s);
}

TEST_F(CublasLt, MeasuredAlgorithmsGiveTheSameAndAreKept) {
  ProductShape s;
  s.element = ProductType::BF16;
  s.m = 128, s.n = 192, s.k = 1024, s.lda = 1024, s.ldb = 192, s.ldc = 192;
  check(s, true);
  Product first(*device_, s), second(*device_, s);
  first.measure(device_->compute_stream());
  second.measure(device_->compute_stream());
  EXPECT_EQ(first.algorithm().code, second.algorithm().code);
}

TEST(CublasLtLoading, SaysItsVersionOrWhyNot) {
  std::string why;
  if (has_cublaslt(&why)) {
    EXPECT_TRUE(why.empty());
    EXPECT_GE(cublaslt_version(), 120000);
  } else {
    EXPECT_NE(why.find("cuBLASLt"), std::string::npos);
    EXPECT_THROW(cublaslt_version(), Error);
  }
}

}  // namespace
}  // namespace thalweg::libs::cuda
