// A thread that runs host work in order, each piece once its waits have completed: release functions of memory that the GPU uses.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "runtime/backend.h"

namespace thalweg::runtime::cuda {

// The thread starts with the first task and ends with the queue.
class HostQueue final : public Queue {
 public:
  explicit HostQueue(Axis& axis) : axis_(axis) {}
  ~HostQueue() override;
  void push(Task task) override;
  // The timeline whose task the calling thread runs, null when none.
  static const Axis* running_here();

 private:
  void loop();

  Axis& axis_;
  std::mutex lock_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace thalweg::runtime::cuda
