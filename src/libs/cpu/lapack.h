// Cholesky factors and triangular systems by OpenBLAS, batches of small row-major matrices over the pool of parallel.h.
#pragma once

#include <cstdint>

namespace thalweg::libs::cpu {

// Element types of matrices.
enum class Number : uint8_t { F32, F64, C64, C128 };

// Factors `batch` Hermitian n × n matrices at `a` into `factor`: a = L · Lᴴ (lower) or Uᴴ · U, of which only that triangle of `a` is read; the other triangle
// of the result is zero. A matrix that is not positive definite gives NaN everywhere. The two do not overlap. Throws Error(Missing) without a library.
void cholesky(Number number, int64_t batch, int64_t n, bool lower, const void* a, void* factor);

// op(a) · x = b, or x · op(a) = b when not `left`; a is triangular, n × n; b and x are rows × columns.
struct TriangularSystem {
  enum class Form : uint8_t { Plain, Transposed, Adjoint };
  int64_t batch = 1, rows = 0, columns = 0;
  bool left = true, lower = true, unit = false;
  Form form = Form::Plain;
};
// Solves `batch` systems; x overlaps neither. Throws Error(Missing) without a library.
void triangular_solve(Number number, const TriangularSystem& system, const void* a, const void* b, void* x);

}  // namespace thalweg::libs::cpu
