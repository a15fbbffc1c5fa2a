// A stream of the CPU: a thread that runs tasks in order, started by the first one.
#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <vector>

#include "runtime/backend.h"

namespace thalweg::runtime::cpu {

// One producer at a time (push is called under the ordering lock), one consumer: its thread.
class ThreadQueue final : public Queue {
 public:
  explicit ThreadQueue(Axis& axis);
  ~ThreadQueue() override;
  void push(Task task) override;

  // In the child of a fork: the thread and the queued tasks are the parent's; starts anew.
  void restart_after_fork();
  // Calls `visit` for every queue of the process. Under the ordering lock.
  template <class Visit>
  static void each(Visit visit) {
    for (ThreadQueue* queue : all()) visit(*queue);
  }
  // At exit: lets no further task start. Any thread.
  static void stop_all();
  // Whether a task is running now.
  bool is_running() const { return running_.load(); }
  // The timeline whose task the calling thread runs, null when none.
  static const Axis* running_here();

 private:
  struct Chunk {
    std::array<Task, 64> tasks;
    std::atomic<Chunk*> next{nullptr};
  };
  static std::vector<ThreadQueue*>& all();
  bool start();
  void loop();
  void run(Task& task);

  Axis& axis_;
  Gate pushed_;  // epochs in the chunks
  Chunk* head_;  // of the consumer
  Chunk* tail_;  // of the producer
  size_t tail_used_ = 0;
  uint64_t first_ = 0;  // epoch before the first task of this queue
  std::atomic<Chunk*> spare_{nullptr};
  std::atomic<bool> running_{false};
  std::atomic<bool> ending_{false};
  bool started_ = false;
  pthread_t thread_{};
};

}  // namespace thalweg::runtime::cpu
