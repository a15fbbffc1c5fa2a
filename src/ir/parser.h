// Reads StableHLO text: pretty and generic forms, with func, chlo and sdy ops as JAX prints them.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "ir/graph.h"

namespace thalweg::ir {

// The module written in `text`, a `module { … }` or bare functions. `file` names the text in errors and in the ops' locations. Not verified: see
// ir/verifier.h. Throws Error(Parse) "file:line:column: what was found, expected what".
std::unique_ptr<Module> parse(std::string_view text, std::string file = "<text>");

// One attribute or type by itself, e.g. for command-line options.
Attribute parse_attribute(std::string_view text);
Type parse_type(std::string_view text);

}  // namespace thalweg::ir
