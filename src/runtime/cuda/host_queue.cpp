// What a host queue does with a task.
#include "runtime/cuda/host_queue.h"

#include "runtime/cuda/driver.h"

namespace thalweg::runtime::cuda {
namespace {

thread_local const Axis* running_axis = nullptr;

}  // namespace

const Axis* HostQueue::running_here() { return running_axis; }

HostQueue::HostQueue(Axis& axis) : axis_(axis), thread_("tw-release", [this](Task& task) { run(task); }) {}

HostQueue::~HostQueue() {
  if (is_forked()) thread_.abandon();
}

void HostQueue::push(Task task) {
  if (is_forked()) return axis_.lose_pending("memory of the parent process is not released in a forked child");
  if (!thread_.push(std::move(task))) axis_.lose_pending("the system gave no thread to release memory on: there may be too many threads");
}

void HostQueue::run(Task& task) {
  for (const Point& point : task.waits) point.axis->wait(point.epoch);
  uint64_t epoch = task.epoch;
  running_axis = &axis_;
  run_task(task, axis_, nullptr);
  running_axis = nullptr;
  task = {};
  axis_.done.advance(epoch);
}

}  // namespace thalweg::runtime::cuda
