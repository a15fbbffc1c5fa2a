// Knowledge and errors of timelines, and the table that gives out their slots.
#include "runtime/axis.h"

#include <algorithm>
#include <memory>

#include "runtime/backend.h"
#include "runtime/race_checker.h"
#include "runtime/rules.h"
#include "support/error.h"

namespace thalweg::runtime {
namespace {

constexpr size_t kHistory = 64;       // epochs whose knowledge an axis remembers; older ones only teach less
constexpr size_t kErrorsKept = 4096;  // failed epochs of an axis whose error is kept

struct AxisTable {
  std::vector<std::unique_ptr<Axis>> axes;
  std::vector<Axis*> closed;
};

// Never destroyed: streams' threads outlive static destruction.
AxisTable& table() {
  static AxisTable& instance = *new AxisTable;
  return instance;
}

}  // namespace

std::mutex& ordering_lock() {
  static std::mutex& lock = *new std::mutex;
  return lock;
}

void Axis::learn(const Point& point) {
  if (is_after(point)) return;
  known_.raise(point.axis->slot, point.epoch);
  learned_ = true;
  if (!holds(Rule::KnowledgeAtEpoch)) return known_.join(point.axis->known_);
  const auto& history = point.axis->history_;
  for (auto entry = history.rbegin(); entry != history.rend(); ++entry) {
    if (entry->first > point.epoch) continue;
    known_.join(entry->second);
    return;
  }
}

void Axis::add_wait(const Point& point, Frontier& waits) {
  if (is_after(point)) return;
  if (!is_done(point)) waits.add(point);
  learn(point);
}

uint64_t Axis::next_epoch() {
  uint64_t epoch = submitted.load(std::memory_order_relaxed) + 1;
  if (learned_) {
    if (history_.size() == kHistory) history_.pop_front();
    history_.emplace_back(epoch, known_);
    learned_ = false;
  }
  submitted.store(epoch, std::memory_order_release);
  return epoch;
}

void Axis::wait(uint64_t epoch) {
  if (is_done({this, epoch})) return;
  if (Backend* owner = backend.load(std::memory_order_acquire)) {
    THALWEG_CHECK(owner->running_here() != this, Device, "work on a stream waits for that stream itself: wait on the host, outside of the work");
    owner->wait(*this, epoch);
  } else {
    done.wait(epoch);
  }
  is_done({this, epoch});
}

void Axis::fail(uint64_t epoch, std::exception_ptr error) {
  std::lock_guard guard(errors_lock_);
  if (!unread_) unread_ = error;
  if (errors_.size() < kErrorsKept) {
    errors_.emplace(epoch, std::move(error));
  } else {
    errors_dropped_.push_back(epoch);
  }
  has_errors_.store(true, std::memory_order_release);
}

void Axis::lose_pending(const char* reason) {
  uint64_t after = done.value(), upto = submitted.load();
  if (after == upto) return;
  {
    std::lock_guard guard(errors_lock_);
    lost_.push_back({after, upto, reason});
    has_errors_.store(true, std::memory_order_release);
  }
  done.advance(upto);
}

std::exception_ptr Axis::error(uint64_t epoch) {
  if (!has_errors_.load(std::memory_order_acquire)) return nullptr;
  std::lock_guard guard(errors_lock_);
  if (auto found = errors_.find(epoch); found != errors_.end()) return found->second;
  for (const LostRange& range : lost_) {
    if (epoch > range.after && epoch <= range.upto) return std::make_exception_ptr(Error(ErrorKind::Device, range.reason));
  }
  if (std::binary_search(errors_dropped_.begin(), errors_dropped_.end(), epoch)) {
    return std::make_exception_ptr(Error(ErrorKind::Device, "queued work failed; its own message is lost, since thousands failed on this stream before it"));
  }
  return nullptr;
}

std::exception_ptr Axis::take_error() {
  if (!has_errors_.load(std::memory_order_acquire)) return nullptr;
  std::lock_guard guard(errors_lock_);
  return std::exchange(unread_, nullptr);
}

bool is_done(const Point& point) {
  if (point.axis == nullptr) return true;
  if (point.axis->done.value() < point.epoch) return false;
  if (RaceChecker* checker = race_checker.load(std::memory_order_relaxed)) [[unlikely]]
    checker->host_saw(point);
  return true;
}

bool observe(const Point& point) {
  if (is_done(point)) return true;
  if (Backend* owner = point.axis->backend.load(std::memory_order_acquire)) owner->refresh(*point.axis);
  return is_done(point);
}

bool is_done(const Frontier& frontier) {
  return std::all_of(frontier.begin(), frontier.end(), [](const Point& point) { return is_done(point); });
}

Axis& open_axis(std::string name, Backend& backend) {
  std::lock_guard guard(ordering_lock());
  AxisTable& all = table();
  Axis* axis;
  if (!all.closed.empty()) {
    axis = all.closed.back();
    all.closed.pop_back();
  } else {
    all.axes.push_back(std::make_unique<Axis>(static_cast<uint32_t>(all.axes.size())));
    axis = all.axes.back().get();
  }
  axis->name = std::move(name);
  axis->opened_after = axis->submitted.load();
  axis->take_error();
  axis->backend.store(&backend, std::memory_order_release);
  return *axis;
}

void close_axis(Axis& axis) {
  std::lock_guard guard(ordering_lock());
  axis.backend.store(nullptr, std::memory_order_release);
  table().closed.push_back(&axis);
}

}  // namespace thalweg::runtime
