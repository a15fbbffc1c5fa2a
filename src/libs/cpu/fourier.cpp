// Stockham passes, Bluestein's convolution, and the walk over dims.
#include "libs/cpu/fourier.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

#include "libs/cpu/parallel.h"

namespace thalweg::libs::cpu {
namespace {

using Complex = std::complex<double>;

constexpr int64_t kLargestFactor = 31;  // a pass of radix p costs p operations an element

// exp(-2πi·k/n).
Complex root(int64_t k, int64_t n) {
  const long double angle = -2 * std::numbers::pi_v<long double> * static_cast<long double>(k) / static_cast<long double>(n);
  return {static_cast<double>(std::cos(angle)), static_cast<double>(std::sin(angle))};
}

// Without the checks for infinities that std::complex's operator makes.
inline Complex times(Complex a, Complex b) { return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()}; }

// Factors of n, fours first; the last one may be larger than kLargestFactor.
std::vector<int64_t> factors_of(int64_t n) {
  std::vector<int64_t> factors;
  for (int64_t p : {4, 2, 3, 5})
    for (; n % p == 0; n /= p) factors.push_back(p);
  for (int64_t p = 7; p * p <= n; p += 2)
    for (; n % p == 0; n /= p) factors.push_back(p);
  if (n > 1) factors.push_back(n);
  return factors;
}

}  // namespace

FourierTransform::FourierTransform(int64_t n) : n_(n), factors_(factors_of(n)) {
  const bool simple = std::all_of(factors_.begin(), factors_.end(), [](int64_t p) { return p <= kLargestFactor; });
  if (simple) {
    for (int64_t k = 0; k < n; ++k) roots_.push_back(root(k, n));
    return;
  }
  // jk = (j² + k² - (k - j)²) / 2 makes the sum a convolution with exp(+πi·d²/n).
  for (int64_t k = 0; k < n; ++k) chirp_.push_back(root(k * k % (2 * n), 2 * n));
  const auto size = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(2 * n - 1)));
  inner_.emplace_back(size);
  filter_.assign(static_cast<size_t>(size), Complex());
  for (int64_t k = 0; k < n; ++k) filter_[static_cast<size_t>(k)] = filter_[static_cast<size_t>((size - k) % size)] = std::conj(chirp_[static_cast<size_t>(k)]);
  std::vector<Complex> scratch;
  inner_[0].run(filter_.data(), false, scratch);
}

// Each pass splits one factor p off the length: m = length / p, `s` transforms stand interleaved.
void FourierTransform::passes(Complex* x, Complex* spare) const {
  Complex *from = x, *to = spare;
  int64_t length = n_, s = 1;
  for (int64_t p : factors_) {
    const int64_t m = length / p;
    for (int64_t q = 0; q < m; ++q) {
      const Complex *a = from + s * q, *twiddles = roots_.data();
      Complex* b = to + s * p * q;
      for (int64_t k = 0; k < s; ++k) {
        if (p == 2) {
          const Complex u = a[k], v = a[k + s * m];
          b[k] = u + v, b[k + s] = times(u - v, twiddles[q * s]);
        } else if (p == 4) {
          const Complex a0 = a[k], a1 = a[k + s * m], a2 = a[k + 2 * s * m], a3 = a[k + 3 * s * m];
          const Complex even = a0 + a2, odd = a1 + a3, low = a0 - a2, turned{(a1 - a3).imag(), -(a1 - a3).real()};  // -i (a1 - a3)
          b[k] = even + odd, b[k + s] = times(low + turned, twiddles[q * s]);
          b[k + 2 * s] = times(even - odd, twiddles[2 * q * s]), b[k + 3 * s] = times(low - turned, twiddles[3 * q * s]);
        } else {
          for (int64_t r = 0; r < p; ++r) {
            Complex sum = a[k];
            for (int64_t j = 1; j < p; ++j) sum += times(a[k + j * s * m], twiddles[j * r % p * (n_ / p)]);
            b[k + r * s] = times(sum, twiddles[q * r * s]);
          }
        }
      }
    }
    std::swap(from, to);
    length = m, s *= p;
  }
  if (from != x) std::copy(from, from + n_, x);
}

