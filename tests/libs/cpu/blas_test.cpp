// Products against a plain triple loop in long double, over transposes, leading dimensions, alpha and beta, batches; the same bits with one thread and with
// several.
#include "libs/cpu/blas.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "libs/cpu/parallel.h"

namespace thalweg::libs::cpu {
namespace {

constexpr uint32_t kSeed = 4711;

template <class T>
std::vector<T> random_values(std::mt19937& random, int64_t count) {
  std::normal_distribution<T> normal;
  std::vector<T> v(static_cast<size_t>(count));
  for (T& x : v) x = normal(random);
  return v;
}

template <class T>
void check_product(std::mt19937& random, int64_t batch, bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, T alpha, T beta) {
  auto padding = [&] { return static_cast<int64_t>(random() % 4); };
  int64_t lda = (trans_a ? m : k) + padding(), ldb = (trans_b ? k : n) + padding(), ldc = n + padding();
  int64_t stride_a = lda * (trans_a ? k : m) + padding(), stride_b = ldb * (trans_b ? n : k) + padding(), stride_c = ldc * m + padding();
  auto a = random_values<T>(random, batch * stride_a + 1), b = random_values<T>(random, batch * stride_b + 1),
       c = random_values<T>(random, batch * stride_c + 1);
  auto before = c;
  if (batch == 1)
    gemm(trans_a, trans_b, m, n, k, alpha, a.data(), lda, b.data(), ldb, beta, c.data(), ldc);
  else
    gemm_batched(batch, trans_a, trans_b, m, n, k, alpha, a.data(), lda, stride_a, b.data(), ldb, stride_b, beta, c.data(), ldc, stride_c);
  for (int64_t i = 0; i < batch; ++i) {
    for (int64_t row = 0; row < m; ++row) {
      for (int64_t column = 0; column < n; ++column) {
        long double sum = 0, size = 0;
        for (int64_t j = 0; j < k; ++j) {
          long double x = a[i * stride_a + (trans_a ? j * lda + row : row * lda + j)], y = b[i * stride_b + (trans_b ? column * ldb + j : j * ldb + column)];
          sum += x * y, size += std::abs(x * y);
        }
        int64_t at = i * stride_c + row * ldc + column;
        long double want = alpha * sum + (beta == 0 ? 0 : beta * static_cast<long double>(before[at]));
        long double bound =
            (k + 3) * std::numeric_limits<T>::epsilon() * (std::abs(alpha) * size + std::abs(beta * before[at])) + std::numeric_limits<T>::min();
        ASSERT_LE(std::abs(c[at] - want), bound) << "m " << m << " n " << n << " k " << k << " at " << row << ", " << column << " seed " << kSeed;
        before[at] = c[at];
      }
    }
  }
  ASSERT_EQ(std::memcmp(c.data(), before.data(), c.size() * sizeof(T)), 0) << "wrote outside C";
}

TEST(Blas, AgreesWithLongDouble) {
  std::string detail;
  ASSERT_TRUE(blas_available(&detail)) << detail;
  std::printf("%s\n", detail.c_str());
  std::mt19937 random(kSeed);
  for (int i = 0; i < 60; ++i) {
    auto size = [&] { return 1 + static_cast<int64_t>(random() % (i % 3 ? 40 : 150)); };
    bool ta = random() & 1, tb = random() & 1;
    int64_t batch = i % 2 ? 1 : 1 + random() % 5;
    check_product<float>(random, batch, ta, tb, size(), size(), size(), i % 4 ? 1.0f : 0.3f, i % 3 ? 0.0f : 1.0f);
    check_product<double>(random, batch, ta, tb, size(), size(), size(), i % 4 ? 1.0 : -2.0, i % 3 ? 0.0 : 0.5);
  }
}

TEST(Blas, EmptyInnerDimensionGivesZero) {
  float c[6] = {1, 2, 3, 4, 5, 6}, x = 0;
  gemm(false, false, 2, 3, 0, 1.0f, &x, 1, &x, 3, 0.0f, c, 3);
  for (float v : c) EXPECT_EQ(v, 0.0f);
  gemm(false, false, 0, 3, 4, 1.0f, &x, 4, &x, 3, 0.0f, c, 3);
}

TEST(Blas, BitsDoNotDependOnThreads) {
  std::mt19937 random(kSeed);
  int before = threads();
  const int64_t shapes[][3] = {{2080, 192, 768}, {192, 768, 2080}, {130, 700, 64}, {65, 65, 64},
                               {1000, 10, 128},  {64, 128, 64},    {33, 900, 200}, {257, 129, 65}};
  for (auto [m, n, k] : shapes) {
    for (int flags = 0; flags < 4; ++flags) {
      bool ta = flags & 1, tb = flags & 2;
      auto a = random_values<float>(random, m * k), b = random_values<float>(random, k * n);
      std::vector<std::vector<float>> results;
      for (int count : {1, 2, 3, 4}) {
        set_threads(count);
        std::vector<float> c(static_cast<size_t>(m * n));
        gemm(ta, tb, m, n, k, 1.0f, a.data(), ta ? m : k, b.data(), tb ? k : n, 0.0f, c.data(), n);
        results.push_back(std::move(c));
      }
      for (size_t i = 1; i < results.size(); ++i)
        EXPECT_EQ(std::memcmp(results[0].data(), results[i].data(), results[0].size() * 4), 0)
            << m << " " << n << " " << k << " flags " << flags << " threads " << i + 1;
    }
  }
  set_threads(before);
}

}  // namespace
}  // namespace thalweg::libs::cpu
