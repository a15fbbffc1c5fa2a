// Sums of command times, printed at exit.
#include "exec/profile.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

namespace thalweg::exec {
namespace {

struct Row {
  int64_t runs = 0;
  double seconds = 0;
};

struct Profile {
  std::mutex mutex;
  std::map<std::string, Row> rows;
};

Profile& sums() {
  static auto* profile = new Profile;
  return *profile;
}

void print() {
  Profile& p = sums();
  std::lock_guard lock(p.mutex);
  std::vector<std::pair<std::string, Row>> rows(p.rows.begin(), p.rows.end());
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  double total = 0;
  for (const auto& [name, row] : rows) total += row.seconds;
  std::fprintf(stderr, "%10.3f ms in commands\n", total * 1e3);
  for (size_t i = 0; i < rows.size() && i < 60; ++i)
    std::fprintf(stderr, "%10.3f ms %6lld runs %9.1f us each  %s\n", rows[i].second.seconds * 1e3, static_cast<long long>(rows[i].second.runs),
                 rows[i].second.seconds * 1e6 / static_cast<double>(rows[i].second.runs), rows[i].first.c_str());
}

}  // namespace

bool profiling() {
  static const bool on = [] {
    const bool set = std::getenv("THALWEG_PROFILE") != nullptr;
    if (set) std::atexit(print);
    return set;
  }();
  return on;
}

void profile(const std::string& name, double seconds) {
  Profile& p = sums();
  std::lock_guard lock(p.mutex);
  Row& row = p.rows[name];
  ++row.runs;
  row.seconds += seconds;
}

}  // namespace thalweg::exec
