// A thread that takes tasks one by one, in the order they came: what a queue runs its work on.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "runtime/backend.h"

namespace thalweg::runtime {

// The thread starts with the first task and ends with the object, after the tasks that it has got.
class TaskThread {
 public:
  // `run` is called on the thread with each task; it must not throw. `name`: of the thread, at most 15 characters.
  TaskThread(std::string name, std::function<void(Task& task)> run) : name_(std::move(name)), run_(std::move(run)) {}
  ~TaskThread();
  TaskThread(const TaskThread&) = delete;

  // False, and the tasks are dropped, when the system gives no thread. One thread at a time.
  bool push(Task task);
  // In the child of a fork, where the thread is the parent's: forgets it and what it had to do.
  void abandon();

 private:
  void loop();

  const std::string name_;
  const std::function<void(Task& task)> run_;
  std::mutex lock_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace thalweg::runtime
