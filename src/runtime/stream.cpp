// Submissions: the waits that they need and the uses that they leave.
#include "runtime/stream.h"

#include <algorithm>

#include "runtime/axis.h"
#include "runtime/backend.h"
#include "runtime/rules.h"

namespace thalweg::runtime {

Submission& Submission::read(BufferPtr buffer) {
  reads_.push_back(std::move(buffer));
  return *this;
}

Submission& Submission::write(BufferPtr buffer) {
  writes_.push_back(std::move(buffer));
  return *this;
}

Submission& Submission::label(const char* text) {
  label_ = text;
  return *this;
}

void Submission::run(Work work) {
  stream_->submit(*this, std::move(work));
  reads_.clear();
  writes_.clear();
}

void Submission::add_waits(Axis& axis, Frontier& waits) const {
  auto add_last = [&](const Buffer& buffer, Rule rule) {
    if (holds(buffer.written_ ? rule : Rule::BirthPoint)) axis.add_wait(buffer.last_, waits);
  };
  for (const BufferPtr& buffer : reads_) add_last(*buffer, Rule::ReadWaitsForWrite);
  for (const BufferPtr& buffer : writes_) {
    add_last(*buffer, Rule::WriteWaitsForWrite);
    if (!holds(Rule::WriteWaitsForReads)) continue;
    for (const Point& point : buffer->reads_) axis.add_wait(point, waits);
  }
}

void Submission::add_sources(std::vector<Point>& sources) const {
  for (const BufferPtr& buffer : reads_) {
    const Point& last = buffer->last_;
    if (!buffer->written_ || (is_done(last) && !last.axis->has_errors())) continue;
    bool known = std::any_of(sources.rbegin(), sources.rend(), [&](const Point& other) { return other.axis == last.axis && other.epoch == last.epoch; });
    if (!known) sources.push_back(last);
  }
}

void Submission::record_uses(Point point) const {
  for (const BufferPtr& buffer : reads_) buffer->reads_.add(point);
  for (const BufferPtr& buffer : writes_) {
    buffer->reads_.clear();
    buffer->last_ = point;
    buffer->written_ = true;
    if (!buffer->named_) buffer->note_label(label_);
  }
}

std::vector<Access> Submission::accesses() const {
  std::vector<Access> all;
  all.reserve(reads_.size() + writes_.size());
  auto add = [&](const BufferPtr& buffer, bool writes) { all.push_back({static_cast<const char*>(buffer->data()), buffer->size(), writes, buffer->life()}); };
  for (const BufferPtr& buffer : reads_) add(buffer, false);
  for (const BufferPtr& buffer : writes_) add(buffer, true);
  return all;
}

}  // namespace thalweg::runtime
