// CHLO's functions of mathematics.
#include "interp/special_functions.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace thalweg::interp {
namespace {

using Real = long double;
constexpr Real kInfinity = std::numeric_limits<Real>::infinity(), kNan = std::numeric_limits<Real>::quiet_NaN();
constexpr Real kPi = std::numbers::pi_v<Real>;

// Newton's method on erf, on erfc where erf is flat.
Real erf_inv(Real x) {
  if (!(std::fabs(x) <= 1)) return kNan;
  if (std::fabs(x) == 1) return x * kInfinity;
  if (x == 0) return x;
  const Real a = std::fabs(x), log_term = std::log((1 - a) * (1 + a));
  const Real half = 2 / (kPi * 0.147L) + log_term / 2;
  Real y = std::sqrt(std::sqrt(half * half - log_term / 0.147L) - half);  // Winitzki's approximation to start from
  for (int i = 0; i < 6; ++i) {
    const Real error = a > 0.5L ? (1 - a) - std::erfc(y) : std::erf(y) - a;
    const Real slope = 2 / std::sqrt(kPi) * std::exp(-y * y);
    const Real step = error / slope;
    y -= step / (1 + y * step);
  }
  return x < 0 ? -y : y;
}

// Recurrence up to where the asymptotic series holds; reflection for negative numbers.
Real digamma(Real x) {
  if (x == 0) return std::signbit(x) ? kInfinity : -kInfinity;
  if (x < 0) return x == std::floor(x) ? kNan : digamma(1 - x) - kPi / std::tan(kPi * (x - std::floor(x)));
  if (std::isinf(x)) return x;
  Real sum = 0;
  for (; x < 20; ++x) sum -= 1 / x;
  const Real r = 1 / (x * x);
  const Real series = r * (1.0L / 12 - r * (1.0L / 120 - r * (1.0L / 252 - r * (1.0L / 240 - r * (1.0L / 132 - r * (691.0L / 32760 - r / 12))))));
  return sum + std::log(x) - 1 / (2 * x) - series;
}

// Bernoulli numbers B2, B4, … of Euler–Maclaurin sums.
constexpr Real kBernoulli[] = {1.0L / 6,       -1.0L / 30, 1.0L / 42,      -1.0L / 30,     5.0L / 66,
                               -691.0L / 2730, 7.0L / 6,   -3617.0L / 510, 43867.0L / 798, -174611.0L / 330};

// Hurwitz zeta: sum over k >= 0 of (k + q)^-s, by Euler–Maclaurin.
Real zeta(Real s, Real q) {
  if (std::isnan(s) || std::isnan(q) || s < 1) return kNan;
  if (s == 1) return kInfinity;
  if (q <= 0) {
    if (q == std::floor(q)) return std::fmod(s, 2.0L) == 0 ? kInfinity : kNan;
    if (s != std::floor(s)) return kNan;
  }
  Real sum = 0;
  int terms = 0;
  for (; terms < 30 || q < 30; ++terms, ++q) sum += std::pow(q, -s);
  sum += std::pow(q, 1 - s) / (s - 1) + std::pow(q, -s) / 2;
  Real factor = s, power = std::pow(q, -s - 1), factorial = 2;
  for (int k = 0; k < 10; ++k) {
    sum += kBernoulli[k] / factorial * factor * power;
    factor *= (s + 2 * k + 1) * (s + 2 * k + 2);
    power /= q * q;
    factorial *= static_cast<Real>((2 * k + 3) * (2 * k + 4));
  }
  return sum;
}

// The n-th derivative of digamma.
Real polygamma(Real n, Real x) {
  if (n < 0 || n != std::floor(n)) return kNan;
  if (n == 0) return digamma(x);
  const Real sign = std::fmod(n, 2.0L) == 0 ? -1 : 1;
  return sign * std::tgamma(n + 1) * zeta(n + 1, x);
}

// Exponentially scaled modified Bessel function of order one: series for small numbers, the integral by trapezoids, which converge fast, for others.
Real bessel_i1e(Real x) {
  const Real a = std::fabs(x);
  Real value = 0;
  if (std::isinf(x)) {
    value = 0;
  } else if (a < 12) {
    Real term = a / 2;
    for (int k = 1; k < 100; ++k) {
      value += term;
      term *= a * a / (4 * static_cast<Real>(k) * static_cast<Real>(k + 1));
    }
    value *= std::exp(-a);
  } else {
    const int n = 64 + static_cast<int>(12 * std::sqrt(std::min(a, 1e8L)));
    for (int k = 0; k <= n; ++k) {
      const Real angle = kPi * static_cast<Real>(k) / n, weight = k == 0 || k == n ? 0.5L : 1;
      value += weight * std::exp(a * (std::cos(angle) - 1)) * std::cos(angle);
    }
    value /= n;
  }
  return std::isnan(x) ? x : x < 0 ? -value : value;
}

Real conj(Real x) { return x; }
Real is_inf(Real x) { return std::isinf(x); }
Real is_pos_inf(Real x) { return x == kInfinity; }
Real is_neg_inf(Real x) { return x == -kInfinity; }
Real lgamma(Real x) { return std::lgamma(x); }

template <class Fn>
struct Row {
  std::string_view name;
  Fn function;
};

template <class Fn, size_t N>
Fn find(const Row<Fn> (&rows)[N], std::string_view name) {
  for (const auto& row : rows)
    if (row.name == name) return row.function;
  return nullptr;
}

constexpr Row<RealFn> kReal[] = {
    {"acos", std::acos},        {"acosh", std::acosh}, {"asin", std::asin}, {"asinh", std::asinh},      {"atan", std::atan},        {"atanh", std::atanh},
    {"cosh", std::cosh},        {"sinh", std::sinh},   {"tan", std::tan},   {"erf_inv", erf_inv},       {"lgamma", lgamma},         {"digamma", digamma},
    {"bessel_i1e", bessel_i1e}, {"conj", conj},        {"is_inf", is_inf},  {"is_pos_inf", is_pos_inf}, {"is_neg_inf", is_neg_inf},
};
constexpr Row<RealFn2> kReal2[] = {{"zeta", zeta}, {"polygamma", polygamma}};

Complex c_acos(Complex z) { return std::acos(z); }
Complex c_acosh(Complex z) { return std::acosh(z); }
Complex c_asin(Complex z) { return std::asin(z); }
Complex c_asinh(Complex z) { return std::asinh(z); }
Complex c_atan(Complex z) { return std::atan(z); }
Complex c_atanh(Complex z) { return std::atanh(z); }
Complex c_cosh(Complex z) { return std::cosh(z); }
Complex c_sinh(Complex z) { return std::sinh(z); }
Complex c_tan(Complex z) { return std::tan(z); }
Complex c_conj(Complex z) { return std::conj(z); }

constexpr Row<ComplexFn> kComplex[] = {
    {"acos", c_acos},   {"acosh", c_acosh}, {"asin", c_asin}, {"asinh", c_asinh}, {"atan", c_atan},
    {"atanh", c_atanh}, {"cosh", c_cosh},   {"sinh", c_sinh}, {"tan", c_tan},     {"conj", c_conj},
};

}  // namespace

RealFn real_function(std::string_view name) { return find(kReal, name); }
RealFn2 real_function_2(std::string_view name) { return find(kReal2, name); }
ComplexFn complex_function(std::string_view name) { return find(kComplex, name); }

}  // namespace thalweg::interp
