// Conversions between double and every narrow float format (16, 8, 6 and 4 bits), rounding once to nearest even.
#pragma once

#include <cstdint>

#include "ir/dtype.h"

namespace thalweg::ir {

// The bits of `value` in the format of `dtype` (any Float dtype; f64 gives all 64 bits). Formats without infinities turn overflow into NaN;
// formats without NaN turn overflow into the largest finite value and NaN into negative zero.
uint64_t encode_float(DType dtype, double value);
// The value of `bits` in the format of `dtype`; exact.
double decode_float(DType dtype, uint64_t bits);

}  // namespace thalweg::ir
