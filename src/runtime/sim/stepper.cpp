// Streams that a scheduler steps one task at a time, on the host's thread.
#include <algorithm>
#include <utility>

#include "runtime/sim/sim_backend.h"
#include "support/error.h"

namespace thalweg::runtime::sim {
namespace {

bool overlap(const Access& a, const Access& b) { return a.base < b.base + b.bytes && b.base < a.base + a.bytes; }

class SteppedQueue;

class Stepper final : public SimBackend {
 public:
  using SimBackend::SimBackend;

  std::unique_ptr<Queue> make_queue(Axis& axis) override;
  void pause(void*, std::chrono::microseconds) override {}  // the schedulers delay whom they like
  void wait(Axis& axis, uint64_t epoch) override {
    while (axis.done.value() < epoch) {
      if (!step(false, false)) raise(ErrorKind::Device, "simulated deadlock: waiting for epoch ", epoch, " of ", axis.name, ", and nothing can run");
    }
  }
  void host_step(bool observes) override {
    if (options_.scheduler == nullptr) return;
    while (step(true, observes)) {
    }
  }
  void run_all() override {
    while (step(false, false)) {
    }
  }
  std::string schedule() const override {
    std::string text;
    for (uint32_t actor : schedule_) text += (text.empty() ? "" : " ") + (actor == kHost ? "h" : std::to_string(actor));
    return text;
  }

 private:
  friend class SteppedQueue;
  // Lets one actor step: a stream, or the host if `with_host`. False when nothing can run, or the host was chosen.
  bool step(bool with_host, bool host_observes);
  void note_lives(Choice& choice, const SteppedQueue& own) const;

  std::vector<SteppedQueue*> queues_;
  uint64_t pushed_ = 0;
  std::vector<uint32_t> schedule_;
};

class SteppedQueue final : public Queue {
 public:
  SteppedQueue(Stepper& stepper, Axis& axis, uint32_t actor) : stepper_(stepper), axis_(axis), actor_(actor) { stepper_.queues_.push_back(this); }
  ~SteppedQueue() override { std::erase(stepper_.queues_, this); }
  void push(Task task) override { tasks_.push_back({std::move(task), stepper_.pushed_++}); }

  bool can_run() const {
    if (tasks_.empty() || !Stepper::is_past(tasks_.front().task.waits)) return false;
    return !stepper_.options_.may_run || stepper_.options_.may_run(tasks_.front().task);
  }
  void run_front() {
    Task task = std::move(tasks_.front().task);
    tasks_.pop_front();
    stepper_.run(task, axis_);
  }

 private:
  friend class Stepper;
  struct Queued {
    Task task;
    uint64_t order;
  };

  Stepper& stepper_;
  Axis& axis_;
  const uint32_t actor_;
  std::deque<Queued> tasks_;
};

std::unique_ptr<Queue> Stepper::make_queue(Axis& axis) { return std::make_unique<SteppedQueue>(*this, axis, static_cast<uint32_t>(count_queue())); }

// Whether the task overtakes, or is overtaken by, another life of its memory.
void Stepper::note_lives(Choice& choice, const SteppedQueue& own) const {
  for (const SteppedQueue* queue : queues_) {
    for (const SteppedQueue::Queued& queued : queue->tasks_) {
      for (const Access& other : queued.task.accesses) {
        for (const Access& access : choice.accesses) {
          if (!overlap(access, other)) continue;
          choice.overtakes = choice.overtakes || (other.life < access.life && queue != &own);
          choice.is_overtaken = choice.is_overtaken || other.life > access.life;
        }
      }
    }
  }
}

bool Stepper::step(bool with_host, bool host_observes) {
  std::vector<Choice> choices;
  if (with_host) choices.push_back({.actor = kHost, .order = ~uint64_t{0}, .accesses = {}, .observes = host_observes});
  for (SteppedQueue* queue : queues_) {
    if (!queue->can_run()) continue;
    const SteppedQueue::Queued& front = queue->tasks_.front();
    Choice& choice = choices.emplace_back(Choice{.actor = queue->actor_, .order = front.order, .accesses = front.task.accesses});
    if (options_.scheduler) note_lives(choice, *queue);
  }
  if (choices.empty()) return false;
  size_t index = 0;
  if (options_.scheduler) {
    index = options_.scheduler->choose(choices);
  } else {
    for (size_t i = 1; i < choices.size(); ++i) {
      if (choices[i].order < choices[index].order) index = i;
    }
  }
  uint32_t actor = choices[index].actor;
  schedule_.push_back(actor);
  if (actor == kHost) return false;
  (*std::find_if(queues_.begin(), queues_.end(), [&](SteppedQueue* queue) { return queue->actor_ == actor; }))->run_front();
  return true;
}

}  // namespace

std::unique_ptr<SimBackend> make_stepper(const Options& options) { return std::make_unique<Stepper>(options); }

}  // namespace thalweg::runtime::sim
