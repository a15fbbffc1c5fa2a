// Graphs of cuDNN's operations.
#include <utility>

#include "libs/cuda/cudnn.h"
#include "support/error.h"

namespace thalweg::libs::cuda::cudnn {
namespace {

constexpr int64_t kAlignment = 16;

Dims row_major(const Dims& dims) {
  Dims strides(dims.size(), 1);
  for (size_t d = dims.size(); d-- > 1;) strides[d - 1] = strides[d] * dims[d];
  return strides;
}

size_t bytes_of(Type type) {
  switch (type) {
    case Type::Bool:
      return 1;
    case Type::F16:
    case Type::BF16:
      return 2;
    case Type::F64:
      return 8;
    case Type::F32:
    case Type::S32:
      break;
  }
  return 4;
}

}  // namespace

const Descriptor& Graph::keep(Descriptor descriptor) { return *kept_.emplace_back(std::make_unique<Descriptor>(std::move(descriptor))); }

Tensor Graph::tensor(int64_t id, Type type, Dims dims, Dims strides, Attribute special, bool is_special) {
  Descriptor made(Kind::Tensor);
  made.set(Attribute::TensorType, type);
  made.set(Attribute::TensorDims, dims);
  made.set(Attribute::TensorStrides, strides);
  made.set(Attribute::TensorId, id);
  made.set(Attribute::TensorAlignment, kAlignment);
  if (is_special) made.set(special, ValueType::Flag, 1, &is_special);
  made.finalize();
  return {id, std::move(dims), std::move(strides), type, &keep(std::move(made))};
}

Tensor Graph::memory(int64_t id, Type type, Dims dims, Dims strides) {
  return tensor(id, type, std::move(dims), std::move(strides), Attribute::TensorIsInner, false);
}

Tensor Graph::scratch(Type type, Dims dims) {
  size_t bytes = bytes_of(type);
  for (int64_t d : dims) bytes *= static_cast<size_t>(d);
  const int64_t id = next_id_++;
  scratches_.push_back({id, bytes});
  Dims strides = row_major(dims);
  return memory(id, type, std::move(dims), std::move(strides));
}

Tensor Graph::inner(Type type, Dims dims) {
  Dims strides = row_major(dims);
  return inner(type, std::move(dims), std::move(strides));
}

Tensor Graph::inner(Type type, Dims dims, Dims strides) {
  return tensor(next_id_++, type, std::move(dims), std::move(strides), Attribute::TensorIsInner, true);
}

Tensor Graph::number(float value, size_t rank) {
  const int64_t id = next_id_++;
  numbers_.push_back({id, value});
  return tensor(id, Type::F32, Dims(rank, 1), Dims(rank, 1), Attribute::TensorIsByValue, true);
}

void Graph::matmul(const Tensor& a, const Tensor& b, const Tensor& y) {
  Descriptor how(Kind::Matmul);
  how.set(Attribute::MatmulPrecision, Type::F32);
  how.finalize();
  Descriptor op(Kind::MatmulOp);
  op.set(Attribute::MatmulOpMatmul, keep(std::move(how)));
  op.set(Attribute::MatmulOpA, *a.descriptor);
  op.set(Attribute::MatmulOpB, *b.descriptor);
  op.set(Attribute::MatmulOpC, *y.descriptor);
  op.finalize();
  add(std::move(op));
}

void Graph::pointwise(Pointwise mode, std::initializer_list<const Tensor*> inputs, const Tensor& y, Type precision, int64_t axis) {
  Descriptor how(Kind::Pointwise);
  how.set(Attribute::PointwiseMode, ValueType::PointwiseMode, 1, &mode);
  how.set(Attribute::PointwisePrecision, precision);
  if (axis >= 0) how.set(Attribute::PointwiseAxis, axis);
  how.finalize();
  Descriptor op(Kind::PointwiseOp);
  op.set(Attribute::PointwiseOpMode, keep(std::move(how)));
  const Attribute places[] = {Attribute::PointwiseOpX, Attribute::PointwiseOpB, Attribute::PointwiseOpT};
  size_t place = 0;
  for (const Tensor* input : inputs) op.set(places[place++], *input->descriptor);
  op.set(Attribute::PointwiseOpY, *y.descriptor);
  op.finalize();
  add(std::move(op));
}

Tensor Graph::pointwise(Pointwise mode, std::initializer_list<const Tensor*> inputs) {
  Tensor y = inner(Type::F32, (*inputs.begin())->dims);
  pointwise(mode, inputs, y);
  return y;
}

void Graph::reduce(Reduction mode, const Tensor& x, const Tensor& y) {
  Descriptor how(Kind::Reduction);
  how.set(Attribute::ReductionMode, ValueType::ReductionMode, 1, &mode);
  how.set(Attribute::ReductionPrecision, Type::F32);
  how.finalize();
  Descriptor op(Kind::ReductionOp);
  op.set(Attribute::ReductionOpReduction, keep(std::move(how)));
  op.set(Attribute::ReductionOpX, *x.descriptor);
  op.set(Attribute::ReductionOpY, *y.descriptor);
  op.finalize();
  add(std::move(op));
}

void Graph::reshape(const Tensor& x, const Tensor& y) {
  Descriptor op(Kind::ReshapeOp);
  op.set(Attribute::ReshapeX, *x.descriptor);
  op.set(Attribute::ReshapeY, *y.descriptor);
  op.finalize();
  add(std::move(op));
}

}  // namespace thalweg::libs::cuda::cudnn
