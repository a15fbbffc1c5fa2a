// Our declarations of cuBLASLt against NVIDIA's header, on machines that have it.
#if __has_include(<cublasLt.h>)
#include <cublasLt.h>

#include <cstddef>
#include <type_traits>

#include "libs/cuda/cublaslt.h"
#include "libs/cuda/cublaslt_types.h"

namespace thalweg::libs::cuda::cublaslt {
namespace {

template <class Ours, class Theirs>
constexpr bool same_kind() {
  return sizeof(Ours) == sizeof(Theirs) && std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>;
}

template <class... Ours, class... Theirs>
constexpr bool same(int (*)(Ours...), cublasStatus_t (*)(Theirs...)) {
  if constexpr (sizeof...(Ours) != sizeof...(Theirs)) {
    return false;
  } else {
    return (same_kind<Ours, Theirs>() && ...);
  }
}

struct Functions {
#define THALWEG_CUBLASLT(name, symbol, ...) int (*name)(__VA_ARGS__);
#include "libs/cuda/cublaslt.def"
#undef THALWEG_CUBLASLT
};

#define SAME(name, theirs) static_assert(same(decltype(Functions::name){}, static_cast<decltype(&::theirs)>(nullptr)), #name)
SAME(create, cublasLtCreate);
SAME(make_description, cublasLtMatmulDescCreate);
SAME(destroy_description, cublasLtMatmulDescDestroy);
SAME(set_description, cublasLtMatmulDescSetAttribute);
SAME(make_layout, cublasLtMatrixLayoutCreate);
SAME(destroy_layout, cublasLtMatrixLayoutDestroy);
SAME(set_layout, cublasLtMatrixLayoutSetAttribute);
SAME(make_preference, cublasLtMatmulPreferenceCreate);
SAME(destroy_preference, cublasLtMatmulPreferenceDestroy);
SAME(set_preference, cublasLtMatmulPreferenceSetAttribute);
SAME(heuristic, cublasLtMatmulAlgoGetHeuristic);
SAME(multiply, cublasLtMatmul);
#undef SAME

static_assert(sizeof(Algorithm) == sizeof(cublasLtMatmulAlgo_t) && sizeof(Choice) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(Choice, workspace_bytes) == offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(offsetof(Choice, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));
static_assert(kCompute32 == CUBLAS_COMPUTE_32F && kCompute64 == CUBLAS_COMPUTE_64F && kComputeTf32 == CUBLAS_COMPUTE_32F_FAST_TF32);
static_assert(kTransA == CUBLASLT_MATMUL_DESC_TRANSA && kTransB == CUBLASLT_MATMUL_DESC_TRANSB);
static_assert(kBatchCount == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT && kBatchDistance == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
static_assert(kWorkspaceBytes == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
static_assert(kAlignment == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES && kAlignment + 3 == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
static_assert(kReductionSchemes == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK && kReduceInComputeType == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
static_assert(kPlain == CUBLAS_OP_N && kTransposed == CUBLAS_OP_T);
static_assert(static_cast<int>(ProductType::F32) == CUDA_R_32F && static_cast<int>(ProductType::F64) == CUDA_R_64F);
static_assert(static_cast<int>(ProductType::F16) == CUDA_R_16F && static_cast<int>(ProductType::BF16) == CUDA_R_16BF);

}  // namespace
}  // namespace thalweg::libs::cuda::cublaslt
#endif
