// The thread of a CPU stream: start, loop, end.
#include "runtime/cpu/thread_queue.h"

#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <mutex>
#include <thread>

namespace thalweg::runtime::cpu {
namespace {

std::atomic<bool> stopped{false};  // the process is exiting
thread_local const Axis* running_axis = nullptr;

[[noreturn]] void sleep_forever() {
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

}  // namespace

ThreadQueue::ThreadQueue(Axis& axis) : axis_(axis), head_(new Chunk), tail_(head_), first_(axis.submitted.load()) {
  pushed_.advance(first_);
  std::lock_guard guard(ordering_lock());
  all().push_back(this);
}

ThreadQueue::~ThreadQueue() {
  {
    std::lock_guard guard(ordering_lock());
    std::erase(all(), this);
  }
  if (started_) {
    ending_.store(true);
    pushed_.advance(pushed_.value() + 1);  // one more than there are tasks
    pthread_join(thread_, nullptr);
  }
  while (head_) delete std::exchange(head_, head_->next.load());
  delete spare_.load();
}

std::vector<ThreadQueue*>& ThreadQueue::all() {
  static std::vector<ThreadQueue*>& queues = *new std::vector<ThreadQueue*>;
  return queues;
}

void ThreadQueue::push(Task task) {
  if (stopped.load()) {
    if (!running_.load()) axis_.lose_pending("work was queued while the process was exiting");
    return;
  }
  if (tail_used_ == tail_->tasks.size()) {
    Chunk* chunk = spare_.exchange(nullptr);
    if (chunk == nullptr) chunk = new Chunk;
    chunk->next.store(nullptr);
    tail_->next.store(chunk, std::memory_order_release);
    tail_ = chunk;
    tail_used_ = 0;
  }
  if (!started_ && !start()) return axis_.lose_pending("the system gave no thread for a stream: there may be too many threads");
  uint64_t epoch = task.epoch;
  tail_->tasks[tail_used_++] = std::move(task);
  pushed_.advance(epoch);
}

bool ThreadQueue::start() {
  // Signals belong to the program's own threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int failed = pthread_create(
      &thread_, nullptr,
      [](void* queue) -> void* {
        static_cast<ThreadQueue*>(queue)->loop();
        return nullptr;
      },
      this);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (failed) return false;
  pthread_setname_np(thread_, ("tw-" + axis_.name.substr(0, 12)).c_str());
  return started_ = true;
}

void ThreadQueue::loop() {
  size_t used = 0;
  for (uint64_t epoch = first_ + 1;; ++epoch) {
    pushed_.wait(epoch);
    if (used == head_->tasks.size()) {
      Chunk* next = head_->next.load(std::memory_order_acquire);
      if (next != nullptr) {
        delete spare_.exchange(std::exchange(head_, next));
        used = 0;
      }
    }
    if (ending_.load() && epoch > axis_.submitted.load()) return;
    run(head_->tasks[used++]);
  }
}

void ThreadQueue::run(Task& task) {
  for (const Point& point : task.waits) point.axis->done.wait(point.epoch);
  uint64_t epoch = task.epoch;
  running_.store(true);
  if (stopped.load()) {
    running_.store(false);
    sleep_forever();
  }
  running_axis = &axis_;
  run_task(task, axis_, nullptr);
  running_axis = nullptr;
  task = {};
  axis_.done.advance(epoch);
  running_.store(false);
}

void ThreadQueue::restart_after_fork() {
  // The old chunks stay as they are: the parent's thread was in the middle of them.
  static std::vector<Chunk*>& left = *new std::vector<Chunk*>;
  for (Chunk* chunk : {head_, spare_.load()}) left.push_back(chunk);
  head_ = tail_ = new Chunk;
  tail_used_ = 0;
  spare_.store(nullptr);
  running_.store(false);
  started_ = false;
  axis_.lose_pending("the work was queued before a fork: its result exists only in the parent process");
  first_ = axis_.submitted.load();
  pushed_.forget_sleepers();
  axis_.done.forget_sleepers();
  pushed_.advance(first_);
}

void ThreadQueue::stop_all() { stopped.store(true); }

const Axis* ThreadQueue::running_here() { return running_axis; }

}  // namespace thalweg::runtime::cpu
