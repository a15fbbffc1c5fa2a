// The loop of a task thread.
#include "runtime/task_thread.h"

#include <pthread.h>

#include <system_error>
#include <utility>

namespace thalweg::runtime {

TaskThread::~TaskThread() {
  {
    std::lock_guard guard(lock_);
    ending_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void TaskThread::abandon() {
  if (thread_.joinable()) thread_.detach();
}

bool TaskThread::push(Task task) {
  std::lock_guard guard(lock_);
  tasks_.push_back(std::move(task));
  if (!thread_.joinable()) {
    try {
      thread_ = std::thread([this] { loop(); });
      pthread_setname_np(thread_.native_handle(), name_.c_str());
    } catch (const std::system_error&) {
      tasks_.clear();
      return false;
    }
  }
  changed_.notify_one();
  return true;
}

void TaskThread::loop() {
  for (;;) {
    Task task;
    {
      std::unique_lock guard(lock_);
      changed_.wait(guard, [&] { return ending_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    run_(task);
  }
}

}  // namespace thalweg::runtime
