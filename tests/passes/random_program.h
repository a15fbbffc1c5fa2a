// Random programs for the tests of passes: small tensors of several dtypes, values full of zeros, ones, infinities and NaN.
#pragma once

#include <random>

#include "ir/builder.h"
#include "ir/graph.h"

namespace thalweg::passes {

// A verified function @main of `ops` random ops whose results are its last values, and inputs for it. The same seed gives the same program.
struct RandomProgram {
  explicit RandomProgram(uint32_t seed, int ops = 30);

  std::unique_ptr<ir::Function> function;
  std::vector<ir::Literal> inputs;
};

// Empty when both are the same bits, NaN for NaN; else the first difference.
std::string bit_difference(const std::vector<ir::Literal>& a, const std::vector<ir::Literal>& b);

}  // namespace thalweg::passes
