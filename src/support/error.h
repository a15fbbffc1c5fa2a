// The project's exceptions: one list of kinds, three ways to raise (user input, our own assertion, a vendor call).
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace thalweg {

// Every kind of error, its Python class and its meaning: see errors.def.
enum class ErrorKind {
#define THALWEG_ERROR(name, python_class, meaning) name,
#include "support/errors.def"
#undef THALWEG_ERROR
};

// The name of the Python exception class that `kind` becomes, e.g. "IndexError" or "torch.OutOfMemoryError".
const char* python_class(ErrorKind kind);

// The one exception type that Thalweg throws. what(): static text first, then the values, then what to do.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

// Throws Error(kind) with all parts streamed one after the other.
template <class... Parts>
[[noreturn]] void raise(ErrorKind kind, const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  throw Error(kind, text.str());
}

}  // namespace thalweg

// Checks the user's input; on failure throws Error(ErrorKind::kind) with the streamed parts.
#define THALWEG_CHECK(condition, kind, ...)                      \
  do {                                                           \
    if (!(condition)) [[unlikely]]                               \
      ::thalweg::raise(::thalweg::ErrorKind::kind, __VA_ARGS__); \
  } while (0)

// Asserts what only a bug of ours can break; on failure throws Error(ErrorKind::Internal) with file and line.
#define THALWEG_ASSERT(condition, ...)                                                                                                                 \
  do {                                                                                                                                                 \
    if (!(condition)) [[unlikely]]                                                                                                                     \
      ::thalweg::raise(::thalweg::ErrorKind::Internal, "internal error at ", __FILE__, ":", __LINE__, ": " #condition " " __VA_OPT__(, ) __VA_ARGS__); \
  } while (0)
