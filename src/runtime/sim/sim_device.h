// A device without hardware: streams are queues that a scheduler steps one task at a time, or threads; memory is host memory that knows what is mapped.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "runtime/pooled_device.h"
#include "runtime/sim/scheduler.h"

namespace thalweg::runtime::sim {

// What a simulated device is like.
struct Options {
  size_t page_bytes = 4096;
  size_t range_bytes = size_t{256} << 20;   // addresses a heap
  size_t memory_bytes = size_t{256} << 20;  // that can be committed
  // Who steps; null: nothing runs until the host waits, then submissions run in their order. Must outlive the device.
  Scheduler* scheduler = nullptr;
  // The n-th call (from 1) of these fails; 0: none does.
  uint64_t failing_reserve = 0, failing_commit = 0, failing_queue = 0;
  // Asked of a task whose waits have completed: false keeps it waiting, as a collective does until its peers have come. Null: always true.
  std::function<bool(const Task& task)> may_run = nullptr;
  // Not 0: each stream is a thread that pauses at random by this seed, and any number of host threads may use the device. The scheduler is not asked;
  // may_run is, on the streams' threads.
  uint64_t threads = 0;
  // With threads: a host wait during which no task has run for so long is a deadlock.
  std::chrono::milliseconds patience{10'000};
  int ordinal = 0;
  DebugModes modes = {};
};

class SimBackend;

// One simulated device. Without Options::threads it is for one host thread, and deterministic for a given program and scheduler.
class SimDevice {
 public:
  explicit SimDevice(Options options = {});
  ~SimDevice();
  SimDevice(const SimDevice&) = delete;

  PooledDevice& device() { return *device_; }
  // Called before each step of the host program: lets the scheduler run what it likes first. `observes`: the step looks at what has completed
  // (allocations and waits do).
  void host_step(bool observes = true);
  // Runs everything that is queued and can run; with threads: waits for everything.
  void run_all();
  // The choices so far, e.g. "h h 2 1 h": make_replay() repeats them. With threads there is nothing to repeat: "threads SEED".
  std::string schedule() const;
  // Whether memory stands behind all of these bytes.
  bool is_mapped(const void* base, size_t bytes) const;
  uint64_t tasks_run() const;

 private:
  const bool has_threads_;
  std::unique_ptr<PooledDevice> device_;
  SimBackend* backend_;
};

// The device alone, for code that knows only Device: host waits run the submissions in their order.
std::shared_ptr<Device> make_device(Options options = {});

}  // namespace thalweg::runtime::sim
