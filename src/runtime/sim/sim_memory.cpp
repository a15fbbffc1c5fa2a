// What is mapped, and ranges of host addresses to map it in.
#include "runtime/sim/sim_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "runtime/sim/sim_device.h"
#include "support/error.h"

namespace thalweg::runtime::sim {
namespace {

// Ranges of host addresses, kept for the next device: mapping them anew for each of a million devices would be most of the work.
class Ranges {
 public:
  static char* take(size_t bytes) {
    std::lock_guard guard(lock());
    auto& spare = kept()[bytes];
    if (!spare.empty()) {
      char* range = spare.back();
      spare.pop_back();
      return range;
    }
    void* range = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return range == MAP_FAILED ? nullptr : static_cast<char*>(range);
  }
  static void give(char* range, size_t bytes) {
    std::lock_guard guard(lock());
    kept()[bytes].push_back(range);
  }

 private:
  static std::mutex& lock() {
    static std::mutex& instance = *new std::mutex;
    return instance;
  }
  static std::map<size_t, std::vector<char*>>& kept() {
    static auto& instance = *new std::map<size_t, std::vector<char*>>;
    return instance;
  }
};

}  // namespace

SimMemory::SimMemory(const Options& options)
    : page_bytes_(options.page_bytes),
      range_bytes_(options.range_bytes),
      memory_bytes_(options.memory_bytes),
      failing_reserve_(options.failing_reserve),
      failing_commit_(options.failing_commit) {}

char* SimMemory::reserve(size_t& bytes) {
  std::lock_guard guard(lock_);
  if (++reserves_ == failing_reserve_) return nullptr;
  bytes = std::min(bytes, range_bytes_);
  return Ranges::take(bytes);
}

void SimMemory::unreserve(char* base, size_t bytes) {
  std::lock_guard guard(lock_);
  mapped_.erase(mapped_.lower_bound(base), mapped_.lower_bound(base + bytes));
  Ranges::give(base, bytes);
}

bool SimMemory::commit(char* base, size_t bytes) {
  std::lock_guard guard(lock_);
  if (++commits_ == failing_commit_ || committed_ + bytes > memory_bytes_) return false;
  THALWEG_ASSERT(bytes % page_bytes_ == 0 && !any_mapped(base, bytes), "commit of mapped memory");
  committed_ += bytes;
  mapped_[base] = bytes;
  return true;
}

void SimMemory::decommit(char* base, size_t bytes) {
  std::lock_guard guard(lock_);
  THALWEG_ASSERT(covers(base, bytes), "decommit of memory that is not mapped");
  cut_at(base);
  cut_at(base + bytes);
  mapped_.erase(mapped_.lower_bound(base), mapped_.lower_bound(base + bytes));
  committed_ -= bytes;
}

// Makes two of a mapping that reaches over `at`.
void SimMemory::cut_at(char* at) {
  auto after = mapped_.upper_bound(at);
  if (after == mapped_.begin()) return;
  auto [begin, size] = *std::prev(after);
  if (begin == at || begin + size <= at) return;
  mapped_[begin] = static_cast<size_t>(at - begin);
  mapped_[at] = static_cast<size_t>(begin + size - at);
}

bool SimMemory::any_mapped(char* base, size_t bytes) const {
  auto after = mapped_.lower_bound(base + bytes);
  if (after == mapped_.begin()) return false;
  auto [begin, size] = *std::prev(after);
  return begin + size > base;
}

bool SimMemory::covers(const char* base, size_t bytes) const {
  const char* end = base + bytes;
  while (base < end) {
    auto after = mapped_.upper_bound(const_cast<char*>(base));
    if (after == mapped_.begin()) return false;
    auto [begin, size] = *std::prev(after);
    if (begin + size <= base) return false;
    base = begin + size;
  }
  return true;
}

bool SimMemory::is_mapped(const char* base, size_t bytes) const {
  std::lock_guard guard(lock_);
  return covers(base, bytes);
}

}  // namespace thalweg::runtime::sim
