// Memory whose addresses depend only on earlier requests of the same kind: ranks that make the same ones have the same offsets, whatever else happens on each.
#pragma once

#include <map>

#include "runtime/backend.h"

namespace thalweg::runtime {

// The lowest gap between live pieces that is large enough is the place, whoever used it before: what decides is only which pieces are live. Whoever gets it
// then has to wait for those users. Memory is committed up to the highest end so far. Not thread-safe: all calls under the ordering lock.
class SymmetricHeap {
 public:
  explicit SymmetricHeap(Backend& backend) : backend_(backend) {}
  ~SymmetricHeap();
  SymmetricHeap(const SymmetricHeap&) = delete;

  struct Place {
    char* base = nullptr;  // null: the system has no more memory
    Frontier after;        // who may still be using it
  };
  // A place of `bytes`, a multiple of kGranule; without `may_grow` none beyond the highest end so far.
  Place take(size_t bytes, bool may_grow);
  // Takes a place back, with those who may still be using it.
  void give(char* base, const Frontier& death);
  // Gives all memory back where nothing is live and nothing uses it any more; returns the bytes.
  size_t trim();

  // The range of all places; null before the first.
  char* base() const { return range_; }
  size_t committed() const { return committed_; }
  size_t live() const;
  // Bytes that no piece has but that queued work may still use.
  size_t pending() const;

 private:
  void forget(size_t begin, size_t end, Frontier& after);

  Backend& backend_;
  char* range_ = nullptr;
  size_t range_bytes_ = 0, committed_ = 0;
  std::map<size_t, size_t> live_;  // offset → bytes
  struct Used {
    size_t end;
    Frontier death;
  };
  std::map<size_t, Used> used_;  // freed places that do not overlap, by offset
};

}  // namespace thalweg::runtime
