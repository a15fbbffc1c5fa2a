// The table of PyTorch operations that are traced: one row an operation, one small lowering function each.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/builder.h"
#include "lazy/value.h"

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
};

// One row. The in-place and out= overloads of a functional row are traced by the same row.
struct Row {
  const char* name;      // "aten::add.Tensor"
  LowerFn lower;
  uint32_t flags = kPlain;
  const char* static_args = "";  // comma-separated names of Scalar arguments that are part of the program
};

// All rows, from the rows_*.cpp files.
const std::vector<Row>& rows();
// The row named so, or null.
const Row* find_row(std::string_view name);

// What a lowering function sees: the node's arguments by schema position, and the builder.
class Lowering {
 public:
  Lowering(ir::Builder& builder, const Node& node, std::vector<ir::Value*> tensors, std::vector<ir::Value*> scalars);

  ir::Builder& b;
  const Node& node;

  // Tensor argument at schema position `arg`: its elements in the tensor's logical shape. has(): false for None.
  bool has(size_t arg) const;
  ir::Value* t(size_t arg) const;
  std::vector<ir::Value*> list(size_t arg) const;  // Tensor[]; absent entries are null
  // Number as a rank-0 value of `dtype`: a run-time argument or, for static ones, a constant.
  ir::Value* number(size_t arg, ir::DType dtype) const;
  std::vector<ir::Value*> numbers(size_t arg, ir::DType dtype) const;  // Scalar[]
  bool is_floating_number(size_t arg) const;
  // Static arguments.
  int64_t integer(size_t arg) const;
  double real(size_t arg) const;        // Int or Double
  bool boolean(size_t arg) const;
  ir::Dims ints(size_t arg) const;
  std::string string(size_t arg) const;
  ArgKind kind(size_t arg) const;
  // Seed and offset of a random row as ui64[2].
  ir::Value* rng_state() const;

  // Result i's dtype and sizes.
  const View& out(size_t i = 0) const { return node.outputs[i]; }
  ir::DType dtype(size_t i = 0) const { return node.outputs[i].dtype; }
  ir::Dims shape(size_t i = 0) const { return ir::Dims(node.outputs[i].dims().begin(), node.outputs[i].dims().end()); }
  // Tensor argument converted to `dtype` and broadcast to `shape` (result 0's by default).
  ir::Value* as(size_t arg, ir::DType dtype) const;
  ir::Value* fit(ir::Value* a, ir::DType dtype, const ir::Dims& shape) const;
  // The dtype to compute in for a result of `dtype`: f32 for 16-bit floats, else itself.
  static ir::DType compute_dtype(ir::DType dtype);

 private:
  struct Arg {
    ArgKind kind;
    uint64_t count;
    size_t word, tensor, scalar;
  };
  std::vector<Arg> args_;
  std::vector<ir::Value*> tensors_, scalars_;
};

}  // namespace thalweg::lazy
