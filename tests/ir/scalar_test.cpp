// The scalar functions against the C library in long double: f32 within 2 ULP over random bits and edges, special values exact, conversions and 16-bit rounding
// exact.
#include "ir/scalar.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <vector>

namespace thalweg::scalar {
namespace {

constexpr uint32_t kSeed = 20260;
constexpr float kInf = std::numeric_limits<float>::infinity();
const float kEdges[] = {0.0f,          -0.0f,       1.0f,        -1.0f,       0.5f,        -0.5f,           2.0f,        -2.0f,      kInf,         -kInf,
                        std::nanf(""), 1e-45f,      -1e-45f,     1e-38f,      -1e-38f,     1.17549435e-38f, 3.4e38f,     -3.4e38f,   88.7f,        88.73f,
                        89.5f,         -87.4f,      -103.9f,     -104.1f,     3.0f,        -3.0f,           0.92187494f, 0.921875f,  3.92f,        3.94f,
                        16777216.0f,   16777217.0f, 0.70710677f, 0.70710683f, 1.4142135f,  1.4142137f,      0.99999994f, 1.0000001f, -0.99999994f, 9.01f,
                        9.6f,          1e10f,       1e30f,       0.78539819f, 1.57079637f, 3.14159274f};

// Distance in units of the last place; NaN agrees with NaN; zeros must agree in sign.
double ulps(float got, long double want) {
  if (std::isnan(want)) return std::isnan(got) ? 0 : 1e9;
  float nearest = static_cast<float>(want);
  if (std::isinf(nearest) || nearest == 0) {
    if (got == nearest && std::signbit(got) == std::signbit(nearest)) return 0;
    if (std::isnan(got)) return 1e9;
  }
  if (std::isnan(got)) return 1e9;
  if (std::isinf(got)) got = std::copysign(std::ldexp(1.0f, 127), got), want = std::abs(want) > 3.4e38L ? static_cast<long double>(got) : want;
  int exponent;
  std::frexp(want, &exponent);
  long double place = std::ldexp(1.0L, std::max(exponent - 24, -149));
  return static_cast<double>(std::abs(static_cast<long double>(got) - want) / place);
}

std::vector<float> inputs(int count) {
  std::mt19937 bits(kSeed);
  std::vector<float> v(std::begin(kEdges), std::end(kEdges));
  std::uniform_real_distribution<float> near(-10.0f, 10.0f);
  for (int i = 0; i < count; ++i) {
    v.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits())));
    v.push_back(near(bits));
    v.push_back(1.0f + 0.01f * near(bits));
  }
  return v;
}

struct Case {
  const char* name;
  float (*ours)(float);
  std::function<long double(long double)> reference;
  double limit;
};

TEST(Scalar, F32FunctionsAreWithinTwoUlp) {
  auto logistic = [](long double x) { return 1 / (1 + std::exp(-x)); };
  auto rsqrt = [](long double x) { return 1 / std::sqrt(x); };
#define THALWEG_CASE(f, reference) Case{#f, [](float a) { return f(a); }, [](long double x) -> long double { return reference; }, 2.0}
  const Case cases[] = {THALWEG_CASE(s_exp, std::exp(x)),
                        THALWEG_CASE(s_expm1, std::expm1(x)),
                        THALWEG_CASE(s_log, std::log(x)),
                        THALWEG_CASE(s_log1p, std::log1p(x)),
                        {"s_tanh", [](float a) { return s_tanh(a); }, [](long double x) { return std::tanh(x); }, 2.5},
                        THALWEG_CASE(s_erf, std::erf(x)),
                        THALWEG_CASE(s_erfc, std::erfc(x)),
                        THALWEG_CASE(s_sin, std::sin(x)),
                        THALWEG_CASE(s_cos, std::cos(x)),
                        THALWEG_CASE(s_cbrt, std::cbrt(x)),
                        {"s_logistic", [](float a) { return s_logistic(a); }, logistic, 2.5},
                        {"s_rsqrt", [](float a) { return s_rsqrt(a); }, rsqrt, 2.0},
                        {"s_tan", [](float a) { return s_tan(a); }, [](long double x) { return std::tan(x); }, 2.0}};
#undef THALWEG_CASE
  auto values = inputs(60000);
  for (const Case& c : cases) {
    double worst = 0;
    float at = 0;
    for (float x : values)
      if (double e = ulps(c.ours(x), c.reference(x)); e > worst) worst = e, at = x;
    std::printf("%-12s worst %.3f ULP at %a (seed %u)\n", c.name, worst, at, kSeed);
    EXPECT_LE(worst, c.limit) << c.name << " at " << at << ": " << c.ours(at) << " for " << static_cast<double>(c.reference(at));
  }
}

