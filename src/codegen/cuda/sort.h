// Sorting on GPUs: tiles of positions in shared memory, then runs merged two by two, every thread finding its own part of each merge.
#pragma once

#include <string>
#include <vector>

#include "codegen/nest.h"

namespace thalweg::codegen::cuda {

// `rows` rows of `length` elements each, and how they are ordered.
struct SortKeys {
  int64_t rows = 1, length = 1;
  std::vector<NestArg> args;  // what the text reads
  std::string head;           // before all rows: pointers and constants, by these arguments' numbers
  std::string less;           // for the row `row`: defines less(i, j) over positions in it
};

// Texts that sort the positions of each row, to be run in order. The result, 32-bit integers, lies in the temporary `positions.scratch` behind `offset`
// elements. Stable. A comparator that is no order gives some order of some positions.
struct SortedPositions {
  std::vector<NestCode> codes;
  NestArg positions;
  int64_t offset = 0;
};
SortedPositions sort_positions(const SortKeys& keys, int scratch);

// The texts of a sort, see codegen::is_sort(). Args: those of a sort on the CPU, of the temporary a part of the texts only.
std::vector<NestCode> write_sort(const ir::Op& op);

}  // namespace thalweg::codegen::cuda
