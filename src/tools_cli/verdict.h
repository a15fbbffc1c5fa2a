// Comparing results with what was expected: equality, distance in units of the last place, absolute distance.
#pragma once

#include <string>

#include "ir/literal.h"

namespace thalweg::tools_cli {

// How results are compared; see judge().
enum class Rule { Equal, Close, AlmostEqual, Tolerance };

// How one comparison ended. `ulp` is the largest distance of floats in units of the last place (infinity for NaN against a number).
struct Verdict {
  bool good = true;
  int64_t wrong = 0, total = 0;
  double ulp = 0, absolute = 0;
  std::string first;  // the first wrong element: "at 5: got 1.5, expected 2"
};

// Equal: ==, so NaN is never right and the zeros are equal. Close: at most `limit` ULP, NaN equals NaN. AlmostEqual: at most `limit` apart.
// Tolerance: |a - b| <= limit * (1 + |b|). Complex numbers by part.
Verdict judge(const ir::Literal& got, const ir::Literal& expected, Rule rule, double limit);

}  // namespace thalweg::tools_cli
