// A thread that runs host work in order, each piece once its waits have completed: release functions of memory that the GPU uses.
#pragma once

#include "runtime/task_thread.h"

namespace thalweg::runtime::cuda {

// The thread starts with the first task and ends with the queue.
class HostQueue final : public Queue {
 public:
  explicit HostQueue(Axis& axis);
  ~HostQueue() override;
  void push(Task task) override;
  // The timeline whose task the calling thread runs, null when none.
  static const Axis* running_here();

 private:
  void run(Task& task);

  Axis& axis_;
  TaskThread thread_;
};

}  // namespace thalweg::runtime::cuda
