// Recordings and snapshots of the device's memory for Python.
#include "bindings/memory.h"

#include "lazy/session.h"
#include "runtime/history.h"

namespace thalweg::bindings {
namespace {

namespace py = pybind11;
using NoGil = py::call_guard<py::gil_scoped_release>;

const char* name_of(runtime::Happening what) {
  switch (what) {
    case runtime::Happening::Allocated:
      return "allocated";
    case runtime::Happening::Freed:
      return "freed";
    case runtime::Happening::Completed:
      return "completed";
    case runtime::Happening::OutOfMemory:
      return "out of memory";
    case runtime::Happening::Ran:
      return "ran";
  }
  return "";
}

py::dict memory_snapshot() {
  std::vector<runtime::MemoryBlock> blocks;
  std::vector<runtime::HistoryEvent> events;
  {
    py::gil_scoped_release without;
    blocks = lazy::Session::get().device().memory_blocks();
    if (runtime::History* history = runtime::latest_history()) events = history->events();
  }
  py::list block_rows, event_rows;
  for (const auto& block : blocks) {
    const char* state = block.live ? "live" : block.pending ? "pending" : "free";
    block_rows.append(py::make_tuple(block.address, block.bytes, block.requested, state, block.stream, block.label));
  }
  for (const auto& event : events) {
    event_rows.append(py::make_tuple(name_of(event.what), event.start_ns, event.end_ns, event.address, event.bytes, event.stream, event.text));
  }
  py::dict out;
  out["blocks"] = block_rows;
  out["events"] = event_rows;
  return out;
}

}  // namespace

void bind_memory(py::module_& m) {
  m.def("record_history", &runtime::record_history, py::arg("limit"), NoGil());
  m.def("memory_snapshot", &memory_snapshot);
  m.def("memory_report", [] { return lazy::Session::get().device().memory_report(); }, NoGil());
}

}  // namespace thalweg::bindings
