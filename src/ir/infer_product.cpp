// Shape rules of products, convolutions and dense mathematics.
#include <algorithm>

#include "ir/infer.h"

namespace thalweg::ir {
namespace {

using Types = std::optional<std::vector<Type>>;

bool contains(const Dims& dims, int64_t d) { return std::find(dims.begin(), dims.end(), d) != dims.end(); }

int64_t at(const Type& type, int64_t dim) { return type.dims[static_cast<size_t>(dim)]; }

void require_equal_sizes(const OpView& op, const char* what, const Dims& left, const Dims& right) {
  require(left.size() == right.size(), op, what, " dimensions differ in number: ", to_string(left), " and ", to_string(right));
  for (size_t i = 0; i < left.size(); ++i)
    require(at(op.type(0), left[i]) == at(op.type(1), right[i]), op, what, " sizes differ: ", to_string(op.type(0)), " dimension ", left[i], " and ",
            to_string(op.type(1)), " dimension ", right[i]);
}

Types dot_general(const OpView& op) {
  require_operands(op, 2);
  require_tensors(op);
  const DotDims d = dot_dims(op.attrs);
  Dims lhs = d.lhs_batch, rhs = d.rhs_batch;
  lhs.insert(lhs.end(), d.lhs_contract.begin(), d.lhs_contract.end());
  rhs.insert(rhs.end(), d.rhs_contract.begin(), d.rhs_contract.end());
  require_dims(op, "lhs dimensions", lhs, op.type(0).rank());
  require_dims(op, "rhs dimensions", rhs, op.type(1).rank());
  require_equal_sizes(op, "batching", d.lhs_batch, d.rhs_batch);
  require_equal_sizes(op, "contracting", d.lhs_contract, d.rhs_contract);
  Type result = tensor(op.declared && !op.declared->empty() ? op.declared->front().dtype : op.type(0).dtype);
  for (int64_t b : d.lhs_batch) result.dims.push_back(at(op.type(0), b));
  for (int64_t i = 0; i < op.type(0).rank(); ++i)
    if (!contains(lhs, i)) result.dims.push_back(at(op.type(0), i));
  for (int64_t i = 0; i < op.type(1).rank(); ++i)
    if (!contains(rhs, i)) result.dims.push_back(at(op.type(1), i));
  checked_size(op, result.dims);
  return {{result}};
}

// One tensor's three kinds of dimension numbers cover it exactly.
void require_layout(const OpView& op, const char* which, const Type& type, int64_t first, int64_t second, const Dims& spatial) {
  Dims all = spatial;
  all.push_back(first);
  all.push_back(second);
  require(static_cast<int64_t>(all.size()) == type.rank(), op, which, " dimension numbers do not cover the tensor: ", to_string(all),
          ", type: ", to_string(type));
  require_dims(op, which, all, type.rank());
}

Types convolution(const OpView& op) {
  require_operands(op, 2);
  require_tensors(op);
  const Type &input = op.type(0), &kernel = op.type(1);
  const ConvDims d = conv_dims(op.attrs);
  require_layout(op, "input", input, d.input_batch, d.input_feature, d.input_spatial);
  require_layout(op, "kernel", kernel, d.kernel_output, d.kernel_input, d.kernel_spatial);
  require_layout(op, "output", input, d.output_batch, d.output_feature, d.output_spatial);
  require(d.feature_groups >= 1 && d.batch_groups >= 1 && (d.feature_groups == 1 || d.batch_groups == 1), op,
          "group counts must be positive and one of them 1: ", d.feature_groups, " and ", d.batch_groups);
  require(at(input, d.input_feature) == bounded_product(at(kernel, d.kernel_input), d.feature_groups), op,
          "input features are not kernel input features times groups; input: ", to_string(input), ", kernel: ", to_string(kernel),
          ", groups: ", d.feature_groups);
  require(at(kernel, d.kernel_output) % bounded_product(d.feature_groups, d.batch_groups) == 0, op,
          "output features are not divisible by groups; kernel: ", to_string(kernel));
  require(at(input, d.input_batch) % d.batch_groups == 0, op, "batch is not divisible by batch groups; input: ", to_string(input));
  Type result = tensor(op.declared && !op.declared->empty() ? op.declared->front().dtype : input.dtype);
  result.dims.resize(input.dims.size());
  result.dims[static_cast<size_t>(d.output_batch)] = at(input, d.input_batch) / d.batch_groups;
  result.dims[static_cast<size_t>(d.output_feature)] = at(kernel, d.kernel_output);
  for (size_t i = 0; i < d.input_spatial.size(); ++i) {
    require(d.stride.size() > i && d.lhs_dilation.size() > i && d.rhs_dilation.size() > i && d.stride[i] > 0 && d.lhs_dilation[i] > 0 && d.rhs_dilation[i] > 0,
            op, "strides and dilations need one positive number a spatial dimension");
    const int64_t padded = padded_size(d.pad_low[i], dilated(at(input, d.input_spatial[i]), d.lhs_dilation[i]), d.pad_high[i]);
    result.dims[static_cast<size_t>(d.output_spatial[i])] = window_positions(padded, dilated(at(kernel, d.kernel_spatial[i]), d.rhs_dilation[i]), d.stride[i]);
  }
  return {{result}};
}

Types fft(const OpView& op) {
  require_operands(op, 1);
  require_tensors(op);
  Type result = op.type(0);
  const Dims& length = op.attrs.ints("fft_length");
  const std::string& type = op.attrs.string("fft_type");
  const size_t n = length.size(), rank = result.dims.size();
  require(n >= 1 && n <= 3 && n <= rank, op, "one to three lengths are needed, at most the rank: ", to_string(length), ", operand: ", to_string(result));
  for (size_t i = 0; i < n; ++i) {
    const bool last = i + 1 == n;
    const int64_t size = result.dims[rank - n + i], expected = type == "IRFFT" && last ? length[i] / 2 + 1 : length[i];
    require(size == expected, op, "operand size does not fit the length: ", size, ", expected: ", expected);
  }
  if (type == "RFFT") {
    require(is_float(result.dtype), op, "RFFT takes real numbers: ", to_string(result));
    result.dtype = result.dtype == DType::F64 ? DType::C128 : DType::C64;
    result.dims.back() = length.back() / 2 + 1;
  } else {
    require(is_complex(result.dtype), op, type, " takes complex numbers: ", to_string(result));
    if (type == "IRFFT") {
      result.dtype = real_dtype(result.dtype);
      result.dims.back() = length.back();
    } else {
      require(type == "FFT" || type == "IFFT", op, "unknown type: ", type);
    }
  }
  return {{result}};
}

void require_square(const OpView& op, const Type& type) {
  require(type.rank() >= 2 && type.dims[type.dims.size() - 1] == type.dims[type.dims.size() - 2], op, "the matrix must be square: ", to_string(type));
  require(is_float(type.dtype) || is_complex(type.dtype), op, "element type not taken by this op: ", to_string(type));
}

Types cholesky(const OpView& op) {
  require_operands(op, 1);
  require_tensors(op);
  require_square(op, op.type(0));
  return {{op.type(0)}};
}

Types triangular_solve(const OpView& op) {
  require_operands(op, 2);
  require_tensors(op);
  const Type &a = op.type(0), &b = op.type(1);
  require_square(op, a);
  require(a.rank() == b.rank() && a.dtype == b.dtype, op, "operands differ in rank or element type: ", to_string(a), " and ", to_string(b));
  const bool left = op.attrs.boolean("left_side", false);
  require(a.dims.back() == b.dims[b.dims.size() - (left ? 2 : 1)], op, "the matrix does not fit the right-hand side: ", to_string(a), " and ", to_string(b));
  require(std::equal(a.dims.begin(), a.dims.end() - 2, b.dims.begin()), op, "batch dimensions differ: ", to_string(a), " and ", to_string(b));
  return {{b}};
}

}  // namespace

ShapeRule product_rule(OpCode code) {
  switch (code) {
    case OpCode::DotGeneral:
      return dot_general;
    case OpCode::Convolution:
      return convolution;
    case OpCode::Fft:
      return fft;
    case OpCode::Cholesky:
      return cholesky;
    case OpCode::TriangularSolve:
      return triangular_solve;
    default:
      return nullptr;
  }
}

}  // namespace thalweg::ir
