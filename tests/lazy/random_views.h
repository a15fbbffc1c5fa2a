// Random strided windows, and their element positions the slow way.
#pragma once

#include <algorithm>
#include <numeric>
#include <random>
#include <sstream>
#include <vector>

#include "lazy/view.h"

namespace thalweg::lazy {

// Storage position of every element in row-major order.
inline std::vector<int64_t> positions(const View& view) {
  std::vector<int64_t> at{view.offset};
  for (int i = 0; i < view.rank; ++i) {
    std::vector<int64_t> next;
    for (int64_t base : at)
      for (int64_t k = 0; k < view.sizes[i]; ++k) next.push_back(base + k * view.strides[i]);
    at = std::move(next);
  }
  return at;
}

// Permuted, sliced, stepped, expanded and sometimes overlapping windows.
inline View random_view(std::mt19937& random, int max_rank = 4, int max_size = 5) {
  auto pick = [&](int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random); };
  View view;
  view.rank = static_cast<uint8_t>(pick(0, max_rank));
  view.offset = pick(0, 3) == 0 ? pick(0, 4) : 0;
  std::vector<int> order(view.rank);
  std::iota(order.begin(), order.end(), 0);
  if (pick(0, 1)) std::shuffle(order.begin(), order.end(), random);
  int64_t stride = pick(0, 5) == 0 ? pick(1, 3) : 1;
  for (int k = view.rank - 1; k >= 0; --k) {
    const int i = order[static_cast<size_t>(k)];
    view.sizes[i] = pick(0, 15) == 0 ? 0 : pick(1, max_size);
    const int64_t kind = pick(0, 11);
    view.strides[i] = kind == 0 ? 0 : kind == 1 ? pick(1, 4) : stride;
    stride = std::max<int64_t>(stride * std::max<int64_t>(view.sizes[i], 1), 1) * (pick(0, 7) == 0 ? 2 : 1) + (pick(0, 15) == 0 ? 1 : 0);
  }
  return view;
}

inline std::string describe(const View& view) {
  std::ostringstream out;
  out << "sizes";
  for (int i = 0; i < view.rank; ++i) out << " " << view.sizes[i];
  out << " strides";
  for (int i = 0; i < view.rank; ++i) out << " " << view.strides[i];
  out << " offset " << view.offset;
  return out.str();
}

}  // namespace thalweg::lazy
