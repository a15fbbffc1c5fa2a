// Streams: ordering of submissions, pacing, and their end.
#include "runtime/pooled_device.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "runtime/race_checker.h"
#include "runtime/rules.h"
#include "support/error.h"

namespace thalweg::runtime {

DeviceStream::DeviceStream(PooledDevice& device, std::string name, const MakeQueue& make_queue)
    : device_(device), pool_(*device.pool_), guarded_(device.modes_.redzone || device.modes_.unmap), axis_(open_axis(std::move(name), *device.backend_)) {
  try {
    queue_ = make_queue(axis_);
  } catch (...) {
    close_axis(axis_);
    throw;
  }
  lane_ = &pool_.open_lane(axis_, queue_.get());
  std::lock_guard guard(ordering_lock());
  device_.axes_.push_back(&axis_);
}

namespace {

void end_timeline(Axis& axis, std::unique_ptr<Queue>& queue) {
  queue.reset();
  axis.lose_pending("the stream ended before the work that was queued on it");
  close_axis(axis);
}

}  // namespace

DeviceStream::~DeviceStream() {
  device_.backend_->refresh(axis_);
  const bool held_up = axis_.held_up.load();
  if (!held_up && holds(Rule::StreamEndDrains)) synchronize();
  pool_.close_lane(*lane_);
  {
    std::lock_guard guard(ordering_lock());
    std::erase(device_.axes_, &axis_);
    // Somebody is capturing a graph on it: what was lent to it must stay out of reach until then, so its timeline goes on, as the device's.
    if (held_up) {
      device_.outlived_.emplace_back(&axis_, std::move(queue_));
      return;
    }
  }
  end_timeline(axis_, queue_);
}

Device& DeviceStream::device() const { return device_; }

BufferPtr DeviceStream::allocate_guarded(size_t bytes, AllocFlags flags) {
  if (device_.modes_.unmap) return pool_.allocate_apart(*lane_, bytes);
  BufferPtr buffer = pool_.allocate(*lane_, bytes, flags, kGuardBytes);
  auto& block = static_cast<Block&>(*buffer);
  // On the stream, since the memory may still be in use before it; a use of the buffer, so that the guard is not looked at earlier.
  submit_after({}, "guard", [backend = device_.backend_.get(), guard = block.base() + bytes, size = block.bytes - bytes](void* native) {
    backend->fill(native, guard, kGuardPattern, size);
  });
  buffer->add_use(axis_);
  return buffer;
}

void DeviceStream::synchronize() { axis_.wait(axis_.submitted.load()); }

// Bounded run-ahead. Work that submits work never blocks here: the stream that it would wait for might be waiting for it.
void DeviceStream::pace() {
  uint64_t limit = device_.run_ahead(), submitted = axis_.submitted.load(std::memory_order_relaxed);
  if (submitted - std::min(submitted, axis_.done.value()) < limit || device_.backend_->running_here() != nullptr) return;
  axis_.wait(submitted - limit / 2);
}

void DeviceStream::submit(const Submission& submission, Work work) {
  pace();
  Task task;
  task.work = std::move(work);
  task.label = submission.label_;
  queue_->check_usable();
  if (device_.backend_->wants_accesses() || race_checker.load(std::memory_order_relaxed)) task.accesses = submission.accesses();
  uint64_t epoch;
  {
    std::lock_guard guard(ordering_lock());
    if (device_.modes_.delay != 0) [[unlikely]]
      delay();
    submission.add_waits(axis_, task.waits);
    submission.add_sources(task.sources);
    epoch = task.epoch = axis_.next_epoch();
    submission.record_uses({&axis_, epoch});
    note_task(axis_, task, submission.site_);
    queue_->push(std::move(task));
  }
  queue_->issue();
  if (device_.modes_.sync && device_.backend_->running_here() == nullptr) [[unlikely]]
    axis_.wait(epoch);
}

// Puts a pause of random length on the stream, or none. Under the ordering lock.
void DeviceStream::delay() {
  if (device_.delays_() % 4 != 0) return;
  std::chrono::microseconds pause(device_.delays_() % 300);
  Task task;
  task.work = [backend = device_.backend_.get(), pause](void* native) { backend->pause(native, pause); };
  task.label = "delay";
  task.epoch = axis_.next_epoch();
  note_task(axis_, task, std::source_location::current());
  queue_->push(std::move(task));
}

Point DeviceStream::submit_after(const Frontier& waits, const char* label, Work work) {
  Task task;
  task.work = std::move(work);
  task.label = label;
  Point point{&axis_, 0};
  {
    std::lock_guard guard(ordering_lock());
    for (const Point& wait : waits) axis_.add_wait(wait, task.waits);
    point.epoch = task.epoch = axis_.next_epoch();
    note_task(axis_, task, std::source_location::current());
    queue_->push(std::move(task));
  }
  queue_->issue();
  return point;
}

void DeviceStream::mark() {
  queue_->check_usable();
  device_.backend_->mark(axis_);
}

PooledDevice::PooledDevice(std::unique_ptr<Backend> backend, std::string name, int ordinal, const DebugModes& modes)
    : backend_(std::move(backend)), name_(std::move(name)), ordinal_(ordinal), modes_(modes), delays_(modes.delay) {
  if (modes_.race && race_checker.load() == nullptr) {
    static RaceChecker& checker = *new RaceChecker;
    checker.print_races();
    check_races(&checker);
  }
  Pool::Hooks hooks;
  hooks.release_later = [this](const Frontier& after, std::function<void()> release) {
    release_->submit_after(after, "release", [release = std::move(release)](void*) { release(); });
  };
  THALWEG_CHECK(!modes_.redzone || backend_->is_host_memory(), Invalid, "the debug mode redzone works on host memory; use unmap on ", name_);
  if (modes_.poison || modes_.redzone) {
    hooks.freed = [this](Block& block) {
      if (modes_.redzone && !modes_.unmap) check_guard(block);
      if (modes_.poison) poison(block);
    };
  }
  hooks.quarantine = modes_.quarantine;
  pool_ = std::make_unique<Pool>(*backend_, *this, std::move(hooks));
  if (modes_.deterministic) pool_->set_deterministic();
  auto queue = [this](Axis& axis) { return backend_->make_queue(axis); };
  compute_ = std::make_unique<DeviceStream>(*this, "compute", queue);
  copy_ = std::make_unique<DeviceStream>(*this, "copy", queue);
  release_ = std::make_unique<DeviceStream>(*this, "release", [this](Axis& axis) { return backend_->make_host_queue(axis); });
  if (modes_.poison) fill_ = std::make_unique<DeviceStream>(*this, "fill", queue);
}

PooledDevice::~PooledDevice() {
  compute_.reset();
  copy_.reset();
  release_.reset();
  fill_.reset();
  for (auto& [axis, queue] : outlived_) end_timeline(*axis, queue);
}

std::unique_ptr<Stream> PooledDevice::make_stream(std::string name) {
  return make_stream(std::move(name), [this](Axis& axis) { return backend_->make_queue(axis); });
}

std::unique_ptr<Stream> PooledDevice::make_stream(std::string name, const DeviceStream::MakeQueue& make_queue) {
  return std::make_unique<DeviceStream>(*this, std::move(name), make_queue);
}

void PooledDevice::synchronize() {
  Frontier all;
  {
    std::lock_guard guard(ordering_lock());
    for (Axis* axis : axes_) all.add({axis, axis->submitted.load()});
  }
  for (const Point& point : all) point.axis->wait(point.epoch);
}

// Looks at the guard of a freed block once nothing uses it; the look then is the last use.
void PooledDevice::check_guard(Block& block) {
  auto look = [this, guard = reinterpret_cast<unsigned char*>(block.base() + block.size()), size = block.bytes - block.size(), label = block.label(),
               bytes = block.size()](void*) { guards_.check(guard, size, label, bytes); };
  Frontier death;
  death.add(release_->submit_after(block.death(), "guard check", look));
  block.set_death(death);
}

// Fills a freed block once nothing uses it; the fill then is the last use.
void PooledDevice::poison(Block& block) {
  Frontier after = block.death();
  auto fill = [backend = backend_.get(), base = block.base(), bytes = block.bytes](void* native) { backend->fill(native, base, 0xFF, bytes); };
  Point filled = fill_->submit_after(after, "poison", fill);
  Frontier death;
  death.add(filled);
  block.set_death(death);
}

}  // namespace thalweg::runtime
