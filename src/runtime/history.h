// A recording of what happened to memory and what ran on streams, for pictures.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/axis.h"
#include "runtime/buffer.h"

namespace thalweg::runtime {

// What an event is about.
enum class Happening : uint8_t {
  Allocated,    // a buffer got memory
  Freed,        // its last reference is gone
  Completed,    // … and so is the last queued work that uses it, as far as the host has seen
  OutOfMemory,  // an allocation failed
  Ran,          // a task ran on a stream; on devices that run work later: was handed to them
};

// One event.
struct HistoryEvent {
  Happening what = Happening::Allocated;
  int64_t start_ns = 0, end_ns = 0;  // of the system's clock since 1970; equal but for Ran
  uintptr_t address = 0;
  size_t bytes = 0;    // asked for
  std::string stream;  // that the memory was allocated on, or that the task ran on
  std::string text;    // what the buffer or the task is called; "" for a buffer that nobody has written yet
};

// Thread-safe. At most one in force, see record_history().
class History {
 public:
  // Keeps the latest `limit` events.
  explicit History(size_t limit) : limit_(limit) {}

  void allocated(const Buffer& buffer, const std::string& stream);
  // `after`: who may still be using it.
  void freed(const Buffer& buffer, Frontier after);
  void out_of_memory(size_t bytes, const std::string& stream);
  void ran(const std::string& stream, const char* label, int64_t start_ns, int64_t end_ns);
  // What a live buffer is called, from now on; longer than its label may be.
  void name(const Buffer& buffer, const std::string& text);
  // What has been recorded, in order of start.
  std::vector<HistoryEvent> events();
  // What name() called the live buffer at `address`; "" when it did not.
  std::string name_of(uintptr_t address) const;

 private:
  struct Pending {
    Frontier after;
    HistoryEvent event;
  };
  void add(HistoryEvent event);
  void look_at_pending();

  const size_t limit_;
  mutable std::mutex lock_;
  std::deque<HistoryEvent> events_;
  uint64_t dropped_ = 0;                          // events that were here before those
  std::unordered_map<uintptr_t, uint64_t> live_;  // address → number of the allocation's event
  std::unordered_map<uintptr_t, std::string> names_;
  std::deque<Pending> pending_;
};

// The recording in force, null when nothing is recorded.
inline std::atomic<History*> history{nullptr};

// Starts a new recording of at most `limit` events, or with 0 ends the present one, which stays readable until the next is started.
void record_history(size_t limit);
// The latest recording, null when there was none.
History* latest_history();

// Nanoseconds of the system's clock since 1970.
int64_t history_now();

}  // namespace thalweg::runtime
