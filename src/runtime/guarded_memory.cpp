// Memory that shows misuse: pages that fault once their buffer is gone, and guards behind buffers that tell who wrote beyond.
#include "runtime/guarded_memory.h"

#include <algorithm>
#include <cstdio>
#include <sstream>

#include "runtime/size_class.h"
#include "support/error.h"

namespace thalweg::runtime {
namespace {

constexpr size_t kKeptBytes = size_t{64} << 30;  // addresses without memory
constexpr size_t kKeptRanges = 16384;            // a process may have some 65,000 mappings

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

void GuardLog::check(const unsigned char* guard, size_t guard_bytes, const std::string& label, size_t bytes) {
  const unsigned char* end = guard + guard_bytes;
  const unsigned char* first = std::find_if(guard, end, [](unsigned char byte) { return byte != kGuardPattern; });
  if (first == end) return;
  const auto wrong = std::count_if(guard, end, [](unsigned char byte) { return byte != kGuardPattern; });
  std::ostringstream text;
  text << "memory beyond a buffer was written: " << wrong << (wrong == 1 ? " byte" : " bytes") << " behind the " << bytes << " of "
       << (label.empty() ? "(a buffer that nobody wrote)" : label) << ", the first " << first - guard
       << " behind its end; look at the work that used this buffer, or the one before it in memory";
  std::fprintf(stderr, "thalweg: %s\n", text.str().c_str());
  std::lock_guard lock(lock_);
  reports_.push_back(text.str());
}

std::vector<std::string> GuardLog::reports() const {
  std::lock_guard lock(lock_);
  return reports_;
}

ApartPages::~ApartPages() {
  while (!kept_.empty()) drop_oldest();
}

void ApartPages::drop_oldest() {
  backend_.unreserve(kept_.front().base, kept_.front().reserved);
  kept_bytes_ -= kept_.front().reserved;
  kept_.pop_front();
}

char* ApartPages::take(size_t bytes) {
  if (bytes > kLargestBytes) return nullptr;
  const size_t committed = round_up(std::max<size_t>(bytes, 1), backend_.page_bytes());
  size_t reserved = committed;
  char* base = backend_.reserve(reserved);
  if (base == nullptr) return nullptr;
  if (reserved < committed || !backend_.commit(base, committed)) {
    backend_.unreserve(base, reserved);
    return nullptr;
  }
  char* data = base + committed - round_up(std::max<size_t>(bytes, 1), kGranule);
  live_[data] = {base, committed, reserved};
  return data;
}

void ApartPages::give(char* data) {
  auto found = live_.find(data);
  THALWEG_ASSERT(found != live_.end(), "memory that is not on pages of its own");
  kept_.push_back(found->second);
  live_.erase(found);
  backend_.decommit(kept_.back().base, kept_.back().committed);
  kept_bytes_ += kept_.back().reserved;
  while (kept_bytes_ > kKeptBytes || kept_.size() > kKeptRanges) drop_oldest();
}

}  // namespace thalweg::runtime
