// Products of matrices on GPUs by cuBLASLt, found when it is first needed.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/device.h"

namespace thalweg::libs::cuda {

// Whether cuBLASLt can be loaded; `reason`, when given, says why not. Any thread; never throws.
bool has_cublaslt(std::string* reason = nullptr);
// Its version, e.g. 130000 for 13.0.0. Throws Error(Missing) without cuBLASLt or with one older than 12.0.
int cublaslt_version();

// Elements of a product's matrices; sums are made in f32, for F64 in f64, and rounded once.
// The numbers are CUDA's.
enum class ProductType : int { F32 = 0, F64 = 1, F16 = 2, BF16 = 14 };

// C = A · B over row-major matrices: A is m × k (k × m when transposed), B is k × n (n × k), C is m × n. Leading dimensions are the elements from one row to
// the next as stored, strides those from one entry of the batch to the next; 0 lets all entries share a matrix.
struct ProductShape {
  ProductType element = ProductType::F32;
  bool tf32 = false;         // F32: factors rounded to TF32
  bool wide_result = false;  // F16, BF16: C holds the sums in f32, not rounded
  bool trans_a = false, trans_b = false;
  int64_t m = 1, n = 1, k = 1, lda = 1, ldb = 1, ldc = 1;
  int64_t batch = 1, stride_a = 0, stride_b = 0, stride_c = 0;
  ProductType result() const { return wide_result ? ProductType::F32 : element; }
  auto operator<=>(const ProductShape&) const = default;
};

// One of cuBLASLt's ways to compute a product: data that may be kept on disk for the same GPU model and version of the library.
struct ProductAlgorithm {
  std::array<uint64_t, 8> code{};
  size_t workspace_bytes = 0;
};

// A product made ready for one GPU. Immutable; any thread.
class Product {
 public:
  // Takes the library's first choice. `alignment`: of every address that run() will get, a power of two of at most 256. Every size is at least 1.
  // Throws Error(Missing) without cuBLASLt, Error(Unsupported) with the shape when it has no way.
  Product(runtime::Device& device, const ProductShape& shape, unsigned alignment = 256);
  ~Product();
  Product(const Product&) = delete;

  const ProductShape& shape() const { return shape_; }
  // The shape for people, e.g. "bf16, 12 x 197 x 64 x 197 NT, …".
  std::string description() const;
  // The ways that the library proposes, best guess first; `most` of them at most.
  std::vector<ProductAlgorithm> choices(int most) const;
  const ProductAlgorithm& algorithm() const { return algorithm_; }
  // Scratch memory that run() needs, aligned to 256 bytes.
  size_t workspace_bytes() const { return algorithm_.workspace_bytes; }
  // Tries the proposed ways on memory of `stream`, takes the fastest, and keeps it on disk for later processes, which then try nothing. Waits for the
  // stream. Only while no other thread uses this. Not for deterministic runs: which way wins is a matter of timing.
  void measure(runtime::Stream& stream);

  // Called as work of a submission, with the stream that the work gets. `workspace` may be null when none is needed. Throws Error(Vendor) with the shape.
  void run(const void* a, const void* b, void* c, void* workspace, void* native) const;

 private:
  void run(const ProductAlgorithm& algorithm, const void* a, const void* b, void* c, void* workspace, void* native) const;
  double seconds(const ProductAlgorithm& algorithm, runtime::Stream& stream, std::span<const runtime::BufferPtr> buffers) const;
  std::string key() const;

  struct Descriptions;
  runtime::Device& device_;
  ProductShape shape_;
  unsigned alignment_;
  std::unique_ptr<Descriptions> descriptions_;
  ProductAlgorithm algorithm_;
};

}  // namespace thalweg::libs::cuda
