// Issuing, marking and retiring of tasks.
#include "runtime/cuda/stream_queue.h"

#include <sched.h>

#include <algorithm>
#include <utility>

#include "runtime/cuda/cuda_device.h"
#include "runtime/race_checker.h"
#include "support/error.h"

namespace thalweg::runtime::cuda {

struct StreamCore::Hold {
  explicit Hold(StreamCore& core) : core(core), below(top) { top = this; }
  ~Hold() { top = below; }
  Hold(const Hold&) = delete;

  StreamCore& core;
  Hold* below;
  static thread_local Hold* top;
};

thread_local StreamCore::Hold* StreamCore::Hold::top = nullptr;

namespace {

constexpr const char* kForked = "the work belongs to the parent process: CUDA does not work in a forked child; start processes with the method 'spawn'";

// Cores by the slot of their axis. Never destroyed.
struct Registry {
  SpinLock lock;
  std::vector<std::shared_ptr<StreamCore>> by_slot;
};
Registry& registry() {
  static Registry& instance = *new Registry;
  return instance;
}

// One thread at a time finds out what has completed, of all streams: what a task inherits from tasks of other streams is looked up on the way.
std::mutex& retire_lock() {
  static std::mutex& lock = *new std::mutex;
  return lock;
}

thread_local const Axis* running_axis = nullptr;
thread_local std::vector<std::function<void()>>* running_checks = nullptr;
// Streams with tasks that this thread issues when it holds no stream any more.
thread_local std::vector<std::shared_ptr<StreamCore>> postponed;

}  // namespace

EventPool::~EventPool() {
  if (is_forked()) return;
  for (EventHandle event : spare_) driver().event_destroy(event);
}

std::shared_ptr<EventObject> EventPool::take() {
  EventHandle event = nullptr;
  {
    std::lock_guard guard(lock_);
    if (!spare_.empty()) {
      event = spare_.back();
      spare_.pop_back();
    }
  }
  if (event == nullptr) check(driver().event_create(&event, kEventDisableTiming), "create an event");
  return {event, [pool = shared_from_this()](EventHandle used) {
            std::lock_guard guard(pool->lock_);
            pool->spare_.push_back(used);
          }};
}

std::shared_ptr<StreamCore> StreamCore::of(const Axis& axis) {
  Registry& all = registry();
  std::lock_guard guard(all.lock);
  return axis.slot < all.by_slot.size() ? all.by_slot[axis.slot] : nullptr;
}

void StreamCore::enlist() {
  Registry& all = registry();
  std::lock_guard guard(all.lock);
  if (all.by_slot.size() <= axis_.slot) all.by_slot.resize(axis_.slot + 1);
  all.by_slot[axis_.slot] = shared_from_this();
}

void StreamCore::delist() {
  Registry& all = registry();
  std::shared_ptr<StreamCore> last;
  std::lock_guard guard(all.lock);
  last.swap(all.by_slot[axis_.slot]);
}

const Axis* StreamCore::running_here() { return running_axis; }

void StreamCore::add_check(std::function<void()> check) {
  THALWEG_ASSERT(running_checks != nullptr, "on_complete() outside of work of a CUDA stream");
  running_checks->push_back(std::move(check));
}

bool StreamCore::is_held_here() const {
  for (Hold* hold = Hold::top; hold; hold = hold->below) {
    if (&hold->core == this) return true;
  }
  return false;
}

void StreamCore::push(Task task) {
  std::lock_guard guard(tasks_lock_);
  tasks_.push_back(std::move(task));
}

bool StreamCore::has_tasks() {
  std::lock_guard guard(tasks_lock_);
  return !tasks_.empty();
}

bool StreamCore::has_only_marks() {
  std::lock_guard guard(tasks_lock_);
  return std::none_of(tasks_.begin(), tasks_.end(), [](const Task& task) { return static_cast<bool>(task.work); });
}

// What work submits is issued after that work, when no stream is held: it may be ordered after anything that was submitted before it, also by others.
void StreamCore::issue() {
  if (is_forked()) return lose_forked();
  if (Hold::top != nullptr) {
    postponed.push_back(shared_from_this());
    return;
  }
  issue_now();
  while (!postponed.empty()) {
    std::shared_ptr<StreamCore> next = std::move(postponed.back());
    postponed.pop_back();
    next->issue_now();
  }
}

void StreamCore::issue_now() {
  while (has_tasks()) {
    std::unique_lock guard(issuing_, std::try_to_lock);
    if (!guard.owns_lock()) return;  // whoever holds it looks at the tasks again after letting go
    drain(~uint64_t{0});
    if (axis_.held_up.load()) return;  // poll() tries again
  }
}

// Issues no more than what is asked for: all of it was submitted before the task that asks, so that no two threads can wait for each other.
bool StreamCore::issue_upto(uint64_t epoch) {
  if (issued_.value() >= epoch) return true;
  if (is_held_here()) return false;
  for (int round = 0; issued_.value() < epoch; ++round) {
    std::unique_lock guard(issuing_, std::try_to_lock);
    if (guard.owns_lock()) {
      drain(epoch);
      bool held_up = axis_.held_up.load();
      guard.unlock();
      THALWEG_CHECK(!held_up, Device, "the stream ", axis_.name, " is capturing a graph, so that nothing can wait for it now: do this after the capture");
      if (has_tasks()) issue();
    } else if (round < 64) {
      spin_pause();
    } else {
      sched_yield();
    }
  }
  return true;
}

// Under issuing_.
void StreamCore::drain(uint64_t upto) {
  Hold hold(*this);
  ContextScope scope(events_->context());
  // An event recorded on a stream that is capturing would become part of the graph.
  if (shared_) axis_.held_up.store(is_capturing());
  if (axis_.held_up.load()) return;
  for (;;) {
    Task task;
    {
      std::lock_guard guard(tasks_lock_);
      if (tasks_.empty() || tasks_.front().epoch > upto) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    issue_task(task);
  }
}

void StreamCore::issue_task(Task& task) {
  try {
    put_waits(task);
  } catch (...) {
    axis_.fail(task.epoch, std::current_exception());
    task.work = nullptr;
  }
  std::vector<std::function<void()>> checks;
  const Axis* axis_below = std::exchange(running_axis, &axis_);
  auto* checks_below = std::exchange(running_checks, &checks);
  run_task(task, axis_, native_);
  running_axis = axis_below;
  running_checks = checks_below;
  record(task, std::move(checks));
  issued_.advance(task.epoch);
}

void StreamCore::put_waits(const Task& task) {
  for (const Point& point : task.waits) {
    if (point.axis->done.value() >= point.epoch) continue;
    std::shared_ptr<StreamCore> other = of(*point.axis);
    if (other == nullptr) {
      point.axis->wait(point.epoch);  // work on the host: nothing that the device could wait for
      continue;
    }
    THALWEG_ASSERT(other->issue_upto(point.epoch), "a task waits for work that is being issued below it");
    if (std::shared_ptr<EventObject> event = other->event_of(point.epoch)) {
      check(driver().stream_wait_event(native_, event.get(), 0), "make a stream wait for an event");
    }
  }
}

void StreamCore::record(Task& task, std::vector<std::function<void()>> checks) {
  std::shared_ptr<EventObject> event;
  try {
    event = events_->take();
    check(driver().event_record(event.get(), native_), "record an event");
  } catch (...) {
    axis_.fail(task.epoch, std::current_exception());
    event.reset();
  }
  std::lock_guard guard(markers_lock_);
  markers_.push_back({task.epoch, std::move(event), task.label, std::move(task.sources), std::move(checks)});
}

// The event that is recorded behind `epoch`, which has been issued; null when it has completed.
std::shared_ptr<EventObject> StreamCore::event_of(uint64_t epoch) {
  std::lock_guard guard(markers_lock_);
  auto found = std::lower_bound(markers_.begin(), markers_.end(), epoch, [](const Marker& marker, uint64_t value) { return marker.epoch < value; });
  return found == markers_.end() ? nullptr : found->event;
}

void StreamCore::wait(uint64_t epoch) {
  if (is_forked()) return lose_forked();
  THALWEG_CHECK(issue_upto(epoch), Device, "work on a stream waits for the stream ", axis_.name, ", which waits for that work itself: wait on the host");
  ContextScope scope(events_->context());
  CaptureExempt exempt;
  Result result = kSuccess;
  if (std::shared_ptr<EventObject> event = event_of(epoch)) result = driver().event_synchronize(event.get());
  std::lock_guard guard(retire_lock());
  retire(epoch, result);
}

void StreamCore::poll() {
  if (is_forked()) return;
  if (axis_.held_up.load() && has_only_marks()) issue();
  if (axis_.done.value() == issued_.value()) return;
  ContextScope scope(events_->context());
  CaptureExempt exempt;
  std::lock_guard guard(retire_lock());
  retire(0);
}

void StreamCore::poll_all(const EventPool& events) {
  std::vector<std::shared_ptr<StreamCore>> cores;
  {
    std::lock_guard guard(registry().lock);
    for (auto& core : registry().by_slot) {
      if (core && core->events_.get() == &events) cores.push_back(core);
    }
  }
  for (auto& core : cores) core->poll();
}

bool StreamCore::is_capturing() const {
  ContextScope scope(events_->context());
  int status = 0;
  return driver().stream_is_capturing(native_, &status) == kSuccess && status != 0;
}

void StreamCore::mark() {
  if (!shared_ || is_forked()) return;
  {
    std::lock_guard guard(ordering_lock());
    Task task;
    task.label = "mark";
    task.epoch = axis_.next_epoch();
    note_task(axis_, task, std::source_location::current());
    push(std::move(task));
  }
  issue();
}

void StreamCore::retire(uint64_t known, Result result, uint64_t limit) {
  for (;;) {
    Marker* front;
    {
      std::lock_guard guard(markers_lock_);
      if (markers_.empty()) return;
      front = &markers_.front();  // stays where it is while others are added
    }
    uint64_t epoch = front->epoch;
    if (epoch > limit) return;
    Result outcome = epoch <= known ? result : kSuccess;
    if (front->event != nullptr && (epoch > known || result != kSuccess)) {
      Result answer = driver().event_query(front->event.get());
      if (answer == kErrorNotReady && epoch > known) return;
      if (answer != kErrorNotReady) outcome = answer;
    }
    if (outcome != kSuccess) fail_on_device(*front, outcome);
    complete(*front);
    Marker last;
    {
      std::lock_guard guard(markers_lock_);
      last = std::move(markers_.front());
      markers_.pop_front();
    }
    axis_.done.advance(epoch);
  }
}

void StreamCore::fail_on_device(const Marker& marker, Result result) {
  std::ostringstream message;
  message << "the GPU failed while it ran " << (*marker.label ? marker.label : "work") << " on stream " << axis_.name << " ("
          << (result == kErrorDeinitialized ? "the process is exiting" : error_text(result)) << "); later use of this GPU fails too: start the process anew";
  axis_.fail(marker.epoch, std::make_exception_ptr(Error(ErrorKind::Device, message.str())));
}

// Settles whether a task that the device has completed has failed.
void StreamCore::complete(Marker& marker) {
  std::exception_ptr error;
  for (const Point& source : marker.sources) {
    if (source.axis->done.value() < source.epoch && source.axis != &axis_) {
      // The device has completed it, or this task could not have run. No further than that: later tasks there may come after this one.
      if (std::shared_ptr<StreamCore> other = of(*source.axis)) other->retire(source.epoch, kSuccess, source.epoch);
    }
    if (!error) error = source.axis->error(source.epoch);
  }
  for (auto& check : marker.checks) {
    try {
      if (!error) check();
    } catch (...) {
      error = std::current_exception();
    }
  }
  if (error) axis_.fail(marker.epoch, error);
}

void StreamCore::lose_forked() {
  {
    std::lock_guard guard(tasks_lock_);
    tasks_.clear();
  }
  axis_.lose_pending(kForked);
}

StreamQueue::StreamQueue(Axis& axis, std::shared_ptr<EventPool> events, StreamHandle native, bool owned)
    : core_(std::make_shared<StreamCore>(axis, events, native, !owned)), context_(events->context()), owned_(owned) {
  core_->enlist();
}

StreamQueue::~StreamQueue() {
  if (is_forked()) return;
  core_->delist();
  if (!owned_) return;
  ContextScope scope(context_);
  driver().stream_destroy(core_->native());
}

void StreamQueue::check_usable() const {
  if (owned_) return;
  THALWEG_CHECK(!core_->is_capturing(), Device,
                "the stream is capturing a graph, which would take up Thalweg's own events: exchange tensors before or after the capture");
}

}  // namespace thalweg::runtime::cuda
