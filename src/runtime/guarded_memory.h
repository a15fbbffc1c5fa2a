// Memory that shows misuse: pages that fault once their buffer is gone, and guards behind buffers that tell who wrote beyond.
#pragma once

#include <deque>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/backend.h"

namespace thalweg::runtime {

inline constexpr size_t kGuardBytes = 256;            // at least so many behind each buffer
inline constexpr unsigned char kGuardPattern = 0xA5;  // what they hold

// What the guards of a device found. Thread-safe.
class GuardLog {
 public:
  // Looks at a guard on the host; a byte that is not the pattern makes a report, which is printed. `label` and `bytes`: of the buffer before it.
  void check(const unsigned char* guard, size_t guard_bytes, const std::string& label, size_t bytes);
  std::vector<std::string> reports() const;

 private:
  mutable std::mutex lock_;
  std::vector<std::string> reports_;
};

// Buffers on pages of their own. All calls under the ordering lock.
class ApartPages {
 public:
  explicit ApartPages(Backend& backend) : backend_(backend) {}
  ~ApartPages();
  ApartPages(const ApartPages&) = delete;

  // Fresh memory that ends where its last page does (rounded to the alignment of buffers); null when there is none.
  char* take(size_t bytes);
  // Takes the memory away and keeps the addresses from reuse until many others have been given back.
  void give(char* data);

 private:
  struct Range {
    char* base;
    size_t committed, reserved;
  };
  void drop_oldest();

  Backend& backend_;
  std::unordered_map<char*, Range> live_;  // by the address that take() gave
  std::deque<Range> kept_;
  size_t kept_bytes_ = 0;
};

}  // namespace thalweg::runtime
