// Factors multiplied out again, and systems put back in: residuals in long double, for every form and element type.
#include "libs/cpu/lapack.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <random>
#include <vector>

namespace thalweg::libs::cpu {
namespace {

using Long = std::complex<long double>;

constexpr uint32_t kSeed = 1848;

template <class T>
struct Kind;
template <>
struct Kind<float> {
  static constexpr Number number = Number::F32;
  static constexpr double epsilon = 1e-5;
};
template <>
struct Kind<double> {
  static constexpr Number number = Number::F64;
  static constexpr double epsilon = 1e-12;
};
template <>
struct Kind<std::complex<float>> {
  static constexpr Number number = Number::C64;
  static constexpr double epsilon = 1e-5;
};
template <>
struct Kind<std::complex<double>> {
  static constexpr Number number = Number::C128;
  static constexpr double epsilon = 1e-12;
};

template <class T>
T random_number(std::mt19937& random) {
  std::normal_distribution<double> normal;
  if constexpr (std::is_floating_point_v<T>)
    return static_cast<T>(normal(random));
  else
    return T(std::complex<double>(normal(random), normal(random)));
}

template <class T>
class LapackTest : public ::testing::Test {};
using Types = ::testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(LapackTest, Types);

TYPED_TEST(LapackTest, FactorsMultiplyToTheMatrix) {
  using T = TypeParam;
  std::mt19937 random(kSeed);
  constexpr int64_t batch = 3, n = 9;
  for (bool lower : {false, true}) {
    std::vector<T> a(batch * n * n), factor(a.size());
    for (int64_t m = 0; m < batch; ++m) {
      std::vector<T> x(n * n);
      for (T& value : x) value = random_number<T>(random);
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < n; ++j) {
          Long sum = i == j ? 4 : 0;
          for (int64_t k = 0; k < n; ++k) sum += Long(x[i * n + k]) * std::conj(Long(x[j * n + k]));
          if constexpr (std::is_floating_point_v<T>)
            a[m * n * n + i * n + j] = static_cast<T>(sum.real());
          else
            a[m * n * n + i * n + j] = T(sum);
        }
    }
    cholesky(Kind<T>::number, batch, n, lower, a.data(), factor.data());
    for (int64_t m = 0; m < batch; ++m)
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < n; ++j) {
          auto f = [&](int64_t r, int64_t c) { return Long(factor[m * n * n + r * n + c]); };
          Long sum = 0;
          for (int64_t k = 0; k < n; ++k) sum += lower ? f(i, k) * std::conj(f(j, k)) : std::conj(f(k, i)) * f(k, j);
          EXPECT_LT(std::abs(sum - Long(a[m * n * n + i * n + j])), Kind<T>::epsilon * 30);
          if (lower ? j > i : j < i) {
            EXPECT_EQ(f(i, j), Long(0));
          }
        }
  }
}

TYPED_TEST(LapackTest, AMatrixThatIsNotPositiveGivesNan) {
  using T = TypeParam;
  std::vector<T> a{T(1), T(2), T(2), T(1)}, factor(4);
  cholesky(Kind<T>::number, 1, 2, true, a.data(), factor.data());
  for (const T& value : factor) EXPECT_TRUE(std::isnan(std::real(value)));
}

TYPED_TEST(LapackTest, SystemsOfEveryForm) {
  using T = TypeParam;
  using Form = TriangularSystem::Form;
  std::mt19937 random(kSeed);
  for (int form = 0; form < 24; ++form) {
    TriangularSystem s{2, 5, 7, (form & 1) != 0, (form & 2) != 0, (form & 4) != 0, static_cast<Form>(form / 8)};
    const int64_t n = s.left ? s.rows : s.columns;
    std::vector<T> a(static_cast<size_t>(s.batch * n * n)), b(static_cast<size_t>(s.batch * s.rows * s.columns)), x(b.size());
    for (T& value : a) value = random_number<T>(random) * T(0.3);
    for (int64_t m = 0; m < s.batch; ++m)
      for (int64_t i = 0; i < n; ++i) a[static_cast<size_t>(m * n * n + i * n + i)] += T(3);
    for (T& value : b) value = random_number<T>(random);
    triangular_solve(Kind<T>::number, s, a.data(), b.data(), x.data());
    for (int64_t m = 0; m < s.batch; ++m) {
      auto stored = [&](int64_t i, int64_t j) {
        if (i == j && s.unit) return Long(1);
        return (s.lower ? j > i : j < i) ? Long(0) : Long(a[static_cast<size_t>(m * n * n + i * n + j)]);
      };
      auto op = [&](int64_t i, int64_t j) {
        return s.form == Form::Plain ? stored(i, j) : s.form == Form::Transposed ? stored(j, i) : std::conj(stored(j, i));
      };
      for (int64_t r = 0; r < s.rows; ++r)
        for (int64_t c = 0; c < s.columns; ++c) {
          auto at = [&](int64_t i, int64_t j) { return Long(x[static_cast<size_t>((m * s.rows + i) * s.columns + j)]); };
          Long sum = 0;
          for (int64_t k = 0; k < n; ++k) sum += s.left ? op(r, k) * at(k, c) : at(r, k) * op(k, c);
          EXPECT_LT(std::abs(sum - Long(b[static_cast<size_t>((m * s.rows + r) * s.columns + c)])), Kind<T>::epsilon * 20) << "form " << form;
        }
    }
  }
}

}  // namespace
}  // namespace thalweg::libs::cpu
