// The few types and numbers of cuBLASLt's interface that Thalweg uses, declared here so that no CUDA header is needed to build.
#pragma once

#include <cstddef>
#include <cstdint>

namespace thalweg::libs::cuda::cublaslt {

// cublasLtMatmulAlgo_t.
struct Algorithm {
  uint64_t data[8];
};
// cublasLtMatmulHeuristicResult_t.
struct Choice {
  Algorithm algorithm;
  size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
};

inline constexpr int kCompute32 = 68, kCompute64 = 70, kComputeTf32 = 77;
inline constexpr int kTransA = 3, kTransB = 4;             // attributes of a description
inline constexpr int kBatchCount = 5, kBatchDistance = 6;  // attributes of a layout
inline constexpr int kWorkspaceBytes = 1, kAlignment = 5;  // attributes of a preference; alignments of A, B, C, D follow each other
inline constexpr int kReductionSchemes = 3;                // of a preference: a mask of ways to sum parts of k
inline constexpr unsigned kReduceInComputeType = 2;
inline constexpr int kPlain = 0, kTransposed = 1;  // cublasOperation_t

}  // namespace thalweg::libs::cuda::cublaslt
