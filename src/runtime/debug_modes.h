// Modes for finding misuse of memory, chosen by the environment variable THALWEG_DEBUG.
#pragma once

#include <cstdint>
#include <string>

namespace thalweg::runtime {

// What a device does on top of its work. All off by default; they combine.
struct DebugModes {
  bool sync = false;           // the host waits after every submission
  bool deterministic = false;  // addresses do not depend on timing
  bool race = false;           // the race checker watches and prints what it finds
  bool poison = false;         // freed memory is filled with 0xFF (NaN in floats, -1 in integers) once nothing uses it
  bool redzone = false;        // a guard behind each buffer is checked when nothing uses it any more; writes beyond are printed
  bool unmap = false;          // each buffer has pages of its own, without memory from the moment at which nothing uses it: a later touch faults
  uint64_t quarantine = 0;     // so many freed blocks are kept from reuse
  uint64_t delay = 0;          // seed of pauses that are put between tasks at random; 0: none
};

// The modes of a text such as "sync,race,poison,redzone,unmap,quarantine=100,delay=7,deterministic"; empty: none. Throws Error(Invalid) for anything else.
DebugModes parse_debug_modes(const std::string& text);
// Those of the environment variable THALWEG_DEBUG.
DebugModes debug_modes_of_environment();

}  // namespace thalweg::runtime
