// Streams: ordering of submissions, pacing, and their end.
#include "runtime/pooled_device.h"

#include <algorithm>

#include "runtime/race_checker.h"
#include "runtime/rules.h"

namespace thalweg::runtime {

DeviceStream::DeviceStream(PooledDevice& device, std::string name)
    : device_(device), pool_(*device.pool_), axis_(open_axis(std::move(name), *device.backend_)), queue_(device.backend_->make_queue(axis_)) {
  lane_ = &pool_.open_lane(axis_, queue_.get());
  std::lock_guard guard(ordering_lock());
  device_.axes_.push_back(&axis_);
}

DeviceStream::~DeviceStream() {
  if (holds(Rule::StreamEndDrains)) synchronize();
  pool_.close_lane(*lane_);
  {
    std::lock_guard guard(ordering_lock());
    std::erase(device_.axes_, &axis_);
  }
  queue_.reset();
  axis_.lose_pending("the stream ended before the work that was queued on it");
  close_axis(axis_);
}

Device& DeviceStream::device() const { return device_; }

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
  if (device_.backend_->wants_accesses() || race_checker.load(std::memory_order_relaxed)) task.accesses = submission.accesses();
  std::lock_guard guard(ordering_lock());
  submission.add_waits(axis_, task.waits);
  submission.add_sources(task.sources);
  task.epoch = axis_.next_epoch();
  submission.record_uses({&axis_, task.epoch});
  note_task(axis_, task, submission.site_);
  queue_->push(std::move(task));
}

void DeviceStream::submit_after(const Frontier& waits, const char* label, Work work) {
  Task task;
  task.work = std::move(work);
  task.label = label;
  std::lock_guard guard(ordering_lock());
  for (const Point& point : waits) axis_.add_wait(point, task.waits);
  task.epoch = axis_.next_epoch();
  note_task(axis_, task, std::source_location::current());
  queue_->push(std::move(task));
}

PooledDevice::PooledDevice(std::unique_ptr<Backend> backend, std::string name, int ordinal)
    : backend_(std::move(backend)), name_(std::move(name)), ordinal_(ordinal) {
  pool_ =
      std::make_unique<Pool>(*backend_, *this, [this](Frontier after, std::function<void()> release) { release_later(std::move(after), std::move(release)); });
  compute_ = std::make_unique<DeviceStream>(*this, "compute");
  copy_ = std::make_unique<DeviceStream>(*this, "copy");
  release_ = std::make_unique<DeviceStream>(*this, "release");
}

PooledDevice::~PooledDevice() {
  compute_.reset();
  copy_.reset();
  release_.reset();
}

std::unique_ptr<Stream> PooledDevice::make_stream(std::string name) { return std::make_unique<DeviceStream>(*this, std::move(name)); }

void PooledDevice::synchronize() {
  Frontier all;
  {
    std::lock_guard guard(ordering_lock());
    for (Axis* axis : axes_) all.add({axis, axis->submitted.load()});
  }
  for (const Point& point : all) point.axis->wait(point.epoch);
}

void PooledDevice::release_later(Frontier after, std::function<void()> release) {
  release_->submit_after(after, "release", [release = std::move(release)](void*) { release(); });
}

}  // namespace thalweg::runtime