TEST(Scalar, F32PowIsWithinTwoUlp) {
  std::mt19937 random(kSeed);
  std::uniform_real_distribution<float> small(-20.0f, 20.0f), positive(0.0f, 4.0f);
  double worst = 0;
  auto check = [&](float x, float y) {
    double e = ulps(s_pow(x, y), std::pow(static_cast<long double>(x), static_cast<long double>(y)));
    EXPECT_LE(e, 2.0) << x << " ^ " << y << " gave " << s_pow(x, y) << " for " << std::pow(x, y);
    worst = std::max(worst, e);
  };
  for (float x : kEdges)
    for (float y : kEdges) check(x, y);
  for (int i = 0; i < 100000; ++i) {
    check(positive(random), small(random));
    check(std::bit_cast<float>(static_cast<uint32_t>(random())), small(random));
    check(small(random), static_cast<float>(static_cast<int>(small(random))));
  }
  std::printf("s_pow worst %.3f ULP (seed %u)\n", worst, kSeed);
}

TEST(Scalar, MaximumAndMinimumOrderZerosAndKeepNan) {
  float nan = std::nanf("");
  EXPECT_FALSE(std::signbit(s_max(0.0f, -0.0f)));
  EXPECT_FALSE(std::signbit(s_max(-0.0f, 0.0f)));
  EXPECT_TRUE(std::signbit(s_min(0.0f, -0.0f)));
  EXPECT_TRUE(std::signbit(s_min(-0.0f, 0.0f)));
  for (float x : kEdges) {
    EXPECT_TRUE(std::isnan(s_max(x, nan)) && std::isnan(s_max(nan, x)) && std::isnan(s_min(x, nan)) && std::isnan(s_min(nan, x)));
    for (float y : kEdges) {
      if (std::isnan(x) || std::isnan(y) || x == y) continue;
      EXPECT_EQ(s_max(x, y), std::max(x, y));
      EXPECT_EQ(s_min(x, y), std::min(x, y));
    }
  }
}

TEST(Scalar, SixteenBitConversionsRoundToNearestEven) {
  for (uint32_t b = 0; b < 65536; ++b) {
    auto h = static_cast<uint16_t>(b);
    float wide = to_float(f16_t{h}), brain = to_float(bf16_t{h});
    int exponent = h >> 10 & 31, fraction = h & 1023;
    float want =
        exponent == 31 ? (fraction ? std::nanf("") : kInf) : std::ldexp(static_cast<float>(fraction + (exponent ? 1024 : 0)), std::max(exponent, 1) - 25);
    if (h >> 15) want = -want;
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(wide));
    } else {
      EXPECT_EQ(std::bit_cast<uint32_t>(wide), std::bit_cast<uint32_t>(want));
      EXPECT_EQ(to_f16(wide).bits, h);
    }
    if (!std::isnan(brain)) {
      EXPECT_EQ(to_bf16(brain).bits, h);
    }
  }
  // Halfway and next to halfway between neighbours, from double, from float and from integers.
  auto nearest = [](double x, auto decode, uint16_t guess) {
    double best = 1e300;
    uint16_t answer = 0;
    for (int d = -2; d <= 2; ++d) {
      auto c = static_cast<uint16_t>(guess + d);
      double distance = std::abs(static_cast<double>(decode(c)) - x);
      if (distance < best || (distance == best && !(c & 1))) best = distance, answer = c;
    }
    return answer;
  };
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < 200000; ++i) {
    auto h = static_cast<uint16_t>(random() % 0x7b00);  // finite in both formats' positive range
    auto as_f16 = [](uint16_t c) { return to_float(f16_t{c}); };
    auto as_bf16 = [](uint16_t c) { return to_float(bf16_t{c}); };
    double middle = (static_cast<double>(as_f16(h)) + as_f16(h + 1)) / 2, middle_b = (static_cast<double>(as_bf16(h)) + as_bf16(h + 1)) / 2;
    for (double nudge : {-0x1p-45, 0.0, 0x1p-45}) {
      double x = middle * (1 + nudge), y = middle_b * (1 + nudge);
      ASSERT_EQ(s_convert<f16_t>(x).bits, nearest(x, as_f16, h)) << x;
      ASSERT_EQ(s_convert<bf16_t>(y).bits, nearest(y, as_bf16, h)) << y;
      ASSERT_EQ(to_f16(static_cast<float>(x)).bits, nearest(static_cast<float>(x), as_f16, h)) << x;
    }
    int64_t n = static_cast<int64_t>(random()) >> (random() % 63);
    if (n == 0) continue;
    long double distance = std::abs(static_cast<long double>(to_float(s_convert<bf16_t>(n))) - n);
    for (int d : {-1, 1}) {
      uint16_t c = static_cast<uint16_t>(s_convert<bf16_t>(n).bits + d);
      ASSERT_LE(distance, std::abs(static_cast<long double>(as_bf16(c)) - n)) << n;
    }
  }
}

