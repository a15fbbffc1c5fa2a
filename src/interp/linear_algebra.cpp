// Fourier transforms, Cholesky factors and triangular systems, by their definitions in long double.
#include <cmath>
#include <complex>
#include <numbers>

#include "interp/indexing.h"
#include "interp/machine.h"

namespace thalweg::interp {
namespace {

using ir::Dims;
using ir::DType;
using ir::Literal;
using ir::OpCode;
using Number = std::complex<long double>;

std::vector<Number> numbers_of(const Literal& in) {
  const DType part = real_dtype(in.type.dtype);
  std::vector<Number> out;
  for (int64_t i = 0; i < in.type.size(); ++i) {
    const std::byte* at = element(in, i);
    out.emplace_back(ir::load_double(part, at), is_complex(in.type.dtype) ? ir::load_double(part, at + byte_size(part)) : 0.0);
  }
  return out;
}

Literal literal_of(const ir::Type& type, const std::vector<Number>& values) {
  Literal out(type);
  for (size_t i = 0; i < values.size(); ++i) {
    const auto re = static_cast<double>(values[i].real()), im = static_cast<double>(values[i].imag());
    if (is_complex(type.dtype))
      ir::store_complex(type.dtype, element(out, static_cast<int64_t>(i)), re, im);
    else
      ir::store_double(type.dtype, element(out, static_cast<int64_t>(i)), re);
  }
  return out;
}

// The discrete Fourier transform along dimension `dim` of a tensor of shape `dims`, from `sign` -1 (forward) or +1 (inverse, scaled by 1/n).
void transform(std::vector<Number>& values, const Dims& dims, size_t dim, int sign) {
  const int64_t n = dims[dim], stride = strides_of(dims)[dim];
  const Dims strides = strides_of(dims);
  std::vector<Number> roots, row(static_cast<size_t>(n));
  for (int64_t k = 0; k < n; ++k) {
    const long double angle = sign * 2 * std::numbers::pi_v<long double> * static_cast<long double>(k) / static_cast<long double>(n);
    roots.emplace_back(std::cos(angle), std::sin(angle));
  }
  Dims rows = dims;
  rows[dim] = 1;
  for_each_index(rows, [&](const Dims& index, int64_t) {
    const int64_t start = offset_of(index, strides);
    for (int64_t k = 0; k < n; ++k) {
      Number sum = 0;
      for (int64_t j = 0; j < n; ++j) sum += values[static_cast<size_t>(start + j * stride)] * roots[static_cast<size_t>(j * k % n)];
      row[static_cast<size_t>(k)] = sign > 0 ? sum / static_cast<long double>(n) : sum;
    }
    for (int64_t k = 0; k < n; ++k) values[static_cast<size_t>(start + k * stride)] = row[static_cast<size_t>(k)];
  });
}

// The last dimension cut to its first `length`, or, the other way round, completed by conjugate symmetry from its first half.
std::vector<Number> resized_last(const std::vector<Number>& values, const Dims& dims, int64_t length) {
  const int64_t n = dims.back();
  std::vector<Number> out;
  for (int64_t row = 0; row < (n == 0 ? 0 : static_cast<int64_t>(values.size()) / n); ++row)
    for (int64_t k = 0; k < length; ++k)
      out.push_back(k < n ? values[static_cast<size_t>(row * n + k)] : std::conj(values[static_cast<size_t>(row * n + length - k)]));
  return out;
}

std::vector<Literal> fft(const Call& call) {
  const Dims& length = call.attrs().ints("fft_length");
  const std::string& type = call.attrs().string("fft_type");
  Dims dims = call.in(0).type.dims;
  std::vector<Number> values = numbers_of(call.in(0));
  const size_t first = dims.size() - length.size();
  const int sign = type == "FFT" || type == "RFFT" ? -1 : 1;
  // IRFFT: all dimensions but the last first, so that the rows of the last one have conjugate symmetry.
  const size_t last = type == "IRFFT" ? dims.size() - 1 : dims.size();
  for (size_t d = first; d < last; ++d) transform(values, dims, d, sign);
  if (type == "IRFFT") {
    values = resized_last(values, dims, length.back());
    dims.back() = length.back();
    transform(values, dims, dims.size() - 1, sign);
  } else if (type == "RFFT") {
    values = resized_last(values, dims, length.back() / 2 + 1);
  }
  return one(literal_of(call.type(), values));
}

// One n×n matrix at `a`: row-major, columns `n`.
struct Matrix {
  Number* a;
  int64_t rows, columns;
  Number& operator()(int64_t i, int64_t j) const { return a[i * columns + j]; }
};

std::vector<Literal> cholesky(const Call& call) {
  const bool lower = call.attrs().boolean("lower", false);
  std::vector<Number> values = numbers_of(call.in(0));
  const int64_t n = call.type().dims.back();
  for (int64_t start = 0; n > 0 && start < static_cast<int64_t>(values.size()); start += n * n) {
    const Matrix m{values.data() + start, n, n};
    // The lower factor of the matrix; an upper one is its conjugate transpose.
    const auto input = [&](int64_t i, int64_t j) { return lower ? m(i, j) : std::conj(m(j, i)); };
    std::vector<Number> factor(static_cast<size_t>(n * n));
    const Matrix l{factor.data(), n, n};
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t i = j; i < n; ++i) {
        Number sum = input(i, j);
        for (int64_t k = 0; k < j; ++k) sum -= l(i, k) * std::conj(l(j, k));
        l(i, j) = i == j ? Number(std::sqrt(sum.real())) : sum / l(j, j);
      }
    }
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) m(i, j) = lower ? l(i, j) : std::conj(l(j, i));
  }
  return one(literal_of(call.type(), values));
}

