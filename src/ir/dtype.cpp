// The dtype table's accessors.
#include "ir/dtype.h"

namespace thalweg::ir {
namespace {

struct Row {
  std::string_view text;
  int bits;
  DTypeClass cls;
};

constexpr Row kRows[] = {
#define THALWEG_DTYPE(name, text, bits, cls) {text, bits, DTypeClass::cls},
#include "ir/dtypes.def"
#undef THALWEG_DTYPE
};

}  // namespace

std::string_view name(DType dtype) { return kRows[static_cast<int>(dtype)].text; }

std::optional<DType> parse_dtype(std::string_view text) {
  for (int i = 0; i < static_cast<int>(std::size(kRows)); ++i)
    if (kRows[i].text == text) return static_cast<DType>(i);
  return std::nullopt;
}

int64_t byte_size(DType dtype) { return kRows[static_cast<int>(dtype)].bits / 8; }

DTypeClass dtype_class(DType dtype) { return kRows[static_cast<int>(dtype)].cls; }

DType real_dtype(DType dtype) {
  if (dtype == DType::C64) return DType::F32;
  if (dtype == DType::C128) return DType::F64;
  return dtype;
}

}  // namespace thalweg::ir
