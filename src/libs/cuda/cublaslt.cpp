// Loading cuBLASLt and calling it. It counts columns first: a row-major C = A · B is its C^T = B^T · A^T, with the factors exchanged.
#include "libs/cuda/cublaslt.h"

#include <dlfcn.h>

#include <cstring>
#include <map>
#include <mutex>
#include <type_traits>

#include "libs/cuda/cublaslt_types.h"
#include "libs/cuda/measured_choice.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/stream.h"
#include "support/error.h"
#include "support/vendor_library.h"

namespace thalweg::libs::cuda {
namespace {

using namespace cublaslt;
using runtime::cuda::ContextScope;

constexpr int kOldest = 120000;
constexpr size_t kWorkspace = size_t{32} << 20;
constexpr int kTried = 8;

struct Functions {
#define THALWEG_CUBLASLT(name, symbol, ...) int (*name)(__VA_ARGS__);
#include "libs/cuda/cublaslt.def"
#undef THALWEG_CUBLASLT
  size_t (*version)();
  const char* (*status_text)(int);
};

struct Loaded {
  Functions functions{};
  std::string failure;
};

Loaded load() {
  Loaded made;
  std::string tried;
  void* library = open_vendor_library(toolkit_library_names(reinterpret_cast<const void*>(&load), "libcublasLt.so", "cublas"), tried);
  if (!library) {
    made.failure =
        "Matrix products on the GPU need cuBLASLt 12.0 or later, which was not found: pip install nvidia-cublas, or put it on LD_LIBRARY_PATH. Tried:";
    made.failure += tried;
    return made;
  }
  bool complete = true;
  auto find = [&](auto& function, const char* symbol) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, symbol));
    complete = complete && function != nullptr;
  };
#define THALWEG_CUBLASLT(name, symbol, ...) find(made.functions.name, symbol);
#include "libs/cuda/cublaslt.def"
#undef THALWEG_CUBLASLT
  find(made.functions.version, "cublasLtGetVersion");
  find(made.functions.status_text, "cublasLtGetStatusString");
  const size_t version = complete ? made.functions.version() : 0;
  if (version < kOldest) made.failure = "The cuBLASLt that was found is too old: " + std::to_string(version) + ", needed 120000 (12.0) or later";
  return made;
}

const Loaded& loaded() {
  static const auto* instance = new Loaded(load());
  return *instance;
}

const Functions& blas() {
  THALWEG_CHECK(loaded().failure.empty(), Missing, loaded().failure);
  return loaded().functions;
}

void check(int status, const char* call) { THALWEG_CHECK(status == 0, Vendor, "cuBLASLt failed to ", call, ": ", blas().status_text(status)); }

// The library's state of one GPU, made on first use and kept. Any thread.
void* handle_of(const runtime::Device& device) {
  static auto* mutex = new std::mutex;
  static auto* handles = new std::map<int, void*>;
  std::scoped_lock lock(*mutex);
  void*& handle = (*handles)[device.ordinal()];
  if (!handle) {
    ContextScope scope(runtime::cuda::context(device));
    check(blas().create(&handle), "start");
  }
  return handle;
}

std::string text(const ProductShape& s) {
  const bool is_float = s.element == ProductType::F32, is_double = s.element == ProductType::F64;
  const std::string name = is_float ? "f32" : is_double ? "f64" : s.element == ProductType::F16 ? "f16" : "bf16";
  auto num = [](int64_t n) { return std::to_string(n); };
  std::string out = name + (s.tf32 ? " by TF32" : "") + (s.wide_result ? " to f32" : "") + ", " + num(s.batch) + " x " + num(s.m) + " x " + num(s.n);
  out += " x " + num(s.k) + (s.trans_a ? " T" : " N") + (s.trans_b ? "T" : "N") + ", rows of " + num(s.lda) + ", " + num(s.ldb) + ", " + num(s.ldc);
  return out + ", entries of " + num(s.stride_a) + ", " + num(s.stride_b) + ", " + num(s.stride_c);
}

size_t element_bytes(ProductType element) { return element == ProductType::F64 ? 8 : element == ProductType::F32 ? 4 : 2; }

