// Well-typed random programs with inputs, for comparing whatever runs programs with the interpreter, bit for bit.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ir/graph.h"

namespace thalweg::tools_cli {

// A function called main and one literal an argument.
struct RandomProgram {
  std::unique_ptr<ir::Function> function;
  std::vector<ir::Literal> inputs;
};

// What the programs may hold.
struct RandomOptions {
  int ops = 12;            // about so many ops are drawn; each draws some more to fit its operands
  int64_t largest = 2000;  // elements of one tensor, about
  bool control = true;     // while, if and case
};

// The program of `seed`: the same on every machine. Shapes hold 0, 1 and odd numbers, inputs NaN, infinities, signed zeros and denormals, dtypes all that
// compute natively. Sums and products of floats are taken over small integers, so their value does not depend on the order: results are defined to the bit
// (but for the bits of NaN).
RandomProgram random_program(uint64_t seed, const RandomOptions& options = {});

// Whether two results are the same to the bit, any NaN being any other.
bool same_bits(const ir::Literal& a, const ir::Literal& b);

}  // namespace thalweg::tools_cli
