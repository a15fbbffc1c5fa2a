// The schedulers.
#include "runtime/sim/scheduler.h"

#include <algorithm>
#include <functional>
#include <map>

#include "support/error.h"

namespace thalweg::runtime::sim {
namespace {

constexpr const char* kNames[] = {"fifo", "round-robin", "newest-first", "occupant-first", "random", "pct", "starve"};

// Picks the choice with the largest key.
template <class Key>
size_t largest(std::span<const Choice> choices, Key key) {
  size_t best = 0;
  for (size_t i = 1; i < choices.size(); ++i) {
    if (key(choices[i]) > key(choices[best])) best = i;
  }
  return best;
}

class Fifo final : public Scheduler {
  size_t choose(std::span<const Choice> choices) override {
    return largest(choices, [](const Choice& choice) { return ~choice.order; });
  }
};

class RoundRobin final : public Scheduler {
  size_t choose(std::span<const Choice> choices) override {
    size_t next = 0;
    while (next < choices.size() && choices[next].actor <= last_) ++next;
    if (next == choices.size()) next = 0;
    last_ = choices[next].actor;
    return next;
  }
  uint32_t last_ = kHost;
};

class NewestFirst final : public Scheduler {
  size_t choose(std::span<const Choice> choices) override {
    return largest(choices, [](const Choice& choice) { return choice.order; });
  }
};

class OccupantFirst final : public Scheduler {
  size_t choose(std::span<const Choice> choices) override {
    return largest(choices, [](const Choice& choice) {
      int rank = choice.actor == kHost ? 3 : choice.overtakes ? 2 : choice.is_overtaken ? 0 : 1;
      return std::pair(rank, choice.order);
    });
  }
};

class Random final : public Scheduler {
 public:
  explicit Random(uint64_t seed) : random_(seed) {}

 private:
  size_t choose(std::span<const Choice> choices) override { return random_() % choices.size(); }
  std::mt19937_64 random_;
};

// Probabilistic concurrency testing: finds an order of d steps with probability at least 1/(actors · steps^(d-1)).
class Pct final : public Scheduler {
 public:
  explicit Pct(uint64_t seed) : random_(seed) {
    for (uint64_t& step : changes_) step = random_() % kSteps;
  }

 private:
  static constexpr uint64_t kSteps = 40;
  size_t choose(std::span<const Choice> choices) override {
    size_t best = largest(choices, [&](const Choice& choice) { return priority(choice.actor); });
    if (std::find(std::begin(changes_), std::end(changes_), step_++) != std::end(changes_)) {
      priorities_[choices[best].actor] = lowest_--;
      best = largest(choices, [&](const Choice& choice) { return priority(choice.actor); });
    }
    return best;
  }
  int64_t priority(uint32_t actor) {
    auto [found, is_new] = priorities_.try_emplace(actor, 0);
    if (is_new) found->second = static_cast<int64_t>(random_() % 1'000'000);
    return found->second;
  }
  std::mt19937_64 random_;
  std::map<uint32_t, int64_t> priorities_;
  uint64_t changes_[3];
  uint64_t step_ = 0;
  int64_t lowest_ = -1;
};

class Starve final : public Scheduler {
 public:
  explicit Starve(uint64_t seed) : random_(seed), starved_(1 + random_() % 4) {}

 private:
  size_t choose(std::span<const Choice> choices) override {
    if (choices.size() == 1) return 0;
    size_t pick = random_() % (choices.size() - 1);
    size_t starved = static_cast<size_t>(std::find_if(choices.begin(), choices.end(), [&](const Choice& c) { return c.actor == starved_; }) - choices.begin());
    return pick >= starved ? pick + 1 : pick;
  }
  std::mt19937_64 random_;
  uint32_t starved_;
};

class Replay final : public Scheduler {
 public:
  explicit Replay(const std::string& schedule) {
    for (size_t at = 0; at < schedule.size();) {
      size_t end = std::min(schedule.find(' ', at), schedule.size());
      std::string word = schedule.substr(at, end - at);
      if (!word.empty()) actors_.push_back(word == "h" ? kHost : static_cast<uint32_t>(std::stoul(word)));
      at = end + 1;
    }
  }

 private:
  size_t choose(std::span<const Choice> choices) override {
    if (next_ == actors_.size()) return 0;
    uint32_t actor = actors_[next_++];
    for (size_t i = 0; i < choices.size(); ++i) {
      if (choices[i].actor == actor) return i;
    }
    raise(ErrorKind::Invalid, "the schedule does not fit the program: at step ", next_, " actor ", actor, " cannot run");
  }
  std::vector<uint32_t> actors_;
  size_t next_ = 0;
};

}  // namespace

std::span<const char* const> scheduler_names() { return kNames; }

std::unique_ptr<Scheduler> make_scheduler(const std::string& name, uint64_t seed) {
  if (name == "fifo") return std::make_unique<Fifo>();
  if (name == "round-robin") return std::make_unique<RoundRobin>();
  if (name == "newest-first") return std::make_unique<NewestFirst>();
  if (name == "occupant-first") return std::make_unique<OccupantFirst>();
  if (name == "random") return std::make_unique<Random>(seed);
  if (name == "pct") return std::make_unique<Pct>(seed);
  if (name == "starve") return std::make_unique<Starve>(seed);
  std::string known;
  for (const char* other : kNames) known += std::string(known.empty() ? "" : ", ") + other;
  raise(ErrorKind::Invalid, "no scheduler is called ", name, "; there are ", known);
}

std::unique_ptr<Scheduler> make_replay(const std::string& schedule) { return std::make_unique<Replay>(schedule); }

}  // namespace thalweg::runtime::sim