void* matrix(const ProductShape& s, ProductType type, int64_t rows, int64_t columns, int64_t leading, int64_t stride) {
  void* layout = nullptr;
  check(blas().make_layout(&layout, static_cast<int>(type), static_cast<uint64_t>(columns), static_cast<uint64_t>(rows), leading), "describe a matrix");
  const int32_t batch = static_cast<int32_t>(s.batch);
  check(blas().set_layout(layout, kBatchCount, &batch, sizeof batch), "describe a batch");
  check(blas().set_layout(layout, kBatchDistance, &stride, sizeof stride), "describe a batch");
  return layout;
}

// Elements from the first to the last of all entries.
size_t extent(const ProductShape& s, ProductType type, int64_t rows, int64_t columns, int64_t leading, int64_t stride) {
  return static_cast<size_t>((s.batch - 1) * stride + (rows - 1) * leading + columns) * element_bytes(type);
}

}  // namespace

// The library's words for the product, the stored matrices and what is wished.
struct Product::Descriptions {
  void *product = nullptr, *a = nullptr, *b = nullptr, *c = nullptr, *wishes = nullptr;
  ~Descriptions() {
    if (product) blas().destroy_description(product);
    for (void* layout : {a, b, c})
      if (layout) blas().destroy_layout(layout);
    if (wishes) blas().destroy_preference(wishes);
  }
};

bool has_cublaslt(std::string* reason) {
  if (reason) *reason = loaded().failure;
  return loaded().failure.empty();
}

int cublaslt_version() { return static_cast<int>(blas().version()); }

Product::Product(runtime::Device& device, const ProductShape& shape, unsigned alignment)
    : device_(device), shape_(shape), alignment_(alignment), descriptions_(std::make_unique<Descriptions>()) {
  const ProductShape& s = shape_;
  THALWEG_ASSERT(s.m > 0 && s.n > 0 && s.k > 0 && s.batch > 0, "an empty product has no algorithm: ", text(s));
  Descriptions& d = *descriptions_;
  const bool wide = s.element == ProductType::F64;
  const int compute = wide ? kCompute64 : s.element == ProductType::F32 && s.tf32 ? kComputeTf32 : kCompute32;
  check(blas().make_description(&d.product, compute, static_cast<int>(wide ? ProductType::F64 : ProductType::F32)), "describe a product");
  const int32_t first = s.trans_b ? kTransposed : kPlain, second = s.trans_a ? kTransposed : kPlain;
  check(blas().set_description(d.product, kTransA, &first, sizeof first), "describe a product");
  check(blas().set_description(d.product, kTransB, &second, sizeof second), "describe a product");
  d.a = s.trans_a ? matrix(s, s.element, s.k, s.m, s.lda, s.stride_a) : matrix(s, s.element, s.m, s.k, s.lda, s.stride_a);
  d.b = s.trans_b ? matrix(s, s.element, s.n, s.k, s.ldb, s.stride_b) : matrix(s, s.element, s.k, s.n, s.ldb, s.stride_b);
  d.c = matrix(s, s.result(), s.m, s.n, s.ldc, s.stride_c);
  check(blas().make_preference(&d.wishes), "describe wishes");
  check(blas().set_preference(d.wishes, kWorkspaceBytes, &kWorkspace, sizeof kWorkspace), "describe wishes");
  check(blas().set_preference(d.wishes, kReductionSchemes, &kReduceInComputeType, sizeof kReduceInComputeType), "describe wishes");
  for (int matrix = 0; matrix < 4; ++matrix) {
    const uint32_t bytes = alignment;
    check(blas().set_preference(d.wishes, kAlignment + matrix, &bytes, sizeof bytes), "describe wishes");
  }
  algorithm_ = choices(1)[0];
}

Product::~Product() = default;

std::string Product::description() const { return text(shape_); }

