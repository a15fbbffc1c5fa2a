// Sharing of temporary memory: places buffers with known lifetimes in one arena.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace thalweg::plan {

// A buffer of `bytes` that is written at step `first` and last used at step `last` (inclusive).
struct Lifetime {
  int64_t bytes = 0;
  int first = 0, last = 0;
};

// Where each buffer lies.
struct Placement {
  std::vector<int64_t> offsets;  // multiples of the alignment
  int64_t total = 0;
};

// Buffers whose lifetimes overlap get disjoint bytes. `alignment`: a power of two. Depends on the arguments alone.
Placement place(std::span<const Lifetime> lifetimes, int64_t alignment = 64);

}  // namespace thalweg::plan
