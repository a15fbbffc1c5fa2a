// The table of PyTorch operations that are traced: one row an operation, one small lowering function each.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace thalweg::lazy {

class Lowering;

// Emits the operation's IR and returns one value a result, in any dtype and shape that converts and broadcasts to the result's.
using LowerFn = std::vector<ir::Value*> (*)(Lowering&);

// What the tracer must know beside the schema.
enum RowFlags : uint32_t {
  kPlain = 0,
  kRandom = 1,           // gets seed and offset as two more run-time scalars; consumes one Philox counter for each 4 results
  kDoublesDynamic = 2,   // `float` arguments are run-time numbers (optimizers' lr, momentum …); otherwise they are part of the program
  kScalarsStatic = 4,    // `Scalar` arguments are part of the program
  kShapeOfFirst = 8,     // results look like the first tensor argument (dtype, sizes, strides): no meta kernel is asked
  kNoMaskLists = 16,     // a bool or uint8 tensor in a Tensor?[] argument takes the fallback: the result's shape depends on its values
  kOverlapAllowed = 32,  // in place, the target's elements may share memory: all get the same value
  kSameDtype = 64,       // tensor arguments must share their dtype, though the meta kernel does not check it
};

// One row. The in-place and out= overloads of a functional row are traced by the same row; a row named like "aten::normal_" is an in-place overload
// itself. Results: the schema's returns, or for in-place overloads every argument that the schema marks as written, lists flattened, in schema order;
// returns that an output_mask switches off are left out.
struct Row {
  const char* name;  // "aten::add.Tensor"
  LowerFn lower;
  uint32_t flags = kPlain;
  // Comma-separated names of tensor arguments that are written though the schema does not say so: when given, their new values are further results.
  const char* also_writes = "";
};

// All rows, from the rows_*.cpp files.
const std::vector<Row>& rows();
// The row named so, or null.
const Row* find_row(std::string_view name);

}  // namespace thalweg::lazy
