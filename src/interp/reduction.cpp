// Reductions, windows, sorting, map and batch norm.
#include <cmath>
#include <numeric>

#include "interp/indexing.h"
#include "interp/machine.h"
#include "ir/dimension_numbers.h"

namespace thalweg::interp {
namespace {

using ir::Dims;
using ir::Literal;
using ir::OpCode;

// Results filled with the initial values, operands [n, 2n), converted by nothing: the region's types are the results'.
std::vector<Literal> initial_results(const Call& call, size_t n) {
  std::vector<Literal> out;
  for (size_t k = 0; k < n; ++k) {
    out.emplace_back(call.type(k));
    for (int64_t i = 0; i < out[k].type.size(); ++i) copy_element(out[k], i, call.in(n + k), 0);
  }
  return out;
}

Literal scalar_at(const Literal& from, int64_t i) {
  Literal scalar(ir::tensor(from.type.dtype));
  copy_element(scalar, 0, from, i);
  return scalar;
}

// out[k][to] = region(out[k][to]…, in[k][from]…); -1 takes the initial values.
void accumulate(const Call& call, const Reducer& reducer, std::vector<Literal>& out, int64_t to, int64_t from) {
  const size_t n = out.size();
  if (n == 1) {
    Literal accumulator = scalar_at(out[0], to);
    reducer.apply(accumulator, from < 0 ? element(call.in(1), 0) : element(call.in(0), from));
    copy_element(out[0], to, accumulator, 0);
    return;
  }
  std::vector<Literal> args;
  for (size_t k = 0; k < n; ++k) args.push_back(scalar_at(out[k], to));
  for (size_t k = 0; k < n; ++k) args.push_back(from < 0 ? call.in(n + k) : scalar_at(call.in(k), from));
  const std::vector<Literal> next = call.machine.run(call.region(), std::move(args));
  for (size_t k = 0; k < n; ++k) copy_element(out[k], to, next[k], 0);
}

// Elements are taken in the operand's row-major order, the initial value first.
std::vector<Literal> reduce(const Call& call) {
  const size_t n = call.operands.size() / 2;
  const Dims& dims = call.in(0).type.dims;
  std::vector<bool> reduced(dims.size(), false);
  for (int64_t d : call.attrs().ints("dimensions")) reduced[static_cast<size_t>(d)] = true;
  std::vector<Literal> out = initial_results(call, n);
  const Dims out_strides = strides_of(call.type().dims);
  const Reducer reducer(call.machine, call.region());
  for_each_index(dims, [&](const Dims& index, int64_t i) {
    int64_t to = 0;
    for (size_t d = 0, kept = 0; d < dims.size(); ++d)
      if (!reduced[d]) to += index[d] * out_strides[kept++];
    accumulate(call, reducer, out, to, i);
  });
  return out;
}

// Calls visit(offset) for each place under the window at `position`, in row-major order of the window; the offset of a hole or of padding is -1.
template <class Visit>
void for_each_in_window(const ir::Window& w, const Dims& dims, const Dims& position, const Visit& visit) {
  const Dims strides = strides_of(dims);
  for_each_index(w.size, [&](const Dims& inner, int64_t) {
    int64_t offset = 0;
    for (size_t d = 0; d < dims.size(); ++d) {
      const int64_t at = position[d] * w.stride[d] + inner[d] * w.window_dilation[d] - w.pad_low[d];
      if (at < 0 || at % w.base_dilation[d] != 0 || at / w.base_dilation[d] >= dims[d]) return visit(-1);
      offset += at / w.base_dilation[d] * strides[d];
    }
    visit(offset);
  });
}

// Padding and the holes of base dilation are elements too: they hold the initial value.
std::vector<Literal> reduce_window(const Call& call) {
  const size_t n = call.operands.size() / 2;
  const Dims& dims = call.in(0).type.dims;
  const ir::Window w = ir::window_of(call.attrs(), static_cast<int64_t>(dims.size()));
  std::vector<Literal> out = initial_results(call, n);
  const Reducer reducer(call.machine, call.region());
  for_each_index(call.type().dims, [&](const Dims& position, int64_t to) {
    for_each_in_window(w, dims, position, [&](int64_t from) { accumulate(call, reducer, out, to, from); });
  });
  return out;
}

// For each window the element that `select` keeps gets the source value scattered onto it.
std::vector<Literal> select_and_scatter(const Call& call) {
  const Literal &operand = call.in(0), &source = call.in(1);
  const ir::Window w = ir::window_of(call.attrs(), operand.type.rank());
  Literal out(call.type());
  for (int64_t i = 0; i < out.type.size(); ++i) copy_element(out, i, call.in(2), 0);
  const Reducer scatter(call.machine, call.region(1));
  for_each_index(source.type.dims, [&](const Dims& position, int64_t i) {
    int64_t selected = -1;
    for_each_in_window(w, operand.type.dims, position, [&](int64_t from) {
      if (from < 0) return;
      if (selected < 0) {
        selected = from;
        return;
      }
      std::vector<Literal> args{scalar_at(operand, selected), scalar_at(operand, from)};
      if (to_int(call.machine.run(call.region(0), std::move(args))[0], 0) == 0) selected = from;
    });
    if (selected < 0) return;
    Literal value = scalar_at(out, selected);
    scatter.apply(value, element(source, i));
    copy_element(out, selected, value, 0);
  });
  return one(std::move(out));
}

// Merge sort: stable, and safe with a comparator that is no order.
template <class Less>
void merge_sort(std::vector<int64_t>& order, size_t begin, size_t end, std::vector<int64_t>& spare, const Less& less) {
  if (end - begin < 2) return;
  const size_t middle = begin + (end - begin) / 2;
  merge_sort(order, begin, middle, spare, less);
  merge_sort(order, middle, end, spare, less);
  size_t a = begin, b = middle, to = begin;
  while (a < middle && b < end) spare[to++] = less(order[b], order[a]) ? order[b++] : order[a++];
  while (a < middle) spare[to++] = order[a++];
  while (b < end) spare[to++] = order[b++];
  std::copy(spare.begin() + static_cast<ptrdiff_t>(begin), spare.begin() + static_cast<ptrdiff_t>(end), order.begin() + static_cast<ptrdiff_t>(begin));
}

std::vector<Literal> sort(const Call& call) {
  const size_t n = call.operands.size();
  const Dims& dims = call.in(0).type.dims;
  int64_t dim = call.attrs().integer("dimension", -1);
  if (dim < 0) dim += static_cast<int64_t>(dims.size());
  const auto d = static_cast<size_t>(dim);
  std::vector<Literal> out;
  for (size_t k = 0; k < n; ++k) out.emplace_back(call.type(k));
  if (dims.empty()) {
    for (size_t k = 0; k < n; ++k) out[k] = call.in(k);
    return out;
  }
  Dims rows = dims;
  rows[d] = 1;
  const int64_t length = dims[d], stride = strides_of(dims)[d];
  const Dims strides = strides_of(dims);
  std::vector<int64_t> order(static_cast<size_t>(length)), spare(order);
  for_each_index(rows, [&](const Dims& row, int64_t) {
    const int64_t start = offset_of(row, strides);
    std::iota(order.begin(), order.end(), 0);
    merge_sort(order, 0, order.size(), spare, [&](int64_t a, int64_t b) {
      std::vector<Literal> args;
      for (size_t k = 0; k < n; ++k) {
        args.push_back(scalar_at(call.in(k), start + a * stride));
        args.push_back(scalar_at(call.in(k), start + b * stride));
      }
      return to_int(call.machine.run(call.region(), std::move(args))[0], 0) != 0;
    });
    for (size_t k = 0; k < n; ++k)
      for (int64_t i = 0; i < length; ++i) copy_element(out[k], start + i * stride, call.in(k), start + order[static_cast<size_t>(i)] * stride);
  });
  return out;
}

std::vector<Literal> map(const Call& call) {
  Literal out(call.type());
  for (int64_t i = 0; i < out.type.size(); ++i) {
    std::vector<Literal> args;
    for (size_t k = 0; k < call.operands.size(); ++k) args.push_back(scalar_at(call.in(k), i));
    copy_element(out, i, call.machine.run(call.region(), std::move(args))[0], 0);
  }
  return one(std::move(out));
}

// Batch norm: figures of one feature are computed in double and rounded once.
struct Features {
  explicit Features(const Call& call)
      : dims(call.in(0).type.dims),
        feature(static_cast<size_t>(call.attrs().integer("feature_index"))),
        epsilon(call.attrs().real("epsilon")),
        count(dims[feature]) {
    const int64_t size = call.in(0).type.size();
    per_feature = count == 0 ? 0 : static_cast<double>(size) / static_cast<double>(count);
  }
  const Dims& dims;
  size_t feature;
  double epsilon;
  int64_t count;
  double per_feature;
};

// sum over all elements of each feature of term(index number, feature)
template <class Term>
std::vector<double> feature_sums(const Features& f, const Term& term) {
  std::vector<double> sums(static_cast<size_t>(f.count), 0.0);
  for_each_index(f.dims, [&](const Dims& index, int64_t i) { sums[static_cast<size_t>(index[f.feature])] += term(i, index[f.feature]); });
  return sums;
}

Literal vector_of(const ir::Type& type, const std::vector<double>& values) {
  Literal out(type);
  for (size_t i = 0; i < values.size(); ++i) ir::store_double(type.dtype, element(out, static_cast<int64_t>(i)), values[i]);
  return out;
}

Literal normalized(const Call& call, const Features& f, const std::vector<double>& mean, const std::vector<double>& variance) {
  Literal out(call.type());
  for_each_index(f.dims, [&](const Dims& index, int64_t i) {
    const int64_t c = index[f.feature];
    const auto k = static_cast<size_t>(c);
    const double x = (to_double(call.in(0), i) - mean[k]) / std::sqrt(variance[k] + f.epsilon);
    ir::store_double(out.type.dtype, element(out, i), x * to_double(call.in(1), c) + to_double(call.in(2), c));
  });
  return out;
}

std::vector<double> doubles(const Literal& literal) {
  std::vector<double> values;
  for (int64_t i = 0; i < literal.type.size(); ++i) values.push_back(to_double(literal, i));
  return values;
}

std::vector<Literal> batch_norm_inference(const Call& call) {
  const Features f(call);
  return one(normalized(call, f, doubles(call.in(3)), doubles(call.in(4))));
}

std::vector<Literal> batch_norm_training(const Call& call) {
  const Features f(call);
  std::vector<double> mean = feature_sums(f, [&](int64_t i, int64_t) { return to_double(call.in(0), i); });
  for (double& m : mean) m /= f.per_feature;
  std::vector<double> variance = feature_sums(f, [&](int64_t i, int64_t c) { return std::pow(to_double(call.in(0), i) - mean[static_cast<size_t>(c)], 2); });
  for (double& v : variance) v /= f.per_feature;
  std::vector<Literal> out = one(normalized(call, f, mean, variance));
  out.push_back(vector_of(call.type(1), mean));
  out.push_back(vector_of(call.type(2), variance));
  return out;
}

// Operands: input, scale, mean, variance, gradient of the output.
std::vector<Literal> batch_norm_grad(const Call& call) {
  const Features f(call);
  const Literal &input = call.in(0), &gradient = call.in(4);
  const std::vector<double> scale = doubles(call.in(1)), mean = doubles(call.in(2)), variance = doubles(call.in(3));
  const auto centered = [&](int64_t i, int64_t c) { return to_double(input, i) - mean[static_cast<size_t>(c)]; };
  const std::vector<double> offset_gradient = feature_sums(f, [&](int64_t i, int64_t) { return to_double(gradient, i); });
  const std::vector<double> weighted = feature_sums(f, [&](int64_t i, int64_t c) { return to_double(gradient, i) * centered(i, c); });
  std::vector<double> scale_gradient(weighted.size());
  for (size_t k = 0; k < weighted.size(); ++k) scale_gradient[k] = weighted[k] / std::sqrt(variance[k] + f.epsilon);
  Literal out(call.type());
  for_each_index(f.dims, [&](const Dims& index, int64_t i) {
    const int64_t c = index[f.feature];
    const auto k = static_cast<size_t>(c);
    const double inverse = 1 / std::sqrt(variance[k] + f.epsilon);
    const double g = to_double(gradient, i) - offset_gradient[k] / f.per_feature - centered(i, c) * inverse * inverse * weighted[k] / f.per_feature;
    ir::store_double(out.type.dtype, element(out, i), g * scale[k] * inverse);
  });
  std::vector<Literal> results = one(std::move(out));
  results.push_back(vector_of(call.type(1), scale_gradient));
  results.push_back(vector_of(call.type(2), offset_gradient));
  return results;
}

}  // namespace

OpFn reduction_function(OpCode code) {
  switch (code) {
    case OpCode::Reduce:
      return reduce;
    case OpCode::ReduceWindow:
      return reduce_window;
    case OpCode::SelectAndScatter:
      return select_and_scatter;
    case OpCode::Sort:
      return sort;
    case OpCode::Map:
      return map;
    case OpCode::BatchNormInference:
      return batch_norm_inference;
    case OpCode::BatchNormTraining:
      return batch_norm_training;
    case OpCode::BatchNormGrad:
      return batch_norm_grad;
    default:
      return nullptr;
  }
}

}  // namespace thalweg::interp
