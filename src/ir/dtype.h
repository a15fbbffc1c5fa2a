// Element types of tensors: names, sizes, classes.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace thalweg::ir {

// The element types of StableHLO; see dtypes.def.
enum class DType : uint8_t {
#define THALWEG_DTYPE(name, text, bits, cls) name,
#include "ir/dtypes.def"
#undef THALWEG_DTYPE
};

// What kind of numbers a dtype holds.
enum class DTypeClass : uint8_t { Bool, Signed, Unsigned, Float, Complex };

// StableHLO's spelling, e.g. "f32", "ui8", "complex<f32>".
std::string_view name(DType dtype);
// The dtype spelled `text`, or nothing.
std::optional<DType> parse_dtype(std::string_view text);
// Bytes of one element in memory (1 for i1 and all sub-byte types).
int64_t byte_size(DType dtype);
DTypeClass dtype_class(DType dtype);
inline bool is_float(DType d) { return dtype_class(d) == DTypeClass::Float; }
inline bool is_complex(DType d) { return dtype_class(d) == DTypeClass::Complex; }
inline bool is_integer(DType d) { return dtype_class(d) == DTypeClass::Signed || dtype_class(d) == DTypeClass::Unsigned; }
// f32 for complex<f32>, f64 for complex<f64>, else the dtype itself.
DType real_dtype(DType dtype);

}  // namespace thalweg::ir
