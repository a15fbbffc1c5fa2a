// LAPACK's potrf reads columns first, so a lower factor of rows is its upper one; CBLAS's trsm takes rows as they are.
#include "libs/cpu/lapack.h"

#include <algorithm>
#include <complex>
#include <cstring>
#include <limits>
#include <string>

#include "libs/cpu/blas.h"
#include "libs/cpu/parallel.h"
#include "support/error.h"

namespace thalweg::libs::cpu {
namespace {

enum : int {
  kRowMajor = 101,
  kNoTrans = 111,
  kTrans = 112,
  kConjTrans = 113,
  kUpper = 121,
  kLower = 122,
  kNonUnit = 131,
  kUnit = 132,
  kLeft = 141,
  kRight = 142
};

int as_int(int64_t n) {
  THALWEG_CHECK(n <= std::numeric_limits<int>::max(), Unsupported, "linear algebra: dimensions must be below 2^31, got ", n);
  return static_cast<int>(n);
}

// The letter that BLAS's and LAPACK's names have for an element type.
template <class T>
constexpr char kLetter = 0;
template <>
constexpr char kLetter<float> = 's';
template <>
constexpr char kLetter<double> = 'd';
template <>
constexpr char kLetter<std::complex<float>> = 'c';
template <>
constexpr char kLetter<std::complex<double>> = 'z';

template <class T>
void factor_all(int64_t batch, int64_t n, bool lower, const T* a, T* factor) {
  using Potrf = void (*)(const char* triangle, const int* n, T* a, const int* lda, int* info, size_t triangle_length);
  static const auto potrf = reinterpret_cast<Potrf>(blas_symbol(std::string(1, kLetter<T>) + "potrf_"));
  const int size = as_int(n);
  parallel_for(batch, std::max<int64_t>(1, 200'000 / std::max<int64_t>(1, n * n * n / 3)), [&](int64_t begin, int64_t end) {
    for (int64_t m = begin; m < end; ++m) {
      T* to = factor + m * n * n;
      std::copy(a + m * n * n, a + (m + 1) * n * n, to);
      int info = 0;
      potrf(lower ? "U" : "L", &size, to, &size, &info, 1);
      if (info != 0) std::fill(to, to + n * n, T(std::numeric_limits<double>::quiet_NaN()));
      for (int64_t i = 0; i < n && info == 0; ++i) {
        if (lower) {
          std::fill(to + i * n + i + 1, to + (i + 1) * n, T(0));
        } else {
          std::fill(to + i * n, to + i * n + i, T(0));
        }
      }
    }
  });
}

template <class T>
constexpr bool kIsComplex = false;
template <class T>
constexpr bool kIsComplex<std::complex<T>> = true;

template <class T>
void solve_all(const TriangularSystem& s, const T* a, const T* b, T* x) {
  // CBLAS takes real factors by value and complex ones by address.
  using Alpha = std::conditional_t<kIsComplex<T>, const void*, T>;
  using Trsm = void (*)(int order, int side, int triangle, int form, int diagonal, int m, int n, Alpha alpha, const T* a, int lda, T* b, int ldb);
  static const auto trsm = reinterpret_cast<Trsm>(blas_symbol(std::string("cblas_") + kLetter<T> + "trsm"));
  const int64_t n = s.left ? s.rows : s.columns, size = s.rows * s.columns;
  const int form = s.form == TriangularSystem::Form::Plain ? kNoTrans : s.form == TriangularSystem::Form::Transposed ? kTrans : kConjTrans;
  const int rows = as_int(s.rows), columns = as_int(s.columns), lda = as_int(n);
  const T one(1);
  Alpha alpha;
  if constexpr (kIsComplex<T>)
    alpha = &one;
  else
    alpha = one;
  parallel_for(s.batch, std::max<int64_t>(1, 400'000 / std::max<int64_t>(1, n * size)), [&](int64_t begin, int64_t end) {
    for (int64_t m = begin; m < end; ++m) {
      std::copy(b + m * size, b + (m + 1) * size, x + m * size);
      trsm(kRowMajor, s.left ? kLeft : kRight, s.lower ? kLower : kUpper, form, s.unit ? kUnit : kNonUnit, rows, columns, alpha, a + m * n * n, lda,
           x + m * size, columns);
    }
  });
}

// Calls fn with a null pointer of the element's type.
template <class Fn>
void for_number(Number number, const Fn& fn) {
  switch (number) {
    case Number::F32:
      return fn(static_cast<float*>(nullptr));
    case Number::F64:
      return fn(static_cast<double*>(nullptr));
    case Number::C64:
      return fn(static_cast<std::complex<float>*>(nullptr));
    case Number::C128:
      return fn(static_cast<std::complex<double>*>(nullptr));
  }
}

}  // namespace

void cholesky(Number number, int64_t batch, int64_t n, bool lower, const void* a, void* factor) {
  if (batch == 0 || n == 0) return;
  for_number(number, [&]<class T>(T*) { factor_all(batch, n, lower, static_cast<const T*>(a), static_cast<T*>(factor)); });
}

void triangular_solve(Number number, const TriangularSystem& system, const void* a, const void* b, void* x) {
  if (system.batch == 0 || system.rows == 0 || system.columns == 0) return;
  for_number(number, [&]<class T>(T*) { solve_all(system, static_cast<const T*>(a), static_cast<const T*>(b), static_cast<T*>(x)); });
}

}  // namespace thalweg::libs::cpu
