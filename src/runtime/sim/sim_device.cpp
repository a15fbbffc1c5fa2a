// Stepping, simulated memory and injected errors.
#include "runtime/sim/sim_device.h"

#include <sys/mman.h>

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>

#include "support/error.h"

namespace thalweg::runtime::sim {
namespace {

thread_local const Axis* running_axis = nullptr;

// Ranges of host addresses, kept for the next device: mapping them anew for each of a million devices would be most of the work.
class Ranges {
 public:
  static char* take(size_t bytes) {
    std::lock_guard guard(lock());
    auto& spare = kept()[bytes];
    if (!spare.empty()) {
      char* range = spare.back();
      spare.pop_back();
      return range;
    }
    void* range = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return range == MAP_FAILED ? nullptr : static_cast<char*>(range);
  }
  static void give(char* range, size_t bytes) {
    std::lock_guard guard(lock());
    kept()[bytes].push_back(range);
  }

 private:
  static std::mutex& lock() {
    static std::mutex& instance = *new std::mutex;
    return instance;
  }
  static std::map<size_t, std::vector<char*>>& kept() {
    static auto& instance = *new std::map<size_t, std::vector<char*>>;
    return instance;
  }
};

bool overlap(const Access& a, const Access& b) { return a.base < b.base + b.bytes && b.base < a.base + a.bytes; }

}  // namespace

class SimQueue;

class SimBackend final : public Backend {
 public:
  explicit SimBackend(Options options) : options_(options) {}

  std::unique_ptr<Queue> make_queue(Axis& axis) override;
  bool wants_accesses() const override { return true; }
  const Axis* running_here() const override { return running_axis; }
  void pause(void*, std::chrono::microseconds) override {}  // the schedulers delay whom they like
  void wait(Axis& axis, uint64_t epoch) override {
    while (axis.done.value() < epoch) {
      if (!step(false, false)) raise(ErrorKind::Device, "simulated deadlock: waiting for epoch ", epoch, " of ", axis.name, ", and nothing can run");
    }
  }

  size_t page_bytes() const override { return options_.page_bytes; }
  char* reserve(size_t& bytes) override {
    if (++reserves_ == options_.failing_reserve) return nullptr;
    bytes = std::min(bytes, options_.range_bytes);
    return Ranges::take(bytes);
  }
  void unreserve(char* base, size_t bytes) override {
    mapped_.erase(mapped_.lower_bound(base), mapped_.lower_bound(base + bytes));
    Ranges::give(base, bytes);
  }
  bool commit(char* base, size_t bytes) override {
    if (++commits_ == options_.failing_commit || committed_ + bytes > options_.memory_bytes) return false;
    THALWEG_ASSERT(bytes % options_.page_bytes == 0 && !any_mapped(base, bytes), "commit of mapped memory");
    committed_ += bytes;
    mapped_[base] = bytes;
    return true;
  }
  void decommit(char* base, size_t bytes) override {
    THALWEG_ASSERT(is_mapped(base, bytes), "decommit of memory that is not mapped");
    // A mapping that reaches over the border is cut.
    auto cut = [&](char* at) {
      auto after = mapped_.upper_bound(at);
      if (after == mapped_.begin()) return;
      auto [begin, size] = *std::prev(after);
      if (begin == at || begin + size <= at) return;
      mapped_[begin] = static_cast<size_t>(at - begin);
      mapped_[at] = static_cast<size_t>(begin + size - at);
    };
    cut(base);
    cut(base + bytes);
    mapped_.erase(mapped_.lower_bound(base), mapped_.lower_bound(base + bytes));
    committed_ -= bytes;
  }
  bool is_mapped(const char* base, size_t bytes) const {
    const char* end = base + bytes;
    while (base < end) {
      auto after = mapped_.upper_bound(const_cast<char*>(base));
      if (after == mapped_.begin()) return false;
      auto [begin, size] = *std::prev(after);
      if (begin + size <= base) return false;
      base = begin + size;
    }
    return true;
  }

  // Lets one actor step: a stream, or the host if `with_host`. False when nothing can run, or the host was chosen.
  bool step(bool with_host, bool host_observes);

  Options options_;
  std::vector<SimQueue*> queues_;
  uint64_t pushed_ = 0, run_ = 0;
  std::vector<uint32_t> schedule_;

