// Structural comparison of programs.
#pragma once

#include <string>

#include "ir/graph.h"

namespace thalweg::ir {

// Empty when both are the same program: same functions, ops, types, attributes and uses, whatever the locations and groups. Else what differs first.
std::string difference(const Module& a, const Module& b);
std::string difference(const Function& a, const Function& b);

}  // namespace thalweg::ir
