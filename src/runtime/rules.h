// Switches for the ordering rules, constant in every build but that of the mutation tests.
#pragma once

#include <array>

namespace thalweg::runtime {

// The rules of rules.def.
enum class Rule {
#define THALWEG_RULE(name, meaning) name,
#include "runtime/rules.def"
#undef THALWEG_RULE
  Count
};

#ifdef THALWEG_MUTATIONS
// Which rules are off; only tests write it, and only while no device exists.
inline std::array<bool, static_cast<int>(Rule::Count)> rules_off{};
// True when `rule` is in force.
inline bool holds(Rule rule) { return !rules_off[static_cast<int>(rule)]; }
#else
// True when `rule` is in force: always.
constexpr bool holds(Rule) { return true; }
#endif

}  // namespace thalweg::runtime
