// The table of interned Python lines.
#include "lazy/lines.h"

#include <deque>
#include <mutex>
#include <unordered_map>

namespace thalweg::lazy {
namespace {

struct Lines {
  std::mutex lock;
  std::unordered_map<std::string, uint32_t> numbers;
  std::deque<std::string> texts{""};
};

Lines& lines() {
  static auto* table = new Lines;
  return *table;
}

}  // namespace

uint32_t intern_line(const std::string& line) {
  Lines& table = lines();
  std::lock_guard guard(table.lock);
  auto [it, added] = table.numbers.try_emplace(line, static_cast<uint32_t>(table.texts.size()));
  if (added) table.texts.push_back(line);
  return it->second;
}

const std::string& line_text(uint32_t line) {
  Lines& table = lines();
  std::lock_guard guard(table.lock);
  return table.texts[line < table.texts.size() ? line : 0];
}

}  // namespace thalweg::lazy
