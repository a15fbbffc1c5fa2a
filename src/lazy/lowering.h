// What a lowering function sees of the node that it turns into IR.
#pragma once

#include <string>
#include <vector>

#include "ir/builder.h"
#include "lazy/value.h"

namespace thalweg::lazy {

// What a lowering function sees: the node's arguments by schema position, and the builder.
class Lowering {
 public:
  Lowering(ir::Builder& builder, const Node& node, std::vector<ir::Value*> tensors, std::vector<ir::Value*> scalars);

  ir::Builder& b;
  const Node& node;

  // Tensor argument at schema position `arg`: its elements in the tensor's logical shape; for a number in a tensor's place (wrapped numbers)
  // the rank-0 f64 or i64 argument. has(): false for None.
  bool has(size_t arg) const;
  ir::Value* t(size_t arg) const;
  std::vector<ir::Value*> list(size_t arg) const;  // Tensor[]; absent entries are null
  // Number as a rank-0 value of `dtype`: a run-time argument or, for static ones, a constant.
  ir::Value* number(size_t arg, ir::DType dtype) const;
  std::vector<ir::Value*> numbers(size_t arg, ir::DType dtype) const;  // Scalar[]
  bool is_floating_number(size_t arg) const;
  bool is_number(size_t arg) const;  // Scalar, Int, Double or Bool
  // The dtype in which PyTorch compares or combines these arguments: numbers and rank-0 tensors count less than tensors of the same class.
  ir::DType promoted(std::initializer_list<size_t> args) const;
  // Static arguments.
  int64_t integer(size_t arg) const;
  double real(size_t arg) const;  // Int or Double
  bool boolean(size_t arg) const;
  ir::Dims ints(size_t arg) const;
  std::string string(size_t arg) const;
  ArgKind kind(size_t arg) const;
  const char* row_name() const;
  // Seed and offset of a random row as ui64[2].
  ir::Value* rng_state() const;

  // Result i's dtype and sizes.
  const View& out(size_t i = 0) const { return node.outputs[i]; }
  ir::DType dtype(size_t i = 0) const { return node.outputs[i].dtype; }
  ir::Dims shape(size_t i = 0) const { return ir::Dims(node.outputs[i].dims().begin(), node.outputs[i].dims().end()); }
  // Tensor argument converted to `dtype` and broadcast to `shape` (result 0's by default).
  ir::Value* as(size_t arg, ir::DType dtype) const;
  // Argument `arg` for computing result 0: in compute_dtype of the result's dtype, broadcast to its shape.
  ir::Value* in(size_t arg) const { return as(arg, compute_dtype(dtype())); }
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
