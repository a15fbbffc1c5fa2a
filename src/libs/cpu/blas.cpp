// OpenBLAS by dlopen. Its own threads stay unused: each product is cut into blocks of C that run as single-threaded products on our pool.
#include "libs/cpu/blas.h"

#include <dlfcn.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <vector>

#include "libs/cpu/parallel.h"
#include "support/error.h"
#include "support/package_files.h"

namespace thalweg::libs::cpu {
namespace {

enum : int { kRowMajor = 101, kNoTrans = 111, kTrans = 112 };  // CBLAS's numbers

template <class T>
using CblasGemm = void (*)(int order, int trans_a, int trans_b, int m, int n, int k, T alpha, const T* a, int lda, const T* b, int ldb, T beta, T* c, int ldc);

struct Library {
  CblasGemm<float> sgemm = nullptr;
  CblasGemm<double> dgemm = nullptr;
  void* handle = nullptr;
  std::string detail;  // path and version, or why there is none
};

std::mutex path_mutex;
std::string chosen_path;

// Places to look, best first.
std::vector<std::string> candidates() {
  {
    std::scoped_lock lock(path_mutex);
    if (!chosen_path.empty()) return {chosen_path};
  }
  if (const char* path = std::getenv("THALWEG_OPENBLAS")) return {path};
  std::vector<std::string> found = package_files(reinterpret_cast<const void*>(&candidates), "scipy_openblas32/lib/libscipy_openblas.so");
  found.insert(found.end(), {"libscipy_openblas.so", "libopenblas.so.0"});
  return found;
}

// The symbol under any of the prefixes that builds of OpenBLAS use.
template <class Fn>
Fn symbol(void* handle, const std::string& name) {
  for (const char* prefix : {"scipy_", ""})
    if (void* found = dlsym(handle, (prefix + name).c_str())) return reinterpret_cast<Fn>(found);
  return nullptr;
}

Library load() {
  Library library;
  std::string tried;
  for (const std::string& path : candidates()) {
    void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
      tried += std::string("\n  ") + dlerror();
      continue;
    }
    library.sgemm = symbol<CblasGemm<float>>(handle, "cblas_sgemm");
    library.dgemm = symbol<CblasGemm<double>>(handle, "cblas_dgemm");
    if (!library.sgemm || !library.dgemm) {
      tried += "\n  " + path + ": no cblas_sgemm and cblas_dgemm in it";
      dlclose(handle);
      library = {};
      continue;
    }
    library.handle = handle;
    if (auto set_threads = symbol<void (*)(int)>(handle, "openblas_set_num_threads")) set_threads(1);
    auto config = symbol<char* (*)()>(handle, "openblas_get_config");
    library.detail = path + (config ? std::string(": ") + config() : "");
    return library;
  }
  library.detail = "OpenBLAS could not be loaded: pip install scipy-openblas32, or set THALWEG_OPENBLAS to a libopenblas.so. Tried:" + tried;
  return library;
}

const Library& library() {
  static const Library* loaded = new Library(load());
  return *loaded;
}

template <class T>
CblasGemm<T> kernel() {
  const Library& l = library();
  CblasGemm<T> fn;
  if constexpr (sizeof(T) == 4)
    fn = l.sgemm;
  else
    fn = l.dgemm;
  THALWEG_CHECK(fn, Missing, l.detail);
  return fn;
}

// One product as CBLAS takes it.
template <class T>
struct Product {
  bool trans_a, trans_b;
  int64_t m, n, k;
  T alpha;
  const T* a;
  int64_t lda;
  const T* b;
  int64_t ldb;
  T beta;
  T* c;
  int64_t ldc;

