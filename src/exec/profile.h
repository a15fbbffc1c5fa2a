// Where the time of programs goes: with THALWEG_PROFILE set, time by command, printed when the process ends.
#pragma once

#include <string>

namespace thalweg::exec {

// True when THALWEG_PROFILE is set in the environment (read once).
bool profiling();
// Adds one run of the command called `name`. Thread-safe.
void profile(const std::string& name, double seconds);

}  // namespace thalweg::exec
