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
  std::vector<int64_t> offsets;  // multiples of 64
  int64_t total = 0;
};

// Buffers whose lifetimes overlap get disjoint bytes. Depends on the lifetimes alone.
Placement place(std::span<const Lifetime> lifetimes);

}  // namespace thalweg::plan
