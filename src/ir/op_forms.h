// The assembly forms of ops as data, shared by parser and printer: which keywords a pretty form has and which attributes they stand for.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "ir/graph.h"

namespace thalweg::ir {

// The assembly form of an op; see ops.def.
enum class Form : uint8_t { U, B, F, K, G, L, Func };
Form form(OpCode code);

// What stands behind a keyword.
enum class KeywordKind : uint8_t { Ints, Integer, Boolean, String, Enum, Enums };

// `text = value` in the pretty form of `code` is attribute `attribute`; `enum_kind` is StableHLO's name of the enumeration.
struct Keyword {
  OpCode code;
  std::string_view text, attribute;
  KeywordKind kind;
  std::string_view enum_kind = {};
};

// The keywords of an op in the order they are printed; empty when its pretty form is not `operands, keyword = value, …`.
std::span<const Keyword> keywords(OpCode code);
// CHLO's name, "chlo.erf", of an op that is CHLO's; empty for all others.
std::string_view chlo_name(OpCode code);
// The op that CHLO calls so, or nothing.
std::optional<OpCode> parse_chlo(std::string_view name);
// Ops whose pretty form is operands and keywords, nothing else.
bool has_keyword_form(OpCode code);

}  // namespace thalweg::ir
