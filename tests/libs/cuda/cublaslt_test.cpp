// Products on the GPU against sums in double, over element types, transposes, strides and batches.
#include "libs/cuda/cublaslt.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/staging.h"
#include "support/error.h"
#include "tests/libs/cuda/random_elements.h"
#include "tests/runtime/cuda/skip_without_gpu.h"

namespace thalweg::libs::cuda {
namespace {

Format format_of(ProductType element) {
  return element == ProductType::F64 ? Format::F64 : element == ProductType::F32 ? Format::F32 : element == ProductType::F16 ? Format::F16 : Format::BF16;
}

Elements random_matrix(std::mt19937& random, size_t count, ProductType element) { return random_elements(random, count, format_of(element)); }

double value(const std::vector<char>& bytes, size_t i, ProductType element) { return element_at(bytes, i, format_of(element)); }

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
    Elements a = random_matrix(random_, static_cast<size_t>((s.batch - 1) * s.stride_a + (s.trans_a ? s.k : s.m) * s.lda), s.element);
    Elements b = random_matrix(random_, static_cast<size_t>((s.batch - 1) * s.stride_b + (s.trans_b ? s.n : s.k) * s.ldb), s.element);
    Elements c = random_matrix(random_, static_cast<size_t>((s.batch - 1) * s.stride_c + s.m * s.ldc), s.result());
    runtime::Stream& stream = device_->compute_stream();
    runtime::BufferPtr on_device[3], scratch;
    Elements* const matrices[] = {&a, &b, &c};
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
  void compare(const ProductShape& s, const Elements& a, const Elements& b, const Elements& old, const std::vector<char>& got) {
    // Factors are exact in every type, TF32 included: what differs is the order of sums, and one rounding of the result.
    const ProductType type = s.result();
    const double tolerance = type == ProductType::F64 ? 1e-13 : type == ProductType::F32 ? 2e-6 : type == ProductType::BF16 ? 0x1p-8 : 0x1p-10;
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
          ASSERT_NEAR(value(got, at, type), want, tolerance * std::abs(want) + 2e-6 * size) << "entry " << e << ", row " << i << ", column " << j;
        }
    for (size_t i = 0; i < written.size(); ++i) {
      if (written[i]) continue;
      ASSERT_EQ(value(got, i, type), value(old.bytes, i, type)) << "between rows, element " << i;
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
      s.wide_result = element == ProductType::F16 || element == ProductType::BF16;
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