void FourierTransform::forward(Complex* x, std::vector<Complex>& scratch) const {
  if (inner_.empty()) {
    if (static_cast<int64_t>(scratch.size()) < n_) scratch.resize(static_cast<size_t>(n_));
    return passes(x, scratch.data());
  }
  const int64_t size = inner_[0].length();
  std::vector<Complex> padded(static_cast<size_t>(size));
  for (int64_t k = 0; k < n_; ++k) padded[static_cast<size_t>(k)] = times(x[k], chirp_[static_cast<size_t>(k)]);
  inner_[0].run(padded.data(), false, scratch);
  for (size_t k = 0; k < padded.size(); ++k) padded[k] = times(padded[k], filter_[k]);
  inner_[0].run(padded.data(), true, scratch);
  for (int64_t k = 0; k < n_; ++k) x[k] = times(padded[static_cast<size_t>(k)], chirp_[static_cast<size_t>(k)]);
}

void FourierTransform::run(Complex* x, bool inverse, std::vector<Complex>& scratch) const {
  if (!inverse) return forward(x, scratch);
  // The inverse is the forward transform of the conjugate, conjugated.
  for (int64_t k = 0; k < n_; ++k) x[k] = std::conj(x[k]);
  forward(x, scratch);
  for (int64_t k = 0; k < n_; ++k) x[k] = std::conj(x[k]) / static_cast<double>(n_);
}

namespace {

using Values = std::vector<Complex>;

int64_t product(const std::vector<int64_t>& dims, size_t begin, size_t end) {
  int64_t n = 1;
  for (size_t d = begin; d < end; ++d) n *= dims[d];
  return n;
}

void transform_dim(Values& values, const std::vector<int64_t>& dims, size_t dim, bool inverse) {
  const int64_t n = dims[dim], stride = product(dims, dim + 1, dims.size()), rows = n == 0 ? 0 : static_cast<int64_t>(values.size()) / n;
  if (n <= 1) return;
  const FourierTransform transform(n);
  parallel_for(rows, std::max<int64_t>(1, 4096 / n), [&](int64_t begin, int64_t end) {
    Values row(static_cast<size_t>(n)), scratch;
    for (int64_t r = begin; r < end; ++r) {
      Complex* at = values.data() + r / stride * stride * n + r % stride;
      for (int64_t k = 0; k < n; ++k) row[static_cast<size_t>(k)] = at[k * stride];
      transform.run(row.data(), inverse, scratch);
      for (int64_t k = 0; k < n; ++k) at[k * stride] = row[static_cast<size_t>(k)];
    }
  });
}

// The first `length` elements of each row of the last dim (`n` long); the missing ones are conjugates of what lies opposite.
Values resized(const Values& values, int64_t n, int64_t length) {
  Values out;
  const int64_t rows = n == 0 ? 0 : static_cast<int64_t>(values.size()) / n;
  out.reserve(static_cast<size_t>(rows * length));
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t k = 0; k < length; ++k)
      out.push_back(k < n ? values[static_cast<size_t>(row * n + k)] : std::conj(values[static_cast<size_t>(row * n + length - k)]));
  return out;
}

template <class T>
Values loaded(const void* in, int64_t n, bool complex) {
  const T* from = static_cast<const T*>(in);
  Values values(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) values[static_cast<size_t>(i)] = complex ? Complex(from[2 * i], from[2 * i + 1]) : Complex(from[i], 0);
  return values;
}

template <class T>
void stored(const Values& values, void* out, bool complex) {
  T* to = static_cast<T*>(out);
  for (const Complex& value : values) {
    *to++ = static_cast<T>(value.real());
    if (complex) *to++ = static_cast<T>(value.imag());
  }
}

}  // namespace

void fourier(Fourier kind, bool wide, const std::vector<int64_t>& dims, int64_t axes, int64_t length, const void* in, void* out) {
  const int64_t n = product(dims, 0, dims.size());
  const bool complex_in = kind != Fourier::RealForward, complex_out = kind != Fourier::RealInverse, inverse = kind == Fourier::Inverse || !complex_out;
  Values values = wide ? loaded<double>(in, n, complex_in) : loaded<float>(in, n, complex_in);
  std::vector<int64_t> shape = dims;
  const size_t first = dims.size() - static_cast<size_t>(axes), last = dims.size() - 1;
  if (complex_out) {
    // A real row's transform is cut to its half before the other dims are taken: they commute.
    transform_dim(values, shape, last, inverse);
    if (kind == Fourier::RealForward) values = resized(values, shape.back(), length / 2 + 1), shape.back() = length / 2 + 1;
    for (size_t d = first; d < last; ++d) transform_dim(values, shape, d, inverse);
  } else {
    for (size_t d = first; d < last; ++d) transform_dim(values, shape, d, inverse);
    values = resized(values, shape.back(), length), shape.back() = length;
    transform_dim(values, shape, last, inverse);
  }
  wide ? stored<double>(values, out, complex_out) : stored<float>(values, out, complex_out);
}

}  // namespace thalweg::libs::cpu
