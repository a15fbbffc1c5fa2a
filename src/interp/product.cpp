// Products and convolutions: operands are converted to the result's type and their products summed in it, one after the other; integers wrap.
#include <algorithm>

#include "interp/indexing.h"
#include "interp/machine.h"
#include "interp/scalar_functions.h"
#include "ir/dimension_numbers.h"

namespace thalweg::interp {
namespace {

using ir::Dims;
using ir::DType;
using ir::Literal;
using ir::OpCode;

// A running sum of products in the result's own type; 16-bit and narrower floats sum in float and are rounded once.
class Sum {
 public:
  explicit Sum(DType dtype) : dtype_(dtype) {}

  void add_product(const std::byte* a, const std::byte* b) {
    switch (dtype_) {
      case DType::C64:
        return add_complex<float>(a, b);
      case DType::C128:
        return add_complex<double>(a, b);
      case DType::F64:
        real_ += ir::load_double(dtype_, a) * ir::load_double(dtype_, b);
        return;
      default:
        break;
    }
    if (is_float(dtype_))
      real_ = static_cast<float>(real_) + static_cast<float>(ir::load_double(dtype_, a)) * static_cast<float>(ir::load_double(dtype_, b));
    else
      integer_ += static_cast<uint64_t>(ir::load_int(dtype_, a)) * static_cast<uint64_t>(ir::load_int(dtype_, b));
  }

  void store(std::byte* to) const {
    if (is_complex(dtype_))
      ir::store_complex(dtype_, to, real_, imaginary_);
    else if (is_float(dtype_))
      ir::store_double(dtype_, to, real_);
    else
      ir::store_int(dtype_, to, static_cast<int64_t>(integer_));
  }

 private:
  template <class T>
  void add_complex(const std::byte* a, const std::byte* b) {
    T x[2], y[2];
    std::memcpy(x, a, sizeof x);
    std::memcpy(y, b, sizeof y);
    real_ = static_cast<T>(real_) + (x[0] * y[0] - x[1] * y[1]);
    imaginary_ = static_cast<T>(imaginary_) + (x[0] * y[1] + x[1] * y[0]);
  }

