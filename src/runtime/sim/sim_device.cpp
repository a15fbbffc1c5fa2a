// What both kinds of simulated device have in common.
#include "runtime/sim/sim_device.h"

#include <algorithm>

#include "runtime/sim/sim_backend.h"
#include "support/error.h"

namespace thalweg::runtime::sim {

thread_local const Axis* SimBackend::running_axis = nullptr;

void SimBackend::run(Task& task, Axis& axis) {
  const uint64_t epoch = task.epoch;
  running_axis = &axis;
  run_task(task, axis, nullptr);
  running_axis = nullptr;
  run_.fetch_add(1);
  axis.done.advance(epoch);
}

uint64_t SimBackend::count_queue() {
  const uint64_t number = ++queues_made_;
  THALWEG_CHECK(number != options_.failing_queue, Device, "injected failure of a new stream");
  return number;
}

bool SimBackend::is_past(const Frontier& waits) {
  return std::all_of(waits.begin(), waits.end(), [](const Point& point) { return point.axis->done.value() >= point.epoch; });
}

SimDevice::SimDevice(Options options) : has_threads_(options.threads != 0) {
  auto backend = has_threads_ ? make_threads(options) : make_stepper(options);
  backend_ = backend.get();
  device_ = std::make_unique<PooledDevice>(std::move(backend), "SIM:" + std::to_string(options.ordinal), options.ordinal, options.modes);
}

SimDevice::~SimDevice() = default;

void SimDevice::host_step(bool observes) { backend_->host_step(observes); }

void SimDevice::run_all() {
  if (has_threads_) return device_->synchronize();
  backend_->run_all();
}

std::string SimDevice::schedule() const { return backend_->schedule(); }

bool SimDevice::is_mapped(const void* base, size_t bytes) const { return backend_->memory().is_mapped(static_cast<const char*>(base), bytes); }

uint64_t SimDevice::tasks_run() const { return backend_->tasks_run(); }

std::shared_ptr<Device> make_device(Options options) {
  auto sim = std::make_shared<SimDevice>(options);
  return {sim, &sim->device()};
}

}  // namespace thalweg::runtime::sim
