// Simulated device memory: host memory that knows what is mapped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace thalweg::runtime::sim {

struct Options;

// Thread-safe.
class SimMemory {
 public:
  explicit SimMemory(const Options& options);

  // See Backend. The injected failures of the options count calls from the start.
  char* reserve(size_t& bytes);
  void unreserve(char* base, size_t bytes);
  bool commit(char* base, size_t bytes);
  void decommit(char* base, size_t bytes);
  size_t page_bytes() const { return page_bytes_; }
  // Whether memory stands behind all of these bytes.
  bool is_mapped(const char* base, size_t bytes) const;

 private:
  bool covers(const char* base, size_t bytes) const;
  bool any_mapped(char* base, size_t bytes) const;
  void cut_at(char* at);

  const size_t page_bytes_, range_bytes_, memory_bytes_;
  const uint64_t failing_reserve_, failing_commit_;
  mutable std::mutex lock_;
  uint64_t reserves_ = 0, commits_ = 0;
  size_t committed_ = 0;
  std::map<char*, size_t> mapped_;
};

}  // namespace thalweg::runtime::sim
