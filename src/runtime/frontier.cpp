// Joins of frontiers and clocks, and frontiers of more than four points.
#include "runtime/frontier.h"

#include <algorithm>

namespace thalweg::runtime {

void Frontier::append(Point point) {
  if (!more_ && count_ < inline_.size()) {
    inline_[count_++] = point;
    return;
  }
  if (!more_) more_ = std::make_unique<std::vector<Point>>(inline_.begin(), inline_.end());
  more_->push_back(point);
  ++count_;
}

void Frontier::take(Frontier& other) {
  count_ = other.count_;
  inline_ = other.inline_;
  more_ = std::move(other.more_);
  other.count_ = 0;
}

void Clock::join(const Clock& other) {
  if (epochs_.size() < other.epochs_.size()) epochs_.resize(other.epochs_.size());
  for (size_t i = 0; i < other.epochs_.size(); ++i) epochs_[i] = std::max(epochs_[i], other.epochs_[i]);
}

}  // namespace thalweg::runtime