 private:
  bool any_mapped(char* base, size_t bytes) const {
    auto after = mapped_.lower_bound(base + bytes);
    if (after == mapped_.begin()) return false;
    auto [begin, size] = *std::prev(after);
    return begin + size > base;
  }
  void note_lives(Choice& choice, const SimQueue& own) const;

  uint64_t reserves_ = 0, commits_ = 0, queues_made_ = 0;
  size_t committed_ = 0;
  std::map<char*, size_t> mapped_;
};

class SimQueue final : public Queue {
 public:
  SimQueue(SimBackend& backend, Axis& axis, uint32_t actor) : backend_(backend), axis_(axis), actor_(actor) { backend_.queues_.push_back(this); }
  ~SimQueue() override { std::erase(backend_.queues_, this); }
  void push(Task task) override { tasks_.push_back({std::move(task), backend_.pushed_++}); }

  bool can_run() const {
    if (tasks_.empty() || !is_past(tasks_.front().task.waits)) return false;
    return !backend_.options_.may_run || backend_.options_.may_run(tasks_.front().task);
  }
  void run_front() {
    Task task = std::move(tasks_.front().task);
    tasks_.pop_front();
    running_axis = &axis_;
    run_task(task, axis_, nullptr);
    running_axis = nullptr;
    axis_.done.advance(task.epoch);
  }

 private:
  friend class SimBackend;
  struct Queued {
    Task task;
    uint64_t order;
  };
  // Not is_done(): what the device sees is not what the host has seen.
  static bool is_past(const Frontier& waits) {
    return std::all_of(waits.begin(), waits.end(), [](const Point& point) { return point.axis->done.value() >= point.epoch; });
  }

  SimBackend& backend_;
  Axis& axis_;
  const uint32_t actor_;
  std::deque<Queued> tasks_;
};

std::unique_ptr<Queue> SimBackend::make_queue(Axis& axis) {
  THALWEG_CHECK(++queues_made_ != options_.failing_queue, Device, "injected failure of a new stream");
  return std::make_unique<SimQueue>(*this, axis, static_cast<uint32_t>(queues_made_));
}

// Whether the task overtakes, or is overtaken by, another life of its memory.
void SimBackend::note_lives(Choice& choice, const SimQueue& own) const {
  for (const SimQueue* queue : queues_) {
    for (const SimQueue::Queued& queued : queue->tasks_) {
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

bool SimBackend::step(bool with_host, bool host_observes) {
  std::vector<Choice> choices;
  if (with_host) choices.push_back({.actor = kHost, .order = ~uint64_t{0}, .accesses = {}, .observes = host_observes});
  for (SimQueue* queue : queues_) {
    if (!queue->can_run()) continue;
    const SimQueue::Queued& front = queue->tasks_.front();
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
  ++run_;
  (*std::find_if(queues_.begin(), queues_.end(), [&](SimQueue* queue) { return queue->actor_ == actor; }))->run_front();
  return true;
}

SimDevice::SimDevice(Options options) {
  auto backend = std::make_unique<SimBackend>(options);
  backend_ = backend.get();
  device_ = std::make_unique<PooledDevice>(std::move(backend), "SIM:" + std::to_string(options.ordinal), options.ordinal, options.modes);
}

SimDevice::~SimDevice() = default;

void SimDevice::host_step(bool observes) {
  if (backend_->options_.scheduler == nullptr) return;
  while (backend_->step(true, observes)) {
  }
}

void SimDevice::run_all() {
  while (backend_->step(false, false)) {
  }
}

std::string SimDevice::schedule() const {
  std::string text;
  for (uint32_t actor : backend_->schedule_) text += (text.empty() ? "" : " ") + (actor == kHost ? "h" : std::to_string(actor));
  return text;
}

bool SimDevice::is_mapped(const void* base, size_t bytes) const { return backend_->is_mapped(static_cast<const char*>(base), bytes); }

uint64_t SimDevice::tasks_run() const { return backend_->run_; }

std::shared_ptr<Device> make_device(Options options) {
  auto sim = std::make_shared<SimDevice>(options);
  return {sim, &sim->device()};
}

}  // namespace thalweg::runtime::sim
