// Texts about memory: the totals with their holders, and the message of an allocation that failed.
#include <algorithm>
#include <cstdio>
#include <map>
#include <sstream>

#include "runtime/pool.h"

namespace thalweg::runtime {
namespace {

constexpr size_t kHolders = 8;  // labels that a report names

std::string readable(size_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1024 && unit < 4; ++unit) value /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.2f %s", value, kUnits[unit]);
  return text;
}

struct Holder {
  size_t bytes = 0, buffers = 0;
};

}  // namespace

std::string Pool::describe() {
  MemoryInfo info = measure();
  size_t largest = 0;
  std::map<std::string, Holder> holders;
  auto look = [&](Block& block) {
    if (block.state() == BlockState::Free && block.is_complete()) largest = std::max(largest, block.bytes);
    if (block.state() != BlockState::Live) return;
    std::string label = block.label();
    Holder& holder = holders[label.empty() ? "(never written)" : label];
    holder.bytes += block.bytes;
    ++holder.buffers;
  };
  each_block(look);
  std::vector<std::pair<std::string, Holder>> sorted(holders.begin(), holders.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });

  std::ostringstream text;
  text << "live " << readable(info.live) << ", freed but in use by queued work " << readable(info.pending) << ", cached " << readable(info.cached)
       << " (largest free block " << readable(largest) << "), reserved " << readable(info.reserved) << ", peak " << readable(info.peak_live) << ", adopted "
       << readable(info.adopted) << ", limit " << (info.limit ? readable(info.limit) : "none") << ". Held by:";
  if (sorted.empty()) text << " nobody.";
  for (size_t i = 0; i < sorted.size() && i < kHolders; ++i) {
    text << "\n  " << readable(sorted[i].second.bytes) << " in " << sorted[i].second.buffers << (sorted[i].second.buffers == 1 ? " buffer of " : " buffers of ")
         << sorted[i].first;
  }
  if (sorted.size() > kHolders) text << "\n  … and " << sorted.size() - kHolders << " more";
  return text.str();
}

std::string Pool::report() {
  std::lock_guard guard(ordering_lock());
  return device_.name() + ": " + describe();
}

std::string Pool::out_of_memory(Lane& lane, size_t bytes, AllocFlags flags) {
  std::ostringstream text;
  text << "out of memory: an allocation of " << readable(bytes) << " (" << bytes << " bytes) on stream " << lane.axis().name << " of " << device_.name()
       << " does not fit: " << describe() << "\nFree tensors, use smaller batches, or raise the limit";
  if (flags.no_growth) text << " (asked for without growth of the reserved memory)";
  if (flags.no_hidden_wait) text << " (asked for without waiting for other streams)";
  text << ".";
  return text.str();
}

}  // namespace thalweg::runtime