  void check() const {
    constexpr int64_t limit = std::numeric_limits<int>::max();
    THALWEG_CHECK(std::max({m, n, k, lda, ldb, ldc}) <= limit, Unsupported, "matrix product: dimensions and strides must be below 2^31, got m ", m, ", n ", n,
                  ", k ", k, ", leading dimensions ", lda, ", ", ldb, ", ", ldc);
  }
  // The block of C from (row, column), rows × columns, on the calling thread.
  void run(CblasGemm<T> gemm, int64_t row, int64_t column, int64_t rows, int64_t columns) const {
    const T* from_a = a + row * (trans_a ? 1 : lda);
    const T* from_b = b + column * (trans_b ? ldb : 1);
    gemm(kRowMajor, trans_a ? kTrans : kNoTrans, trans_b ? kTrans : kNoTrans, static_cast<int>(rows), static_cast<int>(columns), static_cast<int>(k), alpha,
         from_a, static_cast<int>(lda), from_b, static_cast<int>(ldb), beta, c + row * ldc + column, static_cast<int>(ldc));
  }
};

constexpr int64_t kWorkPerThread = 400'000;   // multiply-adds worth waking a thread for: about 4 µs
constexpr int64_t kWorkPerBlock = 8'000'000;  // above this many, a product is cut into more than two blocks
constexpr int64_t kAlign = 64;                // rows or columns: a multiple of every kernel's tile

struct Grid {
  int64_t rows, columns;  // of one block of C
};

// Cuts C into about `parts` blocks, the ones that pack the fewest elements.
Grid cut(int64_t m, int64_t n, int64_t parts) {
  Grid best{m, n};
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int64_t down = 1; down <= parts; down *= 2) {
    int64_t across = parts / down;
    int64_t rows = (m + down - 1) / down, columns = (n + across - 1) / across;
    if (down > 1) rows = (rows + kAlign - 1) / kAlign * kAlign;
    if (across > 1) columns = (columns + kAlign - 1) / kAlign * kAlign;
    int64_t largest = std::min(rows, m) * std::min(columns, n);
    int64_t cost = largest + 16 * (rows + columns);
    if (cost < least) least = cost, best = {rows, columns};
  }
  return best;
}

// Most blocks that one product is cut into: each packs its rows of A and columns of B again, so more than there are cores only cost. Fixed for the process.
int64_t max_blocks() {
  static const auto blocks = static_cast<int64_t>(std::bit_ceil(static_cast<unsigned>(cores())));
  return blocks;
}

// How many blocks each of `batch` products of `work` multiply-adds is cut into: a power of two that depends on the shape alone, so that bits do not depend on
// threads.
int64_t blocks_of(int64_t batch, int64_t work) {
  if (batch >= max_blocks() || work < 2 * kWorkPerThread) return 1;
  int64_t parts = 2;
  while (parts * batch < max_blocks() && parts * kWorkPerBlock < work) parts *= 2;
  return parts;
}

template <class T>
void multiply(int64_t batch, const Product<T>& p, int64_t stride_a, int64_t stride_b, int64_t stride_c) {
  if (p.m <= 0 || p.n <= 0 || batch <= 0) return;
  p.check();
  auto gemm = kernel<T>();
  int64_t work = p.m * p.n * std::max<int64_t>(p.k, 1);
  Grid grid = cut(p.m, p.n, blocks_of(batch, work));
  int64_t across = (p.n + grid.columns - 1) / grid.columns, blocks = (p.m + grid.rows - 1) / grid.rows * across;
  parallel_for(batch * blocks, std::max<int64_t>(1, kWorkPerThread * blocks / work), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      Product<T> one = p;
      one.a += i / blocks * stride_a, one.b += i / blocks * stride_b, one.c += i / blocks * stride_c;
      int64_t row = i % blocks / across * grid.rows, column = i % blocks % across * grid.columns;
      one.run(gemm, row, column, std::min(grid.rows, p.m - row), std::min(grid.columns, p.n - column));
    }
  });
}

}  // namespace

void set_blas_library(std::string path) {
  std::scoped_lock lock(path_mutex);
  chosen_path = std::move(path);
}

bool blas_available(std::string* detail) {
  if (detail) *detail = library().detail;
  return library().sgemm != nullptr;
}

void* blas_symbol(const std::string& name) {
  const Library& l = library();
  THALWEG_CHECK(l.handle, Missing, l.detail);
  void* found = symbol<void*>(l.handle, name);
  THALWEG_CHECK(found, Missing, "this build of OpenBLAS lacks a function: ", name, ", in ", l.detail, "; pip install scipy-openblas32");
  return found;
}

void gemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float* a, int64_t lda, const float* b, int64_t ldb, float beta,
          float* c, int64_t ldc) {
  multiply<float>(1, {trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc}, 0, 0, 0);
}

void gemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, double alpha, const double* a, int64_t lda, const double* b, int64_t ldb, double beta,
          double* c, int64_t ldc) {
  multiply<double>(1, {trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc}, 0, 0, 0);
}

void gemm_batched(int64_t batch, bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float* a, int64_t lda, int64_t stride_a,
                  const float* b, int64_t ldb, int64_t stride_b, float beta, float* c, int64_t ldc, int64_t stride_c) {
  multiply<float>(batch, {trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc}, stride_a, stride_b, stride_c);
}

void gemm_batched(int64_t batch, bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, double alpha, const double* a, int64_t lda, int64_t stride_a,
                  const double* b, int64_t ldb, int64_t stride_b, double beta, double* c, int64_t ldc, int64_t stride_c) {
  multiply<double>(batch, {trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc}, stride_a, stride_b, stride_c);
}

}  // namespace thalweg::libs::cpu
