// Names of the Python classes that errors become.
#include "support/error.h"

namespace thalweg {

const char* python_class(ErrorKind kind) {
  switch (kind) {
#define THALWEG_ERROR(name, python_class, meaning) \
  case ErrorKind::name:                            \
    return python_class;
#include "support/errors.def"
#undef THALWEG_ERROR
  }
  return "RuntimeError";
}

}  // namespace thalweg
