// Timelines: in-order sequences of work, what each has completed, what each is ordered after, and the errors of failed work.
#pragma once

#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "runtime/frontier.h"
#include "runtime/gate.h"
#include "runtime/spin_lock.h"

namespace thalweg::runtime {

class Backend;

// Guards the order of submissions in the whole process: every axis's knowledge, every buffer's uses and every heap. One lock, because a submission
// that touches several buffers must see and leave all of them at one moment: two streams that interleaved could wait for each other.
// Held for well under a microsecond, except where memory is searched for.
std::mutex& ordering_lock();

// A timeline. Its slot may be used again by a later timeline after close_axis(), which goes on counting epochs, so that a Point never means two things.
// Never deleted.
class Axis {
 public:
  explicit Axis(uint32_t slot) : slot(slot) {}

  const uint32_t slot;
  std::string name;                        // of the stream that has it; guarded by the ordering lock
  std::atomic<Backend*> backend{nullptr};  // of that stream; null while closed
  std::atomic<uint64_t> submitted{0};      // epochs given out; written under the ordering lock
  Gate done;                               // epochs completed
  std::atomic<bool> held_up{false};        // somebody else keeps its stream from taking work, for who knows how long: nothing of ours may wait for it
  uint64_t opened_after = 0;               // epochs of earlier timelines of the slot, which completed before it was closed; guarded by the ordering lock

  // True when `point` is past for all work that this axis gets from now on, whatever has completed. Under the ordering lock.
  bool is_after(const Point& point) const {
    return point.axis == nullptr || point.axis == this || known_.at(point.axis->slot) >= point.epoch || point.epoch <= point.axis->opened_after;
  }
  // Notes that later work of this axis is ordered after `point`, and after all that its axis knew there. Under the ordering lock.
  void learn(const Point& point);
  // Puts `point` into `waits` unless this axis is after it or it has completed. Under the ordering lock.
  void add_wait(const Point& point, Frontier& waits);
  // Gives out the next epoch; what was learned before counts from it on. Under the ordering lock.
  uint64_t next_epoch();

  // Blocks the host until `epoch` has completed. Not under the ordering lock. Throws Error(Device) in work of this axis, which would wait for itself.
  void wait(uint64_t epoch);
  // Stores the error of `epoch`, before it completes. Any thread.
  void fail(uint64_t epoch, std::exception_ptr error);
  // Gives up the work that has not completed: it counts as completed, and failed with Error(Device, reason).
  void lose_pending(const char* reason);
  // The error of `epoch`, null when it has not failed. Any thread.
  std::exception_ptr error(uint64_t epoch);
  // Whether any epoch has ever failed. Any thread.
  bool has_errors() const { return has_errors_.load(std::memory_order_acquire); }
  // The first error since the last call, null when there was none. Any thread.
  std::exception_ptr take_error();
  // Held across a fork, so that the child finds the errors whole.
  SpinLock& errors_lock() { return errors_lock_; }

 private:
  struct LostRange {
    uint64_t after, upto;
    const char* reason;
  };
  // What every later epoch is ordered after, and what it was at the last epochs that learned something.
  Clock known_;
  std::deque<std::pair<uint64_t, Clock>> history_;
  bool learned_ = false;  // since the last epoch

  SpinLock errors_lock_;
  std::atomic<bool> has_errors_{false};
  std::map<uint64_t, std::exception_ptr> errors_;  // of the first few thousand failed epochs
  std::vector<uint64_t> errors_dropped_;           // failed epochs after those
  std::vector<LostRange> lost_;
  std::exception_ptr unread_;
};

// True when the host has seen `point` complete.
bool is_done(const Point& point);
// The same, after asking the device where completion is not told by itself. Any thread.
bool observe(const Point& point);
// True when every point of `frontier` has completed.
bool is_done(const Frontier& frontier);

// A timeline for work of `backend`. Takes the ordering lock.
Axis& open_axis(std::string name, Backend& backend);
// Gives the timeline back; all its work must have completed. Takes the ordering lock.
void close_axis(Axis& axis);

}  // namespace thalweg::runtime
