// Recordings and snapshots of the device's memory for Python.
#pragma once

#include "aten/torch_headers.h"

namespace thalweg::bindings {

// Adds record_history, memory_snapshot and memory_report to the module.
void bind_memory(pybind11::module_& m);

}  // namespace thalweg::bindings
