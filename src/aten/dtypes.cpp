// Element types: PyTorch's beside the IR's.
#include "aten/dtypes.h"

namespace thalweg::aten {
namespace {

struct Pair {
  c10::ScalarType torch;
  ir::DType ours;
  bool traced;
};

using c10::ScalarType;
constexpr Pair kPairs[] = {
    {ScalarType::Bool, ir::DType::I1, true},
    {ScalarType::Byte, ir::DType::U8, true},
    {ScalarType::Char, ir::DType::S8, true},
    {ScalarType::Short, ir::DType::S16, true},
    {ScalarType::Int, ir::DType::S32, true},
    {ScalarType::Long, ir::DType::S64, true},
    {ScalarType::UInt16, ir::DType::U16, false},
    {ScalarType::UInt32, ir::DType::U32, false},
    {ScalarType::UInt64, ir::DType::U64, false},
    {ScalarType::Half, ir::DType::F16, true},
    {ScalarType::BFloat16, ir::DType::BF16, true},
    {ScalarType::Float, ir::DType::F32, true},
    {ScalarType::Double, ir::DType::F64, true},
    {ScalarType::ComplexFloat, ir::DType::C64, false},
    {ScalarType::ComplexDouble, ir::DType::C128, false},
    {ScalarType::Float8_e5m2, ir::DType::F8E5M2, false},
    {ScalarType::Float8_e4m3fn, ir::DType::F8E4M3FN, false},
    {ScalarType::Float8_e5m2fnuz, ir::DType::F8E5M2FNUZ, false},
    {ScalarType::Float8_e4m3fnuz, ir::DType::F8E4M3FNUZ, false},
    {ScalarType::Float8_e8m0fnu, ir::DType::F8E8M0FNU, false},
};

struct Entry {
  bool known = false, traced = false;
  ir::DType ours{};
};

// Indexed by PyTorch's number of the dtype.
const std::array<Entry, static_cast<size_t>(ScalarType::NumOptions)>& table() {
  static const auto entries = [] {
    std::array<Entry, static_cast<size_t>(ScalarType::NumOptions)> out{};
    for (const Pair& pair : kPairs) out[static_cast<size_t>(pair.torch)] = {true, pair.traced, pair.ours};
    return out;
  }();
  return entries;
}

}  // namespace

std::optional<ir::DType> ir_dtype(c10::ScalarType type) {
  const Entry& entry = table()[static_cast<size_t>(type)];
  if (!entry.known) return std::nullopt;
  return entry.ours;
}

ir::DType require_ir_dtype(c10::ScalarType type) {
  const Entry& entry = table()[static_cast<size_t>(type)];
  TORCH_CHECK_TYPE(entry.known, "Tensors on device xla cannot have dtype ", type, "; keep this tensor on the CPU");
  return entry.ours;
}

c10::ScalarType scalar_type(ir::DType dtype) {
  for (const Pair& pair : kPairs) {
    if (pair.ours == dtype) return pair.torch;
  }
  TORCH_INTERNAL_ASSERT(false, "no torch.dtype for ", ir::name(dtype));
}

bool is_traced(c10::ScalarType type) { return table()[static_cast<size_t>(type)].traced; }

}  // namespace thalweg::aten
