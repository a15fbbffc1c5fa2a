// Index arithmetic of kernels: affine expressions over loop variables, division that factorises where the loops allow it, and requests to split loops.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace thalweg::codegen {

// constant + Σ coefficient · atom; atoms are numbers in an IndexSpace, terms are sorted by atom and have no zero coefficient.
struct Index {
  int64_t constant = 0;
  std::vector<std::pair<int, int64_t>> terms;

  Index() = default;
  explicit Index(int64_t c) : constant(c) {}
  bool is_constant() const { return terms.empty(); }
  auto operator<=>(const Index&) const = default;
};
Index operator+(const Index& a, const Index& b);
Index operator*(const Index& a, int64_t factor);

// A quantity that index arithmetic treats as one unknown: a loop variable or a computed integer.
struct Atom {
  std::string text;
  int64_t low = 0, high = 0;  // inclusive
  int depth = 0;              // of the innermost loop it varies with (0: the same for the whole kernel)
  int base = -1;              // base dimension that the variable is part of; -1 when it is not a loop variable
  int64_t unit = 1;           // what one step of the variable means in that base dimension
};

// One dimension of a kernel's iteration space before splitting: `extent` values, cut where `splits` say (each the size of the block inside a cut).
struct BaseDim {
  int64_t extent = 1;
  std::set<int64_t> splits;
};

// The atoms of one kernel, and what index arithmetic found it would like the loops to be split into.
class IndexSpace {
 public:
  std::vector<Atom> atoms;

  int add_atom(Atom atom);
  // The atom of that text when there is one, else a new one.
  int opaque(const std::string& text, int64_t low, int64_t high, int depth);
  Index var(int atom) const;

  std::pair<int64_t, int64_t> range(const Index& index) const;  // inclusive
  int depth(const Index& index) const;
  std::string text(const Index& index) const;

  // Quotient and remainder by n ≥ 1; `index` is not negative wherever the kernel uses the result. Exact affine parts where possible;
  // otherwise computed atoms, with a request (base dimension, block) recorded when splitting a loop would make them affine.
  std::pair<Index, Index> div_mod(const Index& index, int64_t n);
  // The indices per dimension of a row-major linear index; all in range.
  std::vector<Index> unflatten(const Index& linear, const std::vector<int64_t>& dims);

  const std::set<std::pair<int, int64_t>>& requests() const { return requests_; }
  // How many divisions were left to run time.
  int divisions() const { return divisions_; }
  // The largest magnitude that the texts so far can come to on the way.
  int64_t widest() const { return widest_; }

 private:
  std::set<std::pair<int, int64_t>> requests_;
  std::map<std::string, int> by_text_;
  int divisions_ = 0;
  mutable int64_t widest_ = 0;
};

// Row-major linear index of `indices` in `dims`.
Index flatten(const std::vector<Index>& indices, const std::vector<int64_t>& dims);

// Adds the split if it keeps the blocks a chain of divisors; returns whether anything changed.
bool add_split(BaseDim& dim, int64_t block);

}  // namespace thalweg::codegen
