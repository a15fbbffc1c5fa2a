// DLPack for Python: capsules, and the table of C functions on the tensor type.
#pragma once

#include "aten/torch_headers.h"

namespace thalweg::bindings {

// Adds to_dlpack, from_dlpack, dlpack_exchange_api and the counters to the module, and sees to it that deleters of other libraries are left uncalled once
// the interpreter is going away.
void bind_dlpack(pybind11::module_& m);
// Called at the interpreter's exit: from now on deleters of other libraries are left uncalled.
void close_dlpack();

}  // namespace thalweg::bindings
