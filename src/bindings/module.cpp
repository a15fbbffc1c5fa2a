// The Python extension module thalweg._C: thin wrappers, no logic. Its Python types are in python/thalweg/_C.pyi.
#include "aten/device_storage.h"
#include "aten/dlpack.h"
#include "aten/errors.h"
#include "aten/fallback.h"
#include "aten/generator.h"
#include "aten/host_access.h"
#include "aten/memory_budget.h"
#include "aten/numerics.h"
#include "aten/python_lines.h"
#include "aten/registration.h"
#include "aten/torch_cuda.h"
#include "aten/torch_headers.h"
#include "aten/tracer.h"
#include "bindings/dlpack.h"
#include "bindings/memory.h"
#include "lazy/device_choice.h"
#include "lazy/session.h"

namespace thalweg::bindings {
namespace {

namespace py = pybind11;
using lazy::Session;
using NoGil = py::call_guard<py::gil_scoped_release>;

void translate(std::exception_ptr pointer) {
  try {
    std::rethrow_exception(pointer);
  } catch (const Error& error) {
    try {
      aten::rethrow_as_torch(error);
    } catch (...) {
      torch::translate_exception_to_python(std::current_exception());
    }
  } catch (const c10::Error&) {
    torch::translate_exception_to_python(std::current_exception());
  } catch (const torch::PyTorchError&) {
    torch::translate_exception_to_python(std::current_exception());
  }
}

// At the interpreter's exit: nothing of ours may wait for Python any more.
void shut_down() {
  close_dlpack();
  Session::get().abandon();
}

void init() {
  aten::init();
  static const bool once = [] {
    Session::get().set_line_source(&aten::python_line);
    Session::get().set_numerics_source(&aten::numerics);
    Session::get().set_exposed_order(&aten::order_exposed);
    Session::get().set_device_hook([](runtime::Device& device) { aten::share_memory_budget(device); });
    py::module_::import("atexit").attr("register")(py::cpp_function([] { shut_down(); }, NoGil()));
    return true;
  }();
  static_cast<void>(once);
}

py::list flush_log() {
  py::list out;
  for (const auto& flush : Session::get().flushes()) {
    py::dict row;
    row["reason"] = flush.reason;
    row["compiled"] = !flush.compiled.empty();
    row["why"] = flush.compiled;
    row["line"] = flush.line;
    row["nodes"] = flush.operations;
    row["launches"] = 1;
    row["seconds"] = flush.compile_seconds;
    row["arguments"] = flush.arguments;
    row["outputs"] = flush.outputs;
    row["donated"] = flush.donated;
    row["kernels"] = flush.kernels;
    row["library_calls"] = flush.library_calls;
    out.append(row);
  }
  return out;
}

py::dict metrics() {
  py::dict out;
  auto& session = Session::get();
  std::lock_guard lock(session.counters_lock());
  for (const auto& [name, count] : session.counters().counts) out[py::str(name)] = count;
  for (const auto& [name, count] : aten::traced_counts()) {
    const size_t colons = name.find("::");
    out[py::str("xla" + name.substr(colons))] = count;
  }
  for (const auto& [name, timer] : session.counters().timers) out[py::str(name)] = py::make_tuple(timer.samples, timer.seconds, py::list());
  return out;
}

void clear_metrics() {
  auto& session = Session::get();
  std::lock_guard lock(session.counters_lock());
  session.counters() = {};
  aten::clear_traced_counts();
  aten::clear_fallback_counts();
}

py::dict fallbacks() {
  py::dict out;
  for (const auto& [name, lines] : aten::fallback_counts()) {
    py::list rows;
    for (const auto& [line, count] : lines) rows.append(py::make_tuple(line, count));
    out[py::str(name)] = rows;
  }
  return out;
}

std::map<std::string, size_t> memory_info() {
  const runtime::MemoryInfo info = Session::get().device().memory();
  return {{"live", info.live},           {"pending", info.pending}, {"cached", info.cached},  {"reserved", info.reserved},
          {"peak_live", info.peak_live}, {"limit", info.limit},     {"adopted", info.adopted}};
}

const at::Tensor& require_ours(const at::Tensor& tensor) {
  TORCH_CHECK_TYPE(aten::is_ours(tensor), "expected a tensor on device xla, got one on ", tensor.device());
  return tensor;
}

uintptr_t data_ptr(const at::Tensor& tensor) {
  require_ours(tensor);
  if (tensor.numel() == 0) return 0;
  auto* bytes = static_cast<char*>(Session::get().expose(aten::storage_of(tensor)));
  return reinterpret_cast<uintptr_t>(bytes) + static_cast<size_t>(tensor.storage_offset()) * tensor.element_size();
}

// Where the bytes are now, without fixing them there.
uintptr_t peek_address(const at::Tensor& tensor) {
  auto* bytes = static_cast<char*>(Session::get().materialize(aten::storage_of(require_ours(tensor)), "address read")->data());
  return reinterpret_cast<uintptr_t>(bytes) + static_cast<size_t>(tensor.storage_offset()) * tensor.element_size();
}

at::Tensor wrap_host(const at::Tensor& tensor) {
  TORCH_CHECK_TYPE(tensor.is_cpu() && tensor.layout() == c10::kStrided, "expected a strided tensor on the CPU, got a ", tensor.layout(), " one on ",
                   tensor.device());
  return aten::wrap_host_tensor(tensor);
}

std::string graph_text(const std::vector<at::Tensor>& tensors) {
  std::vector<lazy::Storage*> storages;
  for (const at::Tensor& tensor : tensors) storages.push_back(&aten::storage_of(require_ours(tensor)));
  return Session::get().pending_text(storages);
}

at::Tensor get_rng_state() { return aten::default_generator().get_state(); }
void set_rng_state(const at::Tensor& state) { at::Generator(aten::default_generator()).set_state(state); }

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  py::register_exception_translator(&translate);
  bind_dlpack(m);
  bind_memory(m);
  m.def("init", &init);
  m.def(
      "sync",
      [](bool wait, const std::string& reason) {
        aten::note_thread_count();
        Session::get().sync(reason.c_str(), wait);
      },
      py::arg("wait"), py::arg("reason"), NoGil());
  m.def("wait_device_ops", [] { Session::get().wait_all(); }, NoGil());
  m.def("flush_log", &flush_log);
  m.def("metrics", &metrics);
  m.def("clear_metrics", &clear_metrics);
  m.def("fallbacks", &fallbacks);
  m.def("manual_seed", [](uint64_t seed) { Session::get().set_rng(seed, 0); }, py::arg("seed"));
  m.def("get_rng_state", &get_rng_state);
  m.def("set_rng_state", &set_rng_state, py::arg("state"));
  m.def("memory_info", &memory_info, NoGil());
  m.def("device_kind", [] { return aten::translated([] { return lazy::device_kind(); }); }, NoGil());
  m.def("choose_device_kind", [](const std::string& kind) { aten::translated([&] { lazy::choose_device_kind(kind); }); }, py::arg("kind"), NoGil());
  m.def(
      "dlpack_place",
      [] {
        const auto place = aten::dlpack_place();
        return std::make_pair(static_cast<int>(place.type), static_cast<int>(place.index));
      },
      NoGil());
  m.def("reset_peak_memory", [] { Session::get().device().reset_peak(); }, NoGil());
  m.def("set_memory_limit", [](size_t bytes) { Session::get().device().set_memory_limit(bytes); }, py::arg("bytes"), NoGil());
  m.def("set_eager", [](bool on) { Session::get().set_eager(on); }, py::arg("on"), NoGil());
  m.def("set_record_lines", &aten::set_recording_lines, py::arg("on"));
  m.def("set_nan_guard", [](bool on) { Session::get().set_nan_guard(on); }, py::arg("on"), NoGil());
  m.def("set_flush_budget", [](int64_t ops) { Session::get().set_budget(ops); }, py::arg("n_ops"), NoGil());
  m.def("tensor_id", [](const at::Tensor& tensor) { return reinterpret_cast<uintptr_t>(&aten::storage_of(require_ours(tensor))); }, py::arg("tensor"));
  m.def("graph_text", &graph_text, py::arg("tensors"), NoGil());
  m.def("wrap_host", &wrap_host, py::arg("tensor"), NoGil());
  m.def("peek_address", &peek_address, py::arg("tensor"), NoGil());
  m.def("data_ptr", &data_ptr, py::arg("tensor"), NoGil());
  m.def(
      "resize_storage", [](const at::Tensor& tensor, size_t bytes) { aten::resize_storage(*tensor.storage().unsafeGetStorageImpl(), bytes); },
      py::arg("tensor"), py::arg("bytes"), NoGil());
}

}  // namespace thalweg::bindings
