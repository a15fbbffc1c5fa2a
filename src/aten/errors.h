// Errors at the boundary: Thalweg's exceptions as those that PyTorch turns into the right Python class.
#pragma once

#include "aten/torch_headers.h"
#include "support/error.h"

namespace thalweg::aten {

// Throws the exception for which PyTorch raises python_class(error.kind()) with the same message.
[[noreturn]] void rethrow_as_torch(const Error& error);

// Calls `f`; a thalweg::Error leaves as rethrow_as_torch() has it, every other exception unchanged.
template <class F>
decltype(auto) translated(F&& f) {
  try {
    return f();
  } catch (const Error& error) {
    rethrow_as_torch(error);
  }
}

}  // namespace thalweg::aten
