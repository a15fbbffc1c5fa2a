// The queue behind a CUDA stream: issues tasks in order, marks where each ends, and finds out what has completed.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/backend.h"
#include "runtime/cuda/driver.h"

namespace thalweg::runtime::cuda {

// Events of one context, kept for reuse. Thread-safe.
class EventPool : public std::enable_shared_from_this<EventPool> {
 public:
  explicit EventPool(Context context) : context_(context) {}
  ~EventPool();
  // An event that goes back to the pool with its last reference. The context must be current. Throws Error(Vendor).
  std::shared_ptr<EventObject> take();
  Context context() const { return context_; }

 private:
  Context context_;
  SpinLock lock_;
  std::vector<EventHandle> spare_;
};

// What is known of one stream; outlives the queue as long as a thread still looks at it.
//
// push() only stores a task, under the ordering lock. The submitting thread issues it afterwards, without that lock: it makes the stream wait for the
// task's waits, calls the work, and records an event. A thread that needs a point of a stream which has not been issued yet issues it itself, or waits for the
// thread that is about to; since waits name only what was submitted earlier, these waits end.
class StreamCore : public std::enable_shared_from_this<StreamCore> {
 public:
  StreamCore(Axis& axis, std::shared_ptr<EventPool> events, StreamHandle native, bool shared)
      : axis_(axis), events_(std::move(events)), native_(native), shared_(shared) {
    issued_.advance(axis.submitted.load());
  }

  // The core of `axis`, null when it belongs to no CUDA stream (any more). Any thread.
  static std::shared_ptr<StreamCore> of(const Axis& axis);
  void enlist();
  void delist();

  StreamHandle native() const { return native_; }
  void push(Task task);
  // Issues what was pushed, unless some thread is at it already.
  void issue();
  // Returns once the host has seen `epoch` complete.
  void wait(uint64_t epoch);
  // Brings Axis::done up to date, without blocking.
  void poll();
  // The same for all streams of one context.
  static void poll_all(const EventPool& events);
  // For a stream that others use: gives it an epoch behind all that is on it now; while it is capturing a graph, one that completes after the
  // capture. Without the ordering lock.
  void mark();
  // True while the stream is capturing a graph.
  bool is_capturing() const;
  // The timeline whose work this thread is issuing, null when none.
  static const Axis* running_here();
  // See on_complete().
  static void add_check(std::function<void()> check);

 private:
  struct Marker {
    uint64_t epoch;
    std::shared_ptr<EventObject> event;  // null: could not be recorded, the context is broken
    const char* label;
    std::vector<Point> sources;
    std::vector<std::function<void()>> checks;
  };
  // A stream that this thread is issuing tasks of; they nest where one needs another.
  struct Hold;

  bool is_held_here() const;
  bool has_tasks();
  bool has_only_marks();
  void issue_now();
  // Makes sure that `epoch` is issued; false when this thread itself is in the middle of issuing the stream below it.
  bool issue_upto(uint64_t epoch);
  void drain(uint64_t upto);
  void issue_task(Task& task);
  void put_waits(const Task& task);
  void record(Task& task, std::vector<std::function<void()>> checks);
  std::shared_ptr<EventObject> event_of(uint64_t epoch);
  // Completes markers in order: all up to `known`, which the device has completed (or failed with `result`), and beyond that as far as the device says,
  // but not beyond `limit`. Under the retire lock.
  void retire(uint64_t known, Result result = kSuccess, uint64_t limit = ~uint64_t{0});
  void complete(Marker& marker);
  void fail_on_device(const Marker& marker, Result result);
  void lose_forked();

  Axis& axis_;
  std::shared_ptr<EventPool> events_;
  const StreamHandle native_;
  const bool shared_;  // with others
  SpinLock tasks_lock_;
  std::deque<Task> tasks_;
  std::mutex issuing_;
  Gate issued_;
  SpinLock markers_lock_;
  std::deque<Marker> markers_;
};

// The Queue of a stream that is ours, or of one that is somebody else's (`owned` false).
class StreamQueue final : public Queue {
 public:
  StreamQueue(Axis& axis, std::shared_ptr<EventPool> events, StreamHandle native, bool owned);
  ~StreamQueue() override;
  void push(Task task) override { core_->push(std::move(task)); }
  void issue() override { core_->issue(); }
  void* native() const override { return core_->native(); }
  // Throws Error(Device) while a stream of somebody else is capturing a graph.
  void check_usable() const override;

 private:
  std::shared_ptr<StreamCore> core_;
  Context context_;
  bool owned_;
};

}  // namespace thalweg::runtime::cuda
