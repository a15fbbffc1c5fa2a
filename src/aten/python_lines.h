// The Python line that the running operation comes from.
#pragma once

#include <cstdint>
#include <string>

namespace thalweg::aten {

// "file.py:12 (function)" of the innermost frame outside of torch and this package on the calling thread; empty when there is none (the autograd
// engine's threads) or Python is not running. Takes the GIL.
std::string python_line();

// Whether each traced operation remembers its line. Off at first, unless the environment has THALWEG_LINES=1.
bool is_recording_lines();
void set_recording_lines(bool on);
// The number (lazy/lines.h) of the line of an operation that is being traced: the Python frame's, or in the backward that of the forward operation whose
// autograd node is running; 0 when unknown or recording is off.
uint32_t traced_line(bool backward);

}  // namespace thalweg::aten
