// Matrix products of f32 and f64 by OpenBLAS, loaded on first use, run on the pool of parallel.h.
#pragma once

#include <cstdint>
#include <string>

namespace thalweg::libs::cpu {

// The library to load instead of the one found by itself; before the first product. (Else: THALWEG_OPENBLAS, the PyPI package scipy-openblas32 in the
// site-packages above this module or in a .venv above it, or the system's libopenblas.so.0.)
void set_blas_library(std::string path);
// True when a library could be loaded; `detail` gets its path, version and kernels, or the reason why not and what to install.
bool blas_available(std::string* detail = nullptr);
// A function of that library by its plain name (spotrf_, cblas_strsm …), whatever prefix its build puts before names. Throws Error(Missing) when there is no
// library or no such function. Thread-safe.
void* blas_symbol(const std::string& name);

// C = alpha · op(A) · op(B) + beta · C, all row-major: op(A) is m × k, op(B) k × n, C m × n; `trans_a` means that A is stored k × m. Leading dimensions are the
// strides of stored rows in elements. With beta 0, C need not be initialised. C overlaps neither A nor B. The same bits whatever threads() is. Throws
// Error(Missing) when there is no library, Error(Unsupported) for a dimension of 2^31 or more.
void gemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float* a, int64_t lda, const float* b, int64_t ldb, float beta,
          float* c, int64_t ldc);
void gemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, double alpha, const double* a, int64_t lda, const double* b, int64_t ldb, double beta,
          double* c, int64_t ldc);

// `batch` such products; the i-th works on a + i · stride_a and so on (elements).
void gemm_batched(int64_t batch, bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float* a, int64_t lda, int64_t stride_a,
                  const float* b, int64_t ldb, int64_t stride_b, float beta, float* c, int64_t ldc, int64_t stride_c);
void gemm_batched(int64_t batch, bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, double alpha, const double* a, int64_t lda, int64_t stride_a,
                  const double* b, int64_t ldb, int64_t stride_b, double beta, double* c, int64_t ldc, int64_t stride_c);

}  // namespace thalweg::libs::cpu
