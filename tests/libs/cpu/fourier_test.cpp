// Fourier transforms against their definition in long double, for lengths of every kind of factor; dims, real forms, threads.
#include "libs/cpu/fourier.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numbers>
#include <random>

#include "libs/cpu/parallel.h"

namespace thalweg::libs::cpu {
namespace {

using Complex = std::complex<double>;

constexpr uint32_t kSeed = 815;

std::vector<Complex> random_values(std::mt19937& random, int64_t n) {
  std::normal_distribution<double> normal;
  std::vector<Complex> values;
  for (int64_t i = 0; i < n; ++i) values.emplace_back(normal(random), normal(random));
  return values;
}

std::vector<Complex> defined(const std::vector<Complex>& x, bool inverse) {
  using Long = std::complex<long double>;
  const auto n = static_cast<int64_t>(x.size());
  std::vector<Complex> out;
  for (int64_t k = 0; k < n; ++k) {
    Long sum = 0;
    for (int64_t j = 0; j < n; ++j) {
      const long double angle = (inverse ? 2 : -2) * std::numbers::pi_v<long double> * static_cast<long double>(j * k % n) / static_cast<long double>(n);
      sum += Long(x[static_cast<size_t>(j)]) * Long(std::cos(angle), std::sin(angle));
    }
    if (inverse) sum /= static_cast<long double>(n);
    out.emplace_back(static_cast<double>(sum.real()), static_cast<double>(sum.imag()));
  }
  return out;
}

void expect_near(const std::vector<Complex>& got, const std::vector<Complex>& want, int64_t n) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t k = 0; k < want.size(); ++k)
    ASSERT_LT(std::abs(got[k] - want[k]), 1e-13 * std::sqrt(static_cast<double>(n)) * 8) << "length " << n << " at " << k;
}

TEST(Fourier, LengthsOfEveryFactor) {
  std::mt19937 random(kSeed);
  std::vector<Complex> scratch;
  for (int64_t n : {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 16, 30, 31, 37, 49, 60, 64, 97, 101, 128, 169, 210, 254, 360, 509, 512}) {
    const FourierTransform transform(n);
    for (bool inverse : {false, true}) {
      const auto x = random_values(random, n);
      auto got = x;
      transform.run(got.data(), inverse, scratch);
      expect_near(got, defined(x, inverse), n);
    }
  }
}

TEST(Fourier, AnyDimsAndTheSameBitsWithAnyThreads) {
  std::mt19937 random(kSeed);
  const std::vector<int64_t> dims{3, 10, 12, 14};
  const auto x = random_values(random, 3 * 10 * 12 * 14);
  std::vector<Complex> once(x.size()), back(x.size());
  const int before = threads();
  set_threads(1);
  fourier(Fourier::Forward, true, dims, 3, 14, x.data(), once.data());
  set_threads(2);
  std::vector<Complex> twice(x.size());
  fourier(Fourier::Forward, true, dims, 3, 14, x.data(), twice.data());
  set_threads(before);
  EXPECT_EQ(std::memcmp(once.data(), twice.data(), once.size() * sizeof(Complex)), 0);
  fourier(Fourier::Inverse, true, dims, 3, 14, once.data(), back.data());
  expect_near(back, x, 14);
  // One element by the definition.
  Complex sum = 0;
  for (int64_t a = 0; a < 10; ++a)
    for (int64_t b = 0; b < 12; ++b)
      for (int64_t c = 0; c < 14; ++c)
        sum += x[static_cast<size_t>(((10 + a) * 12 + b) * 14 + c)] *
               std::polar(1.0, -2 * std::numbers::pi * (static_cast<double>(a * 3) / 10 + static_cast<double>(b * 5) / 12 + static_cast<double>(c * 9) / 14));
  EXPECT_LT(std::abs(once[static_cast<size_t>(((10 + 3) * 12 + 5) * 14 + 9)] - sum), 1e-11);
}

TEST(Fourier, RealFormsAreHalfOfTheComplexOnes) {
  std::mt19937 random(kSeed);
  for (int64_t n : {1, 2, 7, 16, 15}) {
    std::vector<float> x;
    std::vector<Complex> full;
    for (const Complex& value : random_values(random, 4 * n)) x.push_back(static_cast<float>(value.real())), full.emplace_back(x.back(), 0);
    std::vector<std::complex<float>> half(static_cast<size_t>(4 * (n / 2 + 1)));
    fourier(Fourier::RealForward, false, {4, n}, 1, n, x.data(), half.data());
    for (int64_t row = 0; row < 4; ++row) {
      const auto want = defined({full.begin() + row * n, full.begin() + (row + 1) * n}, false);
      for (int64_t k = 0; k <= n / 2; ++k)
        EXPECT_LT(std::abs(Complex(half[static_cast<size_t>(row * (n / 2 + 1) + k)]) - want[static_cast<size_t>(k)]), 1e-6 * static_cast<double>(n)) << n;
    }
    std::vector<float> back(x.size());
    fourier(Fourier::RealInverse, false, {4, n / 2 + 1}, 1, n, half.data(), back.data());
    for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(back[i], x[i], 2e-6) << n;
  }
}

}  // namespace
}  // namespace thalweg::libs::cpu
