// Streams that are threads: what the stepper cannot show, such as a missing barrier between processors, or two host threads that meet.
#include <random>
#include <thread>
#include <utility>

#include "runtime/sim/sim_backend.h"
#include "runtime/task_thread.h"
#include "support/error.h"

namespace thalweg::runtime::sim {
namespace {

constexpr auto kLook = std::chrono::microseconds(20);  // between two looks at something that is waited for

class ThreadedQueue;

class Threads final : public SimBackend {
 public:
  using SimBackend::SimBackend;

  std::unique_ptr<Queue> make_queue(Axis& axis) override;
  void wait(Axis& axis, uint64_t epoch) override {
    auto deadline = std::chrono::steady_clock::now() + options_.patience;
    for (uint64_t before = tasks_run(); axis.done.value() < epoch;) {
      std::this_thread::sleep_for(kLook);
      auto now = std::chrono::steady_clock::now();
      if (uint64_t run = tasks_run(); run != before) {
        before = run;
        deadline = now + options_.patience;
      }
      if (now > deadline) raise(ErrorKind::Device, "simulated deadlock: waiting for epoch ", epoch, " of ", axis.name, ", and nothing runs");
    }
  }
  void host_step(bool) override {}
  void run_all() override {}
  std::string schedule() const override { return "threads " + std::to_string(options_.threads); }

 private:
  friend class ThreadedQueue;
};

class ThreadedQueue final : public Queue {
 public:
  ThreadedQueue(Threads& threads, Axis& axis, uint64_t number)
      : threads_(threads),
        axis_(axis),
        random_(threads.options_.threads * 0x9e3779b97f4a7c15u + number),
        slow_(random_() % 4 == 0),
        thread_("tw-sim", [this](Task& task) { run(task); }) {}
  void push(Task task) override {
    if (!thread_.push(std::move(task))) axis_.lose_pending("the system gave no thread for a simulated stream");
  }

 private:
  // Some streams are slow, the others hardly ever stop: orders that hold by chance alone do not hold for long.
  void pause() {
    switch (random_() % (slow_ ? 4 : 16)) {
      case 0:
        return std::this_thread::sleep_for(std::chrono::microseconds(random_() % 200));
      case 1:
        return std::this_thread::yield();
      default:
        return;
    }
  }
  void run(Task& task) {
    for (const Point& point : task.waits) point.axis->done.wait(point.epoch);
    while (threads_.options_.may_run && !threads_.options_.may_run(task)) std::this_thread::sleep_for(kLook);
    pause();
    threads_.run(task, axis_);
  }

  Threads& threads_;
  Axis& axis_;
  std::mt19937_64 random_;
  const bool slow_;
  TaskThread thread_;  // last: it ends before what it uses
};

std::unique_ptr<Queue> Threads::make_queue(Axis& axis) { return std::make_unique<ThreadedQueue>(*this, axis, count_queue()); }

}  // namespace

std::unique_ptr<SimBackend> make_threads(const Options& options) { return std::make_unique<Threads>(options); }

}  // namespace thalweg::runtime::sim
