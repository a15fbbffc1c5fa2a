// A recording of what happened to memory and what ran on streams, for pictures.
#include "runtime/history.h"

#include <algorithm>
#include <chrono>
#include <memory>

namespace thalweg::runtime {
namespace {

constexpr int kLooks = 16;  // pending frees that an event looks at

std::atomic<History*> latest{nullptr};

uintptr_t address_of(const Buffer& buffer) { return reinterpret_cast<uintptr_t>(buffer.data()); }

}  // namespace

int64_t history_now() { return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count(); }

void History::add(HistoryEvent event) {
  events_.push_back(std::move(event));
  if (events_.size() <= limit_) return;
  events_.pop_front();
  ++dropped_;
}

void History::look_at_pending() {
  int looks = 0;
  for (auto entry = pending_.begin(); entry != pending_.end() && looks < kLooks; ++looks) {
    if (!is_done(entry->after)) {
      ++entry;
      continue;
    }
    entry->event.start_ns = entry->event.end_ns = history_now();
    add(std::move(entry->event));
    entry = pending_.erase(entry);
  }
}

void History::allocated(const Buffer& buffer, const std::string& stream) {
  std::lock_guard guard(lock_);
  look_at_pending();
  const int64_t now = history_now();
  live_[address_of(buffer)] = dropped_ + events_.size();
  add({Happening::Allocated, now, now, address_of(buffer), buffer.size(), stream, ""});
}

void History::freed(const Buffer& buffer, Frontier after) {
  std::lock_guard guard(lock_);
  const uintptr_t address = address_of(buffer);
  const int64_t now = history_now();
  HistoryEvent event{Happening::Freed, now, now, address, buffer.size(), "", ""};
  auto named = names_.find(address);
  event.text = named != names_.end() ? named->second : buffer.label();
  if (named != names_.end()) names_.erase(named);
  if (auto found = live_.find(address); found != live_.end()) {
    if (found->second >= dropped_) {
      HistoryEvent& allocation = events_[found->second - dropped_];
      allocation.text = event.text;
      event.stream = allocation.stream;
    }
    live_.erase(found);
  }
  add(event);
  event.what = Happening::Completed;
  pending_.push_back({std::move(after), std::move(event)});
  look_at_pending();
}

void History::out_of_memory(size_t bytes, const std::string& stream) {
  std::lock_guard guard(lock_);
  const int64_t now = history_now();
  add({Happening::OutOfMemory, now, now, 0, bytes, stream, ""});
}

void History::ran(const std::string& stream, const char* label, int64_t start_ns, int64_t end_ns) {
  std::lock_guard guard(lock_);
  add({Happening::Ran, start_ns, end_ns, 0, 0, stream, label});
}

void History::name(const Buffer& buffer, const std::string& text) {
  std::lock_guard guard(lock_);
  const uintptr_t address = address_of(buffer);
  names_[address] = text;
  if (auto found = live_.find(address); found != live_.end() && found->second >= dropped_) events_[found->second - dropped_].text = text;
}

std::string History::name_of(uintptr_t address) const {
  std::lock_guard guard(lock_);
  auto found = names_.find(address);
  return found == names_.end() ? "" : found->second;
}

std::vector<HistoryEvent> History::events() {
  std::vector<HistoryEvent> all;
  {
    std::lock_guard guard(lock_);
    look_at_pending();
    all.assign(events_.begin(), events_.end());
  }
  std::stable_sort(all.begin(), all.end(), [](const HistoryEvent& a, const HistoryEvent& b) { return a.start_ns < b.start_ns; });
  return all;
}

void record_history(size_t limit) {
  if (limit == 0) return history.store(nullptr);
  // An earlier recording is never deleted, a thread may be writing into it, but known here for as long as the process lives.
  static std::mutex mutex;
  static auto* const all = new std::vector<History*>();
  std::lock_guard guard(mutex);
  auto* fresh = new History(limit);
  all->push_back(fresh);
  latest.store(fresh);
  history.store(fresh);
}

History* latest_history() { return latest.load(); }

}  // namespace thalweg::runtime
