// Prints programs as StableHLO text that the parser, and JAX's, read back.
#pragma once

#include <string>

#include "ir/graph.h"

namespace thalweg::ir {

// parse(print(x)) is structurally x for every module that the parser or the builder can make, but for locations and groups.
std::string print(const Module& module);
std::string print(const Function& function);
// One op on one line (regions below it), its operands named by number; for messages.
std::string print(const Op& op);
std::string print(const Attribute& attribute);
// dense<…> : tensor<…>; more than 100 elements print as hexadecimal bytes.
std::string print(const Literal& literal);

}  // namespace thalweg::ir