std::vector<ProductAlgorithm> Product::choices(int most) const {
  ContextScope scope(runtime::cuda::context(device_));
  const Descriptions& d = *descriptions_;
  std::vector<Choice> found(static_cast<size_t>(most));
  int count = 0;
  const int status = blas().heuristic(handle_of(device_), d.product, d.b, d.a, d.c, d.c, d.wishes, most, found.data(), &count);
  std::vector<ProductAlgorithm> out;
  for (int i = 0; status == 0 && i < count; ++i) {
    if (found[i].state != 0) continue;
    ProductAlgorithm& algorithm = out.emplace_back();
    std::memcpy(algorithm.code.data(), found[i].algorithm.data, sizeof found[i].algorithm);
    algorithm.workspace_bytes = found[i].workspace_bytes;
  }
  THALWEG_CHECK(!out.empty(), Unsupported, "cuBLASLt has no way to compute a product: ", blas().status_text(status), "; ", text(shape_));
  return out;
}

void Product::run(const ProductAlgorithm& algorithm, const void* a, const void* b, void* c, void* workspace, void* native) const {
  const Descriptions& d = *descriptions_;
  const float one = 1, zero = 0;
  const double wide_one = 1, wide_zero = 0;
  const bool wide = shape_.element == ProductType::F64;
  const void *alpha = wide ? static_cast<const void*>(&wide_one) : &one, *beta = wide ? static_cast<const void*>(&wide_zero) : &zero;
  const int status = blas().multiply(handle_of(device_), d.product, alpha, b, d.b, a, d.a, beta, c, d.c, c, d.c, algorithm.code.data(), workspace,
                                     algorithm.workspace_bytes, native);
  THALWEG_CHECK(status == 0, Vendor, "cuBLASLt failed to start a product: ", blas().status_text(status), "; ", text(shape_));
}

void Product::run(const void* a, const void* b, void* c, void* workspace, void* native) const { run(algorithm_, a, b, c, workspace, native); }

// Seconds of one run; `buffers`: a, b, c, workspace.
double Product::seconds(const ProductAlgorithm& algorithm, runtime::Stream& stream, std::span<const runtime::BufferPtr> buffers) const {
  void* at[4];
  for (size_t i = 0; i < 4; ++i) at[i] = buffers[i]->data();
  return seconds_of(stream, buffers, "product measured", [&](void* native) { run(algorithm, at[0], at[1], at[2], at[3], native); });
}

std::string Product::key() const {
  return "cublaslt " + std::to_string(cublaslt_version()) + ", " + runtime::cuda::properties(device_).name + ", aligned to " + std::to_string(alignment_) +
         ": " + text(shape_);
}

void Product::measure(runtime::Stream& stream) {
  if (auto kept = kept_choice(key()); kept && kept->size() == sizeof algorithm_) {
    std::memcpy(&algorithm_, kept->data(), sizeof algorithm_);
    return;
  }
  const std::vector<ProductAlgorithm> tried = choices(kTried);
  size_t workspace = 0;
  for (const ProductAlgorithm& algorithm : tried) workspace = std::max(workspace, algorithm.workspace_bytes);
  const ProductShape& s = shape_;
  const runtime::BufferPtr buffers[] = {
      stream.allocate(s.trans_a ? extent(s, s.element, s.k, s.m, s.lda, s.stride_a) : extent(s, s.element, s.m, s.k, s.lda, s.stride_a)),
      stream.allocate(s.trans_b ? extent(s, s.element, s.n, s.k, s.ldb, s.stride_b) : extent(s, s.element, s.k, s.n, s.ldb, s.stride_b)),
      stream.allocate(extent(s, s.result(), s.m, s.n, s.ldc, s.stride_c)), stream.allocate(workspace)};
  double best = 0;
  for (const ProductAlgorithm& algorithm : tried) {
    const double now = seconds(algorithm, stream, buffers);
    if (&algorithm == tried.data() || now < best) best = now, algorithm_ = algorithm;
  }
  if (stream.take_error()) algorithm_ = tried[0];
  static_assert(std::is_trivially_copyable_v<ProductAlgorithm>);
  keep_choice(key(), std::string(reinterpret_cast<const char*>(&algorithm_), sizeof algorithm_));
}

}  // namespace thalweg::libs::cuda
