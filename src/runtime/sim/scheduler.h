// Who takes the next step on a simulated device: schedulers from the kind to the malicious.
#pragma once

#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "runtime/backend.h"

namespace thalweg::runtime::sim {

inline constexpr uint32_t kHost = 0;  // the actor that is the host program; streams count from 1 in the order they were made

// One actor that could take the next step.
struct Choice {
  uint32_t actor = kHost;
  uint64_t order = 0;                // of the submission among all; the host: after all of them
  std::span<const Access> accesses;  // of the task
  bool observes = false;             // of the host: its next step looks at what has completed
  bool overtakes = false;            // the task touches memory whose earlier life still has queued tasks
  bool is_overtaken = false;         // the task touches memory that has got a later life
};

// Picks one of the choices; called with at least one. Not thread-safe.
class Scheduler {
 public:
  virtual ~Scheduler() = default;
  virtual size_t choose(std::span<const Choice> choices) = 0;
};

// Schedulers by name, each of which makes the same choices for the same seed:
//   fifo            submissions run in their order, before the host goes on
//   round-robin     host and streams in turn
//   newest-first    the host runs ahead, then the latest submission that can run
//   occupant-first  like it, but work on reused memory runs before the work that used it earlier
//   random          any, each step
//   pct             random priorities that change at three random steps
//   starve          one random stream only when nothing else can run
// Throws Error(Invalid) for another name.
std::unique_ptr<Scheduler> make_scheduler(const std::string& name, uint64_t seed);
// The names above.
std::span<const char* const> scheduler_names();

// Repeats the choices of a schedule as SimDevice::schedule() printed it; after its end it takes the first choice.
std::unique_ptr<Scheduler> make_replay(const std::string& schedule);

}  // namespace thalweg::runtime::sim
