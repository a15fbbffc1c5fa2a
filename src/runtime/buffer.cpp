// Waiting for buffers, their errors and labels.
#include "runtime/buffer.h"

#include <algorithm>
#include <cstring>

#include "runtime/axis.h"
#include "runtime/backend.h"
#include "runtime/pool.h"
#include "runtime/rules.h"

namespace thalweg::runtime {

void Buffer::destroy(Buffer* buffer) { Pool::recycle(static_cast<Block*>(buffer)); }

Buffer::LastWrite Buffer::last_write() const {
  std::lock_guard guard(ordering_lock());
  return {last_, written_};
}

void Buffer::wait_written() const {
  auto [point, written] = last_write();
  if (point.axis == nullptr) return;
  if (holds(Rule::HostWaits)) point.axis->wait(point.epoch);
  if (!written) return;
  if (std::exception_ptr error = point.axis->error(point.epoch)) std::rethrow_exception(error);
}

void Buffer::wait_unused() const {
  Frontier uses;
  {
    std::lock_guard guard(ordering_lock());
    uses.add(last_);
    if (holds(Rule::HostWaitsForReads)) uses.join(reads_);
  }
  for (const Point& point : uses) point.axis->wait(point.epoch);
}

bool Buffer::is_written() const {
  auto [point, written] = last_write();
  return !written || observe(point);
}

bool Buffer::is_idle() const {
  std::lock_guard guard(ordering_lock());
  if (!observe(last_) || !std::all_of(reads_.begin(), reads_.end(), observe)) return false;
  return !written_ || last_.axis == nullptr || last_.axis->error(last_.epoch) == nullptr;
}

std::exception_ptr Buffer::error() const {
  auto [point, written] = last_write();
  return written && observe(point) ? point.axis->error(point.epoch) : nullptr;
}

void Buffer::clear_error() {
  std::lock_guard guard(ordering_lock());
  written_ = false;
}

void Buffer::add_use(Axis& axis) {
  if (Backend* owner = axis.backend.load(std::memory_order_acquire)) owner->mark(axis);
  std::lock_guard guard(ordering_lock());
  if (holds(Rule::LentUsesCount)) reads_.add({&axis, axis.submitted.load(std::memory_order_relaxed)});
}

void Buffer::note_label(const char* text) {
  std::array<uint64_t, 4> words{};
  std::strncpy(reinterpret_cast<char*>(words.data()), text, sizeof words - 1);
  for (size_t i = 0; i < words.size(); ++i) label_[i].store(words[i], std::memory_order_relaxed);
}

void Buffer::set_label(const char* text) {
  std::lock_guard guard(ordering_lock());
  note_label(text);
  named_ = true;
}

std::string Buffer::label() const {
  std::array<uint64_t, 5> words{};
  for (size_t i = 0; i < label_.size(); ++i) words[i] = label_[i].load(std::memory_order_relaxed);
  return reinterpret_cast<const char*>(words.data());
}

}  // namespace thalweg::runtime
