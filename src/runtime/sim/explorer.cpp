// Depth-first search with sleep sets.
#include "runtime/sim/explorer.h"

#include <algorithm>

#include "support/error.h"

namespace thalweg::runtime::sim {

// Two steps commute when neither can see that the other came first: they touch no byte that either writes. The host's step commutes with a task unless
// it looks at what has completed.
bool Explorer::commute(const Step& a, const Step& b) {
  if (a.actor == b.actor) return false;
  if (a.actor == kHost || b.actor == kHost) return !a.observes && !b.observes;
  for (const Access& x : a.accesses) {
    for (const Access& y : b.accesses) {
      if ((x.writes || y.writes) && x.base < y.base + y.bytes && y.base < x.base + x.bytes) return false;
    }
  }
  return true;
}

bool Explorer::holds(const std::vector<Step>& steps, uint32_t actor) {
  return std::any_of(steps.begin(), steps.end(), [&](const Step& step) { return step.actor == actor; });
}

// Sets the first choice that is not asleep; false when there is none.
bool Explorer::choose_awake(Node& node) const {
  for (size_t i = 0; i < node.choices.size(); ++i) {
    if (holds(node.sleeping, node.choices[i].actor)) continue;
    node.chosen = i;
    return true;
  }
  return false;
}

size_t Explorer::choose(std::span<const Choice> choices) {
  if (redundant_) return 0;
  if (depth_ < path_.size()) {
    const Node& node = path_[depth_++];
    bool alike = node.choices.size() == choices.size() && node.choices[node.chosen].actor == choices[node.chosen].actor;
    THALWEG_ASSERT(alike, "a program under search behaves differently for the same schedule, at step ", depth_);
    return node.chosen;
  }
  Node node;
  for (const Choice& choice : choices) node.choices.push_back({choice.actor, choice.observes, {choice.accesses.begin(), choice.accesses.end()}});
  if (!path_.empty()) {
    const Node& parent = path_.back();
    for (const Step& step : parent.sleeping) {
      if (commute(step, parent.choices[parent.chosen])) node.sleeping.push_back(step);
    }
  }
  if (!choose_awake(node)) {
    redundant_ = true;
    return 0;
  }
  path_.push_back(std::move(node));
  ++depth_;
  return path_.back().chosen;
}

bool Explorer::next() {
  depth_ = 0;
  redundant_ = false;
  while (!path_.empty()) {
    Node& node = path_.back();
    node.sleeping.push_back(node.choices[node.chosen]);
    if (choose_awake(node)) return true;
    path_.pop_back();
  }
  return false;
}

}  // namespace thalweg::runtime::sim