  DType dtype_;
  double real_ = 0, imaginary_ = 0;
  uint64_t integer_ = 0;
};

Literal converted(const Literal& in, DType dtype) {
  if (in.type.dtype == dtype) return in;
  const UnaryFn convert = convert_function(in.type.dtype, dtype);
  Literal out(ir::tensor(dtype, in.type.dims));
  for (int64_t i = 0; i < in.type.size(); ++i) convert(element(in, i), element(out, i));
  return out;
}

Dims picked(const Dims& dims, const Dims& which) {
  Dims out;
  for (int64_t d : which) out.push_back(dims[static_cast<size_t>(d)]);
  return out;
}

// The dimensions that are neither batch nor contracted.
Dims free_dims(size_t rank, const Dims& batch, const Dims& contract) {
  Dims out;
  for (int64_t i = 0; i < static_cast<int64_t>(rank); ++i)
    if (std::find(batch.begin(), batch.end(), i) == batch.end() && std::find(contract.begin(), contract.end(), i) == contract.end()) out.push_back(i);
  return out;
}

// result[batch, free of lhs, free of rhs] = sum over contracted of lhs * rhs
std::vector<Literal> dot_general(const Call& call) {
  const ir::DotDims d = ir::dot_dims(call.attrs());
  const DType dtype = call.type().dtype;
  const Literal lhs = converted(call.in(0), dtype), rhs = converted(call.in(1), dtype);
  const Dims lhs_strides = strides_of(lhs.type.dims), rhs_strides = strides_of(rhs.type.dims);
  const Dims lhs_free = free_dims(lhs_strides.size(), d.lhs_batch, d.lhs_contract), rhs_free = free_dims(rhs_strides.size(), d.rhs_batch, d.rhs_contract);
  Literal out(call.type());
  for_each_index(out.type.dims, [&](const Dims& index, int64_t i) {
    int64_t left = 0, right = 0;
    size_t next = 0;
    for (size_t k = 0; k < d.lhs_batch.size(); ++k, ++next) {
      left += index[next] * lhs_strides[static_cast<size_t>(d.lhs_batch[k])];
      right += index[next] * rhs_strides[static_cast<size_t>(d.rhs_batch[k])];
    }
    for (int64_t f : lhs_free) left += index[next++] * lhs_strides[static_cast<size_t>(f)];
    for (int64_t f : rhs_free) right += index[next++] * rhs_strides[static_cast<size_t>(f)];
    Sum sum(dtype);
    for_each_index(picked(lhs.type.dims, d.lhs_contract), [&](const Dims& k, int64_t) {
      int64_t l = left, r = right;
      for (size_t c = 0; c < k.size(); ++c) {
        l += k[c] * lhs_strides[static_cast<size_t>(d.lhs_contract[c])];
        r += k[c] * rhs_strides[static_cast<size_t>(d.rhs_contract[c])];
      }
      sum.add_product(element(lhs, l), element(rhs, r));
    });
    sum.store(element(out, i));
  });
  return one(std::move(out));
}

// Where the window of output position `at` reads the input for kernel position `k`; false in padding and holes.
bool input_position(const ir::ConvDims& d, const Dims& input_dims, const Dims& out_index, const Dims& k, const Dims& kernel_sizes, const Dims& strides,
                    int64_t& offset) {
  for (size_t s = 0; s < k.size(); ++s) {
    const int64_t kernel_at = !d.reversal.empty() && d.reversal[s] ? kernel_sizes[s] - 1 - k[s] : k[s];
    const int64_t at = out_index[static_cast<size_t>(d.output_spatial[s])] * d.stride[s] + kernel_at * d.rhs_dilation[s] - d.pad_low[s];
    const auto dim = static_cast<size_t>(d.input_spatial[s]);
    if (at < 0 || at % d.lhs_dilation[s] != 0 || at / d.lhs_dilation[s] >= input_dims[dim]) return false;
    offset += at / d.lhs_dilation[s] * strides[dim];
  }
  return true;
}

std::vector<Literal> convolution(const Call& call) {
  const ir::ConvDims d = ir::conv_dims(call.attrs());
  const DType dtype = call.type().dtype;
  const Literal input = converted(call.in(0), dtype), kernel = converted(call.in(1), dtype);
  const Dims in_strides = strides_of(input.type.dims), kernel_strides = strides_of(kernel.type.dims);
  const auto size = [](const Literal& l, int64_t dim) { return l.type.dims[static_cast<size_t>(dim)]; };
  const int64_t features = size(kernel, d.kernel_input), outputs = size(kernel, d.kernel_output);
  const int64_t outputs_a_group = outputs / d.feature_groups, outputs_a_batch_group = outputs / d.batch_groups,
                batches = size(input, d.input_batch) / d.batch_groups;
  const Dims kernel_sizes = picked(kernel.type.dims, d.kernel_spatial);
  Literal out(call.type());
  for_each_index(out.type.dims, [&](const Dims& index, int64_t i) {
    const int64_t o = index[static_cast<size_t>(d.output_feature)];
    const int64_t batch = index[static_cast<size_t>(d.output_batch)] + o / outputs_a_batch_group * batches;
    const int64_t first_feature = o / outputs_a_group * features;
    Sum sum(dtype);
    for_each_index(kernel_sizes, [&](const Dims& k, int64_t) {
      int64_t from = batch * in_strides[static_cast<size_t>(d.input_batch)];
      if (!input_position(d, input.type.dims, index, k, kernel_sizes, in_strides, from)) return;
      int64_t weight = o * kernel_strides[static_cast<size_t>(d.kernel_output)];
      for (size_t s = 0; s < k.size(); ++s) weight += k[s] * kernel_strides[static_cast<size_t>(d.kernel_spatial[s])];
      for (int64_t f = 0; f < features; ++f)
        sum.add_product(element(input, from + (first_feature + f) * in_strides[static_cast<size_t>(d.input_feature)]),
                        element(kernel, weight + f * kernel_strides[static_cast<size_t>(d.kernel_input)]));
    });
    sum.store(element(out, i));
  });
  return one(std::move(out));
}

}  // namespace

OpFn product_function(OpCode code) {
  switch (code) {
    case OpCode::DotGeneral:
      return dot_general;
    case OpCode::Convolution:
      return convolution;
    default:
      return nullptr;
  }
}

}  // namespace thalweg::interp
