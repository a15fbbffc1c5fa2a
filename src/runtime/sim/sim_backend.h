// What both kinds of simulated device have in common, and the two: one whose streams are stepped, one whose streams are threads.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "runtime/sim/sim_device.h"
#include "runtime/sim/sim_memory.h"

namespace thalweg::runtime::sim {

// Simulated memory, and queues by name of what drives them.
class SimBackend : public Backend {
 public:
  explicit SimBackend(const Options& options) : options_(options), memory_(options) {}

  bool wants_accesses() const override { return true; }
  const Axis* running_here() const override { return running_axis; }
  size_t page_bytes() const override { return memory_.page_bytes(); }
  char* reserve(size_t& bytes) override { return memory_.reserve(bytes); }
  void unreserve(char* base, size_t bytes) override { memory_.unreserve(base, bytes); }
  bool commit(char* base, size_t bytes) override { return memory_.commit(base, bytes); }
  void decommit(char* base, size_t bytes) override { memory_.decommit(base, bytes); }

  // Lets the scheduler run what it likes before a step of the host.
  virtual void host_step(bool observes) = 0;
  // Runs everything that can run; nothing to do for threads, which do so by themselves.
  virtual void run_all() = 0;
  virtual std::string schedule() const = 0;

  const SimMemory& memory() const { return memory_; }
  uint64_t tasks_run() const { return run_.load(); }

 protected:
  // Runs a task whose waits have completed, on the calling thread.
  void run(Task& task, Axis& axis);
  // Throws where a new stream is to fail.
  uint64_t count_queue();
  // Whether all of the waits have completed. Not is_done(): what the device sees is not what the host has seen.
  static bool is_past(const Frontier& waits);

  const Options options_;

 private:
  static thread_local const Axis* running_axis;

  SimMemory memory_;
  std::atomic<uint64_t> run_{0}, queues_made_{0};
};

// For a device with threads; see Options::threads.
std::unique_ptr<SimBackend> make_threads(const Options& options);
// For a device that a scheduler steps.
std::unique_ptr<SimBackend> make_stepper(const Options& options);

}  // namespace thalweg::runtime::sim
