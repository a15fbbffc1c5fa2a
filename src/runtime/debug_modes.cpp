// Reading debug modes.
#include "runtime/debug_modes.h"

#include <cstdlib>

#include "support/error.h"

namespace thalweg::runtime {
namespace {

uint64_t number_of(const std::string& word, size_t equals) {
  std::string digits = equals == std::string::npos ? "" : word.substr(equals + 1);
  bool is_number = !digits.empty() && digits.size() < 19 && digits.find_first_not_of("0123456789") == std::string::npos;
  THALWEG_CHECK(is_number && std::stoull(digits) > 0, Invalid, "a debug mode needs a number above 0: ", word, "; write ", word.substr(0, equals), "=N");
  return std::stoull(digits);
}

}  // namespace

DebugModes parse_debug_modes(const std::string& text) {
  DebugModes modes;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find(',', at), text.size());
    std::string word = text.substr(at, end - at);
    size_t equals = word.find('=');
    std::string name = word.substr(0, equals);
    if (word == "sync") {
      modes.sync = true;
    } else if (word == "deterministic") {
      modes.deterministic = true;
    } else if (word == "race") {
      modes.race = true;
    } else if (word == "poison") {
      modes.poison = true;
    } else if (word == "redzone") {
      modes.redzone = true;
    } else if (word == "unmap") {
      modes.unmap = true;
    } else if (name == "quarantine") {
      modes.quarantine = number_of(word, equals);
    } else if (name == "delay") {
      modes.delay = number_of(word, equals);
    } else if (!word.empty()) {
      raise(ErrorKind::Invalid, "unknown debug mode ", word, "; there are sync, deterministic, race, poison, redzone, unmap, quarantine=N and delay=SEED");
    }
    at = end + 1;
  }
  return modes;
}

DebugModes debug_modes_of_environment() {
  const char* text = std::getenv("THALWEG_DEBUG");
  return parse_debug_modes(text ? text : "");
}

}  // namespace thalweg::runtime
