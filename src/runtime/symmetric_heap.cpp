// First fit by address over what is live, and the memory of who used the gaps.
#include "runtime/symmetric_heap.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "runtime/race_checker.h"
#include "support/error.h"

namespace thalweg::runtime {
namespace {

constexpr size_t kRange = size_t{1} << 38;

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

SymmetricHeap::~SymmetricHeap() {
  if (range_ != nullptr) backend_.unreserve(range_, range_bytes_);
}

SymmetricHeap::Place SymmetricHeap::take(size_t bytes, bool may_grow) {
  if (range_ == nullptr) {
    range_bytes_ = kRange;
    if ((range_ = backend_.reserve(range_bytes_)) == nullptr) return {};
  }
  size_t offset = 0;
  for (const auto& [begin, size] : live_) {
    if (begin - offset >= bytes) break;
    offset = begin + size;
  }
  const size_t end = offset + bytes;
  if (end < bytes || end > range_bytes_) return {};
  if (end > committed_) {
    const size_t more = round_up(end - committed_, backend_.page_bytes());
    if (!may_grow || committed_ + more > range_bytes_ || !backend_.commit(range_ + committed_, more)) return {};
    committed_ += more;
  }
  Place place{range_ + offset, {}};
  forget(offset, end, place.after);
  live_[offset] = bytes;
  return place;
}

// Takes [begin, end) out of the used places, and adds who used it to `after`.
void SymmetricHeap::forget(size_t begin, size_t end, Frontier& after) {
  auto entry = used_.upper_bound(begin);
  if (entry != used_.begin()) --entry;
  while (entry != used_.end() && entry->first < end) {
    const size_t first = entry->first, last = entry->second.end;
    if (last <= begin) {
      ++entry;
      continue;
    }
    Frontier death;
    death.take(entry->second.death);
    entry = used_.erase(entry);
    after.join(death);
    if (first < begin) used_[first].end = begin, used_[first].death.join(death);
    if (last > end) used_[end].end = last, used_[end].death.join(death);
  }
}

void SymmetricHeap::give(char* base, const Frontier& death) {
  auto found = live_.find(static_cast<size_t>(base - range_));
  THALWEG_ASSERT(found != live_.end(), "memory that the symmetric heap has not given out");
  Used& used = used_[found->first];
  used.end = found->first + found->second;
  used.death.clear();
  used.death.join(death);
  live_.erase(found);
}

size_t SymmetricHeap::live() const {
  size_t bytes = 0;
  for (const auto& [begin, size] : live_) bytes += size;
  return bytes;
}

size_t SymmetricHeap::pending() const {
  size_t bytes = 0;
  for (const auto& [begin, used] : used_) bytes += is_done(used.death) ? 0 : used.end - begin;
  return bytes;
}

size_t SymmetricHeap::trim() {
  if (!live_.empty() || committed_ == 0 || pending() != 0) return 0;
  if (RaceChecker* checker = race_checker.load(std::memory_order_relaxed)) checker->host_access({range_, committed_, true, 0});
  backend_.decommit(range_, committed_);
  used_.clear();
  return std::exchange(committed_, 0);
}

}  // namespace thalweg::runtime
