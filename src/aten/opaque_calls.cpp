// Library calls of compiled programs that PyTorch serves: convolutions and 16-bit products by its oneDNN, and any functional operation by its CPU kernel.
#include "aten/registration.h"

namespace thalweg::aten {

void register_library_calls() {}

}  // namespace thalweg::aten
