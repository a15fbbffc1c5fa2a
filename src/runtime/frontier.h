// Points on timelines and sets of them: who has to be waited for, and who is known to be past.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace thalweg::runtime {

class Axis;

// The `epoch`-th piece of work of a timeline. A null axis: no point, always past.
struct Point {
  Axis* axis = nullptr;
  uint64_t epoch = 0;
};

// A set of points, at most one (the latest) an axis: "after all of these". Four are stored inline, more on the heap; none is ever dropped.
// Not thread-safe.
class Frontier {
 public:
  bool empty() const { return count_ == 0; }
  size_t size() const { return count_; }
  const Point* begin() const { return more_ ? more_->data() : inline_.data(); }
  const Point* end() const { return begin() + count_; }
  // Adds a point; of two points on one axis the later stays.
  void add(Point point) {
    if (point.axis == nullptr) return;
    Point* points = data();
    for (uint32_t i = 0; i < count_; ++i) {
      if (points[i].axis != point.axis) continue;
      if (points[i].epoch < point.epoch) points[i].epoch = point.epoch;
      return;
    }
    append(point);
  }
  void join(const Frontier& other) {
    for (const Point& point : other) add(point);
  }
  void clear() {
    count_ = 0;
    if (more_) more_.reset();
  }
  // True when no point lies on an axis other than `axis`.
  bool only_on(const Axis* axis) const {
    for (const Point& point : *this) {
      if (point.axis != axis) return false;
    }
    return true;
  }
  // Takes `other`'s points and leaves it empty.
  void take(Frontier& other);

 private:
  Point* data() { return more_ ? more_->data() : inline_.data(); }
  void append(Point point);

  uint32_t count_ = 0;
  std::array<Point, 4> inline_{};
  std::unique_ptr<std::vector<Point>> more_;
};

// For each axis the latest epoch that is known to be past; 0 where nothing is known. Indexed by Axis::slot. Not thread-safe.
class Clock {
 public:
  uint64_t at(uint32_t slot) const { return slot < epochs_.size() ? epochs_[slot] : 0; }
  void raise(uint32_t slot, uint64_t epoch) {
    if (slot >= epochs_.size()) epochs_.resize(slot + 1);
    if (epochs_[slot] < epoch) epochs_[slot] = epoch;
  }
  void join(const Clock& other);
  size_t size() const { return epochs_.size(); }

 private:
  std::vector<uint64_t> epochs_;
};

}  // namespace thalweg::runtime
