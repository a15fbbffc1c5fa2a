// Errors at the boundary: Thalweg's exceptions as those that PyTorch turns into the right Python class.
#include "aten/errors.h"

namespace thalweg::aten {
namespace {

// PyTorch asks such an exception for its Python class; it has none of its own for these.
class PythonError : public torch::PyTorchError {
 public:
  PythonError(PyObject* type, const char* message) : torch::PyTorchError(message), type_(type) {}
  PyObject* python_type() override { return type_; }

 private:
  PyObject* type_;
};

template <class TorchError>
[[noreturn]] void raise_as(const Error& error) {
  throw TorchError({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, error.what());
}

}  // namespace

void rethrow_as_torch(const Error& error) {
  switch (error.kind()) {
    case ErrorKind::Invalid:
    case ErrorKind::Parse:
    case ErrorKind::Verify:
      raise_as<c10::ValueError>(error);
    case ErrorKind::Type:
      raise_as<c10::TypeError>(error);
    case ErrorKind::Index:
      raise_as<c10::IndexError>(error);
    case ErrorKind::OutOfMemory:
      raise_as<c10::OutOfMemoryError>(error);
    case ErrorKind::Unsupported:
      raise_as<c10::NotImplementedError>(error);
    case ErrorKind::NotFinite:
      throw PythonError(PyExc_FloatingPointError, error.what());
    case ErrorKind::Missing:
      throw PythonError(PyExc_ImportError, error.what());
    case ErrorKind::Vendor:
    case ErrorKind::Device:
    case ErrorKind::Internal:
      break;
  }
  raise_as<c10::Error>(error);
}

}  // namespace thalweg::aten
