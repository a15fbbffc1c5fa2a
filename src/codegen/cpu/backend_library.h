// Finds and loads libthalweg_clang.so.
#pragma once

#include <string>

#include "codegen/cpu/clang/backend.h"

namespace thalweg::codegen::cpu {

// The backend's interface, loaded on the first call and kept; null when it cannot be, with the reason and what to do in `why`. Thread-safe.
// Looked for: THALWEG_CLANG_LIBRARY, beside this module, in the folder above it.
const ThalwegClangApi* backend(std::string* why = nullptr);

}  // namespace thalweg::codegen::cpu
