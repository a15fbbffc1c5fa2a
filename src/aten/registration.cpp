// Registration of everything with PyTorch's dispatcher.
#include "aten/registration.h"

#include <cstdlib>
#include <cstring>
#include <mutex>

#include "aten/device_guard.h"

namespace thalweg::aten {

bool is_tracing_enabled() {
  static const bool enabled = [] {
    const char* text = std::getenv("THALWEG_TRACE");
    return !text || std::strcmp(text, "0") != 0;
  }();
  return enabled;
}

torch::Library& new_library(torch::Library::Kind kind, const char* ns, std::optional<c10::DispatchKey> key) {
  // Never destroyed: the dispatcher must not lose kernels while other libraries' destructors may still use tensors.
  return *new torch::Library(kind, ns, key, "thalweg", 0);
}

void init() {
  static std::once_flag once;
  std::call_once(once, [] {
    register_device();
    register_factories();
    register_copies();
    register_library_calls();
    if (is_tracing_enabled()) {
      register_attention();
      register_tracer();
    }
    register_fallback();
    register_autocast();
  });
}

}  // namespace thalweg::aten
