// What a reduction's region does, and the text that accumulates with it.
#pragma once

#include <optional>
#include <string>

#include "ir/graph.h"

namespace thalweg::codegen {

// A region of one associative and commutative op on its two arguments: accumulates in registers, splits into partial results, starts from an identity.
struct Reducer {
  ir::OpCode op;
  ir::DType dtype;

  // The C++ type that accumulates: float for 16-bit floats, signed integers ordered like the floats for their maximum and minimum in registers.
  std::string register_type() const;
  // The C++ type of accumulators kept in memory.
  std::string memory_type() const;
  ir::DType memory_dtype() const;
  std::string identity(bool in_register) const;
  // Statements that put `x` (of the value's type) into `accumulator`; in_register allows reassociation.
  std::string accumulate(const std::string& accumulator, const std::string& x, bool in_register) const;
  // Statement that merges two accumulators of one kind.
  std::string merge(const std::string& accumulator, const std::string& other, bool in_register) const;
  // The reduced value, in the value's type.
  std::string result(const std::string& accumulator, bool in_register) const;

 private:
  bool ordered() const;
};

// The reducer of a region, or nothing when it is anything else.
std::optional<Reducer> reducer_of(const ir::Block& region);

}  // namespace thalweg::codegen
