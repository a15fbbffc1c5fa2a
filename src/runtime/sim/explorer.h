// Every schedule of a small program: depth-first search by running it again and again, without the orders of steps that commute (sleep sets).
#pragma once

#include <vector>

#include "runtime/sim/scheduler.h"

namespace thalweg::runtime::sim {

// Use: do { make a SimDevice with scheduler(), run the program } while (explorer.next()). The program must behave alike for alike schedules.
class Explorer {
 public:
  // The scheduler of the next run.
  Scheduler& scheduler() { return driver_; }
  // Ends a run and prepares the next one; false when every schedule has been run.
  bool next();
  // Whether the current run turned out to be one whose outcome another run has shown already; ask before next().
  bool was_redundant() const { return redundant_; }

 private:
  // A step that an actor could take, as far as it matters for whether two steps commute.
  struct Step {
    uint32_t actor = kHost;
    bool observes = false;
    std::vector<Access> accesses;
  };
  struct Node {
    std::vector<Step> choices;
    size_t chosen = 0;
    std::vector<Step> sleeping;  // steps that need not be taken here: runs before this one have covered them
  };
  class Driver final : public Scheduler {
   public:
    explicit Driver(Explorer& explorer) : explorer_(explorer) {}
    size_t choose(std::span<const Choice> choices) override { return explorer_.choose(choices); }

   private:
    Explorer& explorer_;
  };

  size_t choose(std::span<const Choice> choices);
  static bool commute(const Step& a, const Step& b);
  static bool holds(const std::vector<Step>& steps, uint32_t actor);
  bool choose_awake(Node& node) const;

  Driver driver_{*this};
  std::vector<Node> path_;
  size_t depth_ = 0;
  bool redundant_ = false;
};

}  // namespace thalweg::runtime::sim
