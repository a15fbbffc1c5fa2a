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

class Block;

#ifdef THALWEG_MUTATIONS
// Changes what is remembered of a freed block, to act like another allocator; null: nothing.
inline void (*foreign_free_rule)(Block& block) = nullptr;
inline void apply_foreign_rule(Block& block) {
  if (foreign_free_rule) foreign_free_rule(block);
}
// Which rules are off; only tests write it, and only while no device exists.
inline std::array<bool, static_cast<int>(Rule::Count)> rules_off{};
// True when `rule` is in force.
inline bool holds(Rule rule) { return !rules_off[static_cast<int>(rule)]; }
#else
inline void apply_foreign_rule(Block&) {}
// True when `rule` is in force: always.
constexpr bool holds(Rule) { return true; }
#endif

}  // namespace thalweg::runtime
