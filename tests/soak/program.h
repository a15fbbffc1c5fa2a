// Random programs of several streams whose data dependencies are right, so that a wrong value can only be the allocator's fault.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/debug_modes.h"
#include "runtime/sim/scheduler.h"

namespace thalweg::soak {

// One step of the host program. Buffers and streams are small numbers.
struct Step {
  enum Kind : uint8_t { Allocate, Kernel, Free, HostRead, HostWrite, EndStream } kind = Allocate;
  uint8_t stream = 0;
  uint8_t buffer = 0;                // allocated, freed, read or written; the kernel's output
  uint16_t bytes = 0;                // of an allocation
  bool symmetric = false;            // of an allocation: at a symmetric address
  bool reads_output = false;         // the kernel checks its output's old value before it writes
  std::vector<uint8_t> inputs = {};  // that the kernel reads
};

// A host program and the memory it has.
struct Program {
  uint64_t seed = 0;
  int streams = 0;
  size_t memory_bytes = 0;  // of the device
  size_t limit = 0;         // of the pool, 0: none
  bool deterministic = false;
  bool symmetric = false;  // half of the allocations are
  runtime::DebugModes modes;
  std::vector<Step> steps;
  std::string text() const;
};

// How large programs are.
struct Size {
  int streams = 4, steps = 28, buffers = 6;
};

// The program of a seed: two to `size.streams` streams. With `pressure`, half of the programs have so little memory that they wait and fail.
Program make_program(uint64_t seed, const Size& size, bool pressure);

// What one schedule did.
struct Outcome {
  bool corrupt = false;
  std::string what;                    // the first wrong value
  std::string schedule;                // replays it
  uint64_t races = 0;                  // that the checker flagged, if it was asked
  std::string race;                    // the first one's text
  std::vector<const char*> addresses;  // of the allocations, from the first one's on
};

// Runs the program with a scheduler on a fresh simulated device. `check`: with the race checker in force.
Outcome run_program(const Program& program, runtime::sim::Scheduler& scheduler, bool check);
// The same on threads, which pause at random by `seed` (not 0).
Outcome run_on_threads(const Program& program, uint64_t seed, bool check);

// The rule that decides when freed memory may be reused: "frontier" (ours), or a test double of what other allocators do:
// "bfc" (at once, on any stream), "pytorch" (at once on the stream that allocated it, never elsewhere), "rmm" (at once on the stream that allocated it,
// elsewhere after what that stream had queued). Throws Error(Invalid) for another name.
void use_rule(const std::string& name);

}  // namespace thalweg::soak
