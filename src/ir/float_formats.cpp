// Narrow float formats described by a few numbers each, and one encoder and decoder for all of them.
#include "ir/float_formats.h"

#include <bit>
#include <cmath>
#include <limits>

#include "support/error.h"

namespace thalweg::ir {
namespace {

// How a format spends its topmost codes: Ieee: infinities and NaNs; Fn: one NaN (all ones); Fnuz: NaN is the code of negative zero;
// Finite: neither; Scale: no sign, no zero, all ones is NaN.
enum class Specials { Ieee, Fn, Fnuz, Finite, Scale };

struct Format {
  int exponent_bits, mantissa_bits, bias;
  Specials specials;
  int sign_shift() const { return exponent_bits + mantissa_bits; }
  uint64_t all_ones() const { return (uint64_t{1} << sign_shift()) - 1; }
  uint64_t infinity() const { return ((uint64_t{1} << exponent_bits) - 1) << mantissa_bits; }
  uint64_t nan() const {
    if (specials == Specials::Ieee) return infinity() | (uint64_t{1} << (mantissa_bits - 1));
    if (specials == Specials::Fn || specials == Specials::Scale) return all_ones();
    return uint64_t{1} << sign_shift();  // Fnuz: the code of negative zero; Finite: has none, negative zero by convention
  }
  uint64_t largest() const {
    if (specials == Specials::Ieee) return infinity() - 1;
    if (specials == Specials::Fn || specials == Specials::Scale) return all_ones() - 1;
    return all_ones();
  }
};

Format format_of(DType dtype) {
  switch (dtype) {
    case DType::F4E2M1FN:
      return {2, 1, 1, Specials::Finite};
    case DType::F6E2M3FN:
      return {2, 3, 1, Specials::Finite};
    case DType::F6E3M2FN:
      return {3, 2, 3, Specials::Finite};
    case DType::F8E3M4:
      return {3, 4, 3, Specials::Ieee};
    case DType::F8E4M3:
      return {4, 3, 7, Specials::Ieee};
    case DType::F8E4M3FN:
      return {4, 3, 7, Specials::Fn};
    case DType::F8E4M3FNUZ:
      return {4, 3, 8, Specials::Fnuz};
    case DType::F8E4M3B11FNUZ:
      return {4, 3, 11, Specials::Fnuz};
    case DType::F8E5M2:
      return {5, 2, 15, Specials::Ieee};
    case DType::F8E5M2FNUZ:
      return {5, 2, 16, Specials::Fnuz};
    case DType::F8E8M0FNU:
      return {8, 0, 127, Specials::Scale};
    case DType::BF16:
      return {8, 7, 127, Specials::Ieee};
    case DType::F16:
      return {5, 10, 15, Specials::Ieee};
    default:
      raise(ErrorKind::Internal, "not a narrow float format: ", name(dtype));
  }
}

uint64_t overflow_code(const Format& f) {
  if (f.specials == Specials::Ieee) return f.infinity();
  return f.specials == Specials::Finite ? f.largest() : f.nan();
}

// Magnitude bits of a positive finite value.
uint64_t encode_magnitude(const Format& f, double magnitude) {
  int exponent;
  std::frexp(magnitude, &exponent);  // magnitude = [0.5, 1) * 2^exponent
  exponent -= 1;
  const int smallest = f.specials == Specials::Scale ? -f.bias : 1 - f.bias;
  const bool denormal = exponent < smallest;
  const int quantum = (denormal ? smallest : exponent) - f.mantissa_bits;
  const auto steps = static_cast<uint64_t>(std::nearbyint(std::ldexp(magnitude, -quantum)));
  if (denormal) return steps;  // may carry into the smallest normal, whose code follows
  const uint64_t field = static_cast<uint64_t>(exponent) + static_cast<uint64_t>(f.bias);
  return (field << f.mantissa_bits) + steps - (uint64_t{1} << f.mantissa_bits);
}

uint64_t encode_narrow(const Format& f, double value) {
  const uint64_t sign = std::signbit(value) && f.specials != Specials::Scale ? uint64_t{1} << f.sign_shift() : 0;
  if (std::isnan(value)) return f.specials == Specials::Ieee ? f.nan() | sign : f.nan();
  if (f.specials == Specials::Scale && value < 0) return f.nan();
  if (value == 0) return f.specials == Specials::Fnuz ? 0 : sign;
  if (std::isinf(value)) return f.specials == Specials::Fnuz ? f.nan() : overflow_code(f) | sign;
  const uint64_t bits = encode_magnitude(f, std::fabs(value));
  if (bits > f.largest()) return f.specials == Specials::Fnuz ? f.nan() : overflow_code(f) | sign;
  if (bits == 0 && f.specials == Specials::Fnuz) return 0;
  return bits | sign;
}

double decode_narrow(const Format& f, uint64_t bits) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const bool negative = f.specials != Specials::Scale && ((bits >> f.sign_shift()) & 1);
  const uint64_t magnitude = bits & f.all_ones();
  if (f.specials == Specials::Scale) return magnitude == f.all_ones() ? nan : std::ldexp(1.0, static_cast<int>(magnitude) - f.bias);
  if (f.specials == Specials::Fnuz && negative && magnitude == 0) return nan;
  if (f.specials == Specials::Fn && magnitude == f.all_ones()) return nan;
  double value;
  if (f.specials == Specials::Ieee && magnitude >= f.infinity()) {
    value = magnitude == f.infinity() ? std::numeric_limits<double>::infinity() : nan;
  } else {
    const auto field = static_cast<int>(magnitude >> f.mantissa_bits);
    const uint64_t fraction = magnitude & ((uint64_t{1} << f.mantissa_bits) - 1);
    const uint64_t steps = field == 0 ? fraction : fraction | (uint64_t{1} << f.mantissa_bits);
    value = std::ldexp(static_cast<double>(steps), (field == 0 ? 1 : field) - f.bias - f.mantissa_bits);
  }
  return negative ? -value : value;
}

}  // namespace

uint64_t encode_float(DType dtype, double value) {
  if (dtype == DType::F64) return std::bit_cast<uint64_t>(value);
  if (dtype == DType::F32) return std::bit_cast<uint32_t>(static_cast<float>(value));
  return encode_narrow(format_of(dtype), value);
}

double decode_float(DType dtype, uint64_t bits) {
  if (dtype == DType::F64) return std::bit_cast<double>(bits);
  if (dtype == DType::F32) return std::bit_cast<float>(static_cast<uint32_t>(bits));
  return decode_narrow(format_of(dtype), bits);
}

}  // namespace thalweg::ir
