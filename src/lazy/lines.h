// Python lines of traced operations, interned: a small number for "file.py:12 (function)".
#pragma once

#include <cstdint>
#include <string>

namespace thalweg::lazy {

// The number of this line; thread-safe. 0 is kept for "not recorded".
uint32_t intern_line(const std::string& line);
const std::string& line_text(uint32_t line);

}  // namespace thalweg::lazy
