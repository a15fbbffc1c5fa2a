// The table of keywords.
#include "ir/op_forms.h"

#include <algorithm>

namespace thalweg::ir {
namespace {

constexpr Form kForms[] = {
#define THALWEG_OP(name, text, f) Form::f,
#include "ir/ops.def"
#undef THALWEG_OP
};

using enum KeywordKind;

// Rows of one op stand together.
constexpr Keyword kKeywords[] = {
    {OpCode::Iota, "dim", "iota_dimension", Integer},
    {OpCode::DynamicIota, "dim", "iota_dimension", Integer},
    {OpCode::BroadcastInDim, "dims", "broadcast_dimensions", Ints},
    {OpCode::DynamicBroadcastInDim, "dims", "broadcast_dimensions", Ints},
    {OpCode::Broadcast, "sizes", "broadcast_sizes", Ints},
    {OpCode::Transpose, "dims", "permutation", Ints},
    {OpCode::Reverse, "dims", "dimensions", Ints},
    {OpCode::DynamicSlice, "sizes", "slice_sizes", Ints},
    {OpCode::Pad, "low", "edge_padding_low", Ints},
    {OpCode::Pad, "high", "edge_padding_high", Ints},
    {OpCode::Pad, "interior", "interior_padding", Ints},
    {OpCode::Concatenate, "dim", "dimension", Integer},
    {OpCode::Rng, "distribution", "rng_distribution", Enum, "rng_distribution"},
    {OpCode::RngBitGenerator, "algorithm", "rng_algorithm", Enum, "rng_algorithm"},
    {OpCode::Fft, "type", "fft_type", Enum, "fft_type"},
    {OpCode::Fft, "length", "fft_length", Ints},
    {OpCode::Cholesky, "lower", "lower", Boolean},
    {OpCode::GetDimensionSize, "dim", "dimension", Integer},
    {OpCode::SetDimensionSize, "dim", "dimension", Integer},
    {OpCode::Einsum, "config", "einsum_config", String},
    {OpCode::UnaryEinsum, "config", "einsum_config", String},
    {OpCode::Dot, "precision", "precision_config", Enums, "precision"},
};

}  // namespace

Form form(OpCode code) { return kForms[static_cast<size_t>(code)]; }

std::span<const Keyword> keywords(OpCode code) {
  const auto same = [code](const Keyword& k) { return k.code == code; };
  const auto begin = std::find_if(std::begin(kKeywords), std::end(kKeywords), same);
  const auto end = std::find_if_not(begin, std::end(kKeywords), same);
  return {begin, end};
}

std::string_view chlo_name(OpCode code) { return code == OpCode::Erf ? "chlo.erf" : code == OpCode::Erfc ? "chlo.erfc" : ""; }

std::optional<OpCode> parse_chlo(std::string_view name) {
  for (OpCode code : {OpCode::Erf, OpCode::Erfc})
    if (chlo_name(code) == name) return code;
  return std::nullopt;
}

bool has_keyword_form(OpCode code) {
  switch (code) {
    case OpCode::TorchIndexSelect:
      return false;
    case OpCode::Select:
    case OpCode::Clamp:
    case OpCode::Complex:
    case OpCode::OptimizationBarrier:
    case OpCode::Tuple:
    case OpCode::AfterAll:
    case OpCode::CreateToken:
    case OpCode::ReplicaId:
    case OpCode::PartitionId:
    case OpCode::RealDynamicSlice:
      return true;
    default:
      break;
  }
  const Form f = form(code);
  return f == Form::U || f == Form::B || f == Form::F || !keywords(code).empty();
}

}  // namespace thalweg::ir
