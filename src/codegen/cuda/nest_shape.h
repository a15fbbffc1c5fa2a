// How the work of a nest is dealt out to the threads of a GPU.
#pragma once

#include <cstdint>

#include "codegen/nest_members.h"

namespace thalweg::codegen::cuda {

enum class Dealing : uint8_t {
  Elements,  // elementwise: a thread takes `vector` neighbouring elements
  Rows,      // a group takes a row, or one of `parts` pieces of it
  Columns,   // a group takes a block of columns and one of `parts` ranges of rows
};

// Loops over a row go over chunks of `vector` neighbouring elements. In a group of `lanes` threads `columns` neighbours share a row; the lanes / columns
// rows of a group go side by side (Dealing::Columns alone).
struct NestShape {
  Dealing dealing = Dealing::Elements;
  int vector = 1;
  int lanes = 1, columns = 1;
  int64_t chunks = 1;     // of a row
  int64_t turns = 1;      // of a lane over a row, or over a block of columns
  bool unrolled = false;  // turns are written out, so that what a lane keeps between them lies in registers
  bool nested = false;    // one lane: loops over each inner variable instead of one over chunks
  bool ordered = false;   // a lane takes neighbouring chunks, for reductions that must keep their order
  int64_t parts = 1;
  int64_t blocks = 1;  // of columns, `turns` * `columns` chunks each

  int rows_aside() const { return lanes / columns; }
};

// What decides about the shape.
struct NestWork {
  int64_t rows = 1, inner = 1, batches = 1;
  int64_t last = 1;  // extent of the innermost loop
  size_t inner_loops = 1;
  int element_bytes = 4;                           // the smallest of what is read and written whole
  int accumulator_bytes = 4;                       // the largest of column reductions
  double registers = 0;                            // for each element of its part of a row that a lane keeps: columns' accumulators and what later stages read
  bool elements = false;                           // elementwise
  bool simple_rows = true, simple_columns = true;  // all reductions have a Reducer
  int64_t most_kept = 32;                          // elements of a row that a lane may keep, of each array
};

// `multiprocessors`: of the GPU, which small tensors are spread over. The members decide about columns, stages and contractions.
NestShape choose_shape(const NestWork& work, const NestMembers& members, int multiprocessors);

// True when a row is better reduced by many groups.
bool wants_parts(int64_t rows, int64_t inner, int multiprocessors);

}  // namespace thalweg::codegen::cuda