template <class To, class From>
void check_saturation() {
  using Limits = std::numeric_limits<To>;
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < 50000; ++i) {
    From x = i < static_cast<int>(std::size(kEdges)) ? static_cast<From>(kEdges[i])
             : i % 2 ? static_cast<From>(std::ldexp(static_cast<double>(static_cast<int64_t>(random())), -static_cast<int>(random() % 70)))
                     : std::bit_cast<From>(static_cast<unsigned_of<From>>(random()));
    long double cut = std::trunc(static_cast<long double>(x));
    To want = std::isnan(x)                                    ? To(0)
              : cut <= static_cast<long double>(Limits::min()) ? Limits::min()
              : cut >= static_cast<long double>(Limits::max()) ? Limits::max()
                                                               : static_cast<To>(cut);
    ASSERT_EQ(s_convert<To>(x), want) << static_cast<double>(x) << " to " << sizeof(To) << " bytes";
  }
}
TEST(Scalar, FloatsConvertToIntegersSaturating) {
  check_saturation<int8_t, float>();
  check_saturation<uint8_t, float>();
  check_saturation<int16_t, float>();
  check_saturation<uint16_t, double>();
  check_saturation<int32_t, float>();
  check_saturation<uint32_t, float>();
  check_saturation<int64_t, float>();
  check_saturation<uint64_t, float>();
  check_saturation<int8_t, double>();
  check_saturation<int32_t, double>();
  check_saturation<uint32_t, double>();
  check_saturation<int64_t, double>();
  check_saturation<uint64_t, double>();
  EXPECT_TRUE(s_convert<bool>(std::nanf("")));
  EXPECT_FALSE(s_convert<bool>(-0.0f));
}

TEST(Scalar, IntegersWrapAndDivideByZero) {
  constexpr int32_t low = std::numeric_limits<int32_t>::min();
  EXPECT_EQ(s_add(std::numeric_limits<int32_t>::max(), 1), low);
  EXPECT_EQ(s_mul(uint16_t{65535}, uint16_t{65535}), 1);
  EXPECT_EQ(s_div(low, -1), low);
  EXPECT_EQ(s_rem(low, -1), 0);
  EXPECT_EQ(s_div(7, 0), -1);
  EXPECT_EQ(s_rem(7, 0), 7);
  EXPECT_EQ(s_rem(-7, 3), -1);
  EXPECT_EQ(s_shl(1, 32), 0);
  EXPECT_EQ(s_sra(-8, 40), -1);
  EXPECT_EQ(s_srl(int8_t{-1}, int8_t{4}), 15);
  EXPECT_EQ(s_clz(int16_t{0}), 16);
  EXPECT_EQ(s_clz(uint8_t{1}), 7);
  EXPECT_EQ(s_popcnt(int8_t{-1}), 8);
  EXPECT_EQ(s_pow(int64_t{3}, int64_t{5}), 243);
  EXPECT_EQ(s_pow(-1, -3), -1);
  EXPECT_EQ(s_abs(low), low);
}

TEST(Scalar, PhiloxGivesTheKnownAnswerOfAllZeros) {
  // Philox4x32-10's published answer for key 0 and counter 0.
  const uint32_t want[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  for (unsigned i = 0; i < 4; ++i) EXPECT_EQ(s_philox_u32(0, 0, i), want[i]);
  for (unsigned i = 0; i < 64; ++i) EXPECT_EQ(s_philox_u32(7, 3, i), s_philox_u32(7, 0, i + 12));
}

TEST(Scalar, ReducePrecisionMatchesTheFormatItNames) {
  std::mt19937 random(kSeed);
  for (int i = 0; i < 100000; ++i) {
    float x = std::bit_cast<float>(static_cast<uint32_t>(random()));
    float brain = s_reduce_precision(x, 8, 7), want = to_float(to_bf16(x));
    if (std::isnan(x) || (want != 0 && std::abs(want) < 0x1p-126f)) continue;  // denormals are kept when the exponent is
    ASSERT_EQ(std::bit_cast<uint32_t>(brain), std::bit_cast<uint32_t>(want));
    float half = s_reduce_precision(x, 5, 10), want_half = to_float(to_f16(x));
    if (std::abs(want_half) >= 0x1p-14f) {
      ASSERT_EQ(half, want_half) << x;
    }
  }
}

}  // namespace
}  // namespace thalweg::scalar