// Solves op(a) x = b in place of b, column by column; `at(i, j)` reads op(a).
template <class At>
void solve_columns(const At& at, int64_t n, bool lower, bool unit, const Matrix& b, bool transposed_b) {
  const int64_t columns = transposed_b ? b.rows : b.columns;
  const auto x = [&](int64_t i, int64_t c) -> Number& { return transposed_b ? b(c, i) : b(i, c); };
  for (int64_t c = 0; c < columns; ++c) {
    for (int64_t step = 0; step < n; ++step) {
      const int64_t i = lower ? step : n - 1 - step;
      Number sum = x(i, c);
      for (int64_t k = lower ? 0 : i + 1; k < (lower ? i : n); ++k) sum -= at(i, k) * x(k, c);
      x(i, c) = unit ? sum : sum / at(i, i);
    }
  }
}

std::vector<Literal> triangular_solve(const Call& call) {
  const bool left = call.attrs().boolean("left_side", false), unit = call.attrs().boolean("unit_diagonal", false);
  bool lower = call.attrs().boolean("lower", false);
  const std::string transpose = call.attrs().string("transpose_a", "NO_TRANSPOSE");
  std::vector<Number> a = numbers_of(call.in(0)), b = numbers_of(call.in(1));
  const Dims& b_dims = call.type().dims;
  const int64_t n = call.in(0).type.dims.back(), rows = b_dims[b_dims.size() - 2], columns = b_dims.back();
  const bool transposed = (transpose != "NO_TRANSPOSE") != !left;  // x op(a) = b is op(a)^T x^T = b^T
  const bool conjugated = transpose == "ADJOINT";
  if (transposed) lower = !lower;
  for (int64_t m = 0; rows * columns > 0 && m < static_cast<int64_t>(b.size()) / (rows * columns); ++m) {
    const Matrix matrix{a.data() + m * n * n, n, n};
    const auto at = [&](int64_t i, int64_t j) {
      const Number v = transposed ? matrix(j, i) : matrix(i, j);
      return conjugated ? std::conj(v) : v;
    };
    solve_columns(at, n, lower, unit, Matrix{b.data() + m * rows * columns, rows, columns}, !left);
  }
  return one(literal_of(call.type(), b));
}

}  // namespace

OpFn linear_algebra_function(OpCode code) {
  switch (code) {
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

}  // namespace thalweg::interp
