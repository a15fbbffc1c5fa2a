// The loop of a host queue.
#include "runtime/cuda/host_queue.h"

#include <pthread.h>

#include "runtime/cuda/driver.h"

namespace thalweg::runtime::cuda {
namespace {

thread_local const Axis* running_axis = nullptr;

}  // namespace

const Axis* HostQueue::running_here() { return running_axis; }

HostQueue::~HostQueue() {
  {
    std::lock_guard guard(lock_);
    ending_ = true;
  }
  changed_.notify_one();
  if (!thread_.joinable()) return;
  if (is_forked()) {
    thread_.detach();  // it is the parent's
  } else {
    thread_.join();
  }
}

void HostQueue::push(Task task) {
  if (is_forked()) return axis_.lose_pending("memory of the parent process is not released in a forked child");
  std::lock_guard guard(lock_);
  tasks_.push_back(std::move(task));
  if (!thread_.joinable()) {
    try {
      thread_ = std::thread([this] { loop(); });
      pthread_setname_np(thread_.native_handle(), "tw-release");
    } catch (const std::system_error&) {
      tasks_.clear();
      return axis_.lose_pending("the system gave no thread to release memory on: there may be too many threads");
    }
  }
  changed_.notify_one();
}

void HostQueue::loop() {
  for (;;) {
    Task task;
    {
      std::unique_lock guard(lock_);
      changed_.wait(guard, [&] { return ending_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    for (const Point& point : task.waits) point.axis->wait(point.epoch);
    uint64_t epoch = task.epoch;
    running_axis = &axis_;
    run_task(task, axis_, nullptr);
    running_axis = nullptr;
    task = {};
    axis_.done.advance(epoch);
  }
}

}  // namespace thalweg::runtime::cuda
