// Narrow floats: every code decodes and encodes back, and rounding picks the nearest code, ties to even.
#include "ir/float_formats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace thalweg::ir {
namespace {

constexpr DType kNarrow[] = {DType::F4E2M1FN,      DType::F6E2M3FN, DType::F6E3M2FN,   DType::F8E3M4,    DType::F8E4M3, DType::F8E4M3FN, DType::F8E4M3FNUZ,
                             DType::F8E4M3B11FNUZ, DType::F8E5M2,   DType::F8E5M2FNUZ, DType::F8E8M0FNU, DType::BF16,   DType::F16};

int bits_of(DType dtype) {
  return dtype == DType::F4E2M1FN ? 4 : dtype == DType::F6E2M3FN || dtype == DType::F6E3M2FN ? 6 : static_cast<int>(8 * byte_size(dtype));
}

TEST(FloatFormats, EveryCodeRoundTrips) {
  for (DType dtype : kNarrow) {
    for (uint64_t code = 0; code < uint64_t{1} << bits_of(dtype); ++code) {
      const double value = decode_float(dtype, code);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(decode_float(dtype, encode_float(dtype, value)))) << name(dtype) << " " << code;
      } else {
        EXPECT_EQ(encode_float(dtype, value), code) << name(dtype) << " value " << value;
      }
    }
  }
}

TEST(FloatFormats, RoundsToNearestEven) {
  std::mt19937_64 random(20261130);
  for (DType dtype : kNarrow) {
    // All finite values in order, with their codes.
    std::vector<std::pair<double, uint64_t>> values;
    for (uint64_t code = 0; code < uint64_t{1} << bits_of(dtype); ++code)
      if (std::isfinite(decode_float(dtype, code)) && decode_float(dtype, code) > 0) values.emplace_back(decode_float(dtype, code), code);
    std::sort(values.begin(), values.end());
    for (int i = 0; i < 2000; ++i) {
      const size_t k = random() % (values.size() - 1);
      const auto [low, low_code] = values[k];
      const auto [high, high_code] = values[k + 1];
      const double middle = low + (high - low) / 2;
      const bool down = low_code % 2 == 0 && dtype != DType::F8E8M0FNU;  // a significand of one bit is always odd: ties go up
      EXPECT_EQ(encode_float(dtype, middle), down ? low_code : high_code) << name(dtype) << " " << middle;
      EXPECT_EQ(encode_float(dtype, std::nextafter(middle, low)), low_code);
      EXPECT_EQ(encode_float(dtype, std::nextafter(middle, high)), high_code);
    }
  }
}

TEST(FloatFormats, KnownValues) {
  EXPECT_EQ(encode_float(DType::BF16, 1.0), 0x3F80u);
  EXPECT_EQ(encode_float(DType::F16, 65504.0), 0x7BFFu);
  EXPECT_EQ(encode_float(DType::F16, 65520.0), 0x7C00u);  // halfway to the next: infinity
  EXPECT_EQ(encode_float(DType::F8E4M3FN, 448.0), 0x7Eu);
  EXPECT_TRUE(std::isnan(decode_float(DType::F8E4M3FN, encode_float(DType::F8E4M3FN, 1e9))));
  EXPECT_EQ(encode_float(DType::F8E5M2, -57344.0), 0xFBu);
  EXPECT_EQ(encode_float(DType::F4E2M1FN, 100.0), 7u);
  EXPECT_EQ(encode_float(DType::F8E4M3FNUZ, -0.0), 0u);
}

}  // namespace
}  // namespace thalweg::ir
