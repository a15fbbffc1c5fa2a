// The Python line that the running operation comes from.
#include "aten/python_lines.h"

#include <ATen/SequenceNumber.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "aten/backend_key.h"
#include "lazy/lines.h"

namespace thalweg::aten {
namespace {

std::atomic<bool> recording{[] {
  const char* text = std::getenv("THALWEG_LINES");
  return text && std::strcmp(text, "0") != 0;
}()};

// The folders of torch and of this package, with a closing slash. Needs the GIL.
const std::vector<std::string>& library_folders() {
  static const auto* folders = [] {
    auto* out = new std::vector<std::string>();
    for (const char* name : {"torch", "thalweg", "torch_xla"}) {
      PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), name);
      if (!module) continue;
      const auto file = pybind11::getattr(pybind11::handle(module), "__file__", pybind11::none());
      if (file.is_none()) continue;
      const auto path = pybind11::cast<std::string>(file);
      out->push_back(path.substr(0, path.rfind('/') + 1));
    }
    return out;
  }();
  return *folders;
}

bool is_library_file(const std::string& path) {
  if (path.starts_with("<frozen") || path.ends_with("/contextlib.py")) return true;
  return std::ranges::any_of(library_folders(), [&](const std::string& folder) { return path.starts_with(folder); });
}

// What is known of one code object, kept alive by its entry. Guarded by the GIL.
struct CodeFacts {
  bool is_library = false;
  std::string file, function;
  std::unordered_map<int, uint32_t> lines;  // line number → interned
};

CodeFacts& facts_of(PyCodeObject* code) {
  static auto* known = new std::unordered_map<PyCodeObject*, CodeFacts>();
  auto [at, is_new] = known->try_emplace(code);
  if (is_new) {
    Py_INCREF(code);
    const char* file = PyUnicode_AsUTF8(code->co_filename);
    const char* function = PyUnicode_AsUTF8(code->co_name);
    at->second.file = file ? file : "?";
    at->second.function = function ? function : "?";
    at->second.is_library = is_library_file(at->second.file);
    PyErr_Clear();
  }
  return at->second;
}

// The interned line of the innermost frame that is the user's. Needs the GIL.
uint32_t line_of_frames() {
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  uint32_t line = 0;
  while (frame && line == 0) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    CodeFacts& facts = facts_of(code);
    Py_DECREF(code);
    if (!facts.is_library) {
      const int number = PyFrame_GetLineNumber(frame);
      uint32_t& known = facts.lines[number];
      if (known == 0) known = lazy::intern_line(facts.file + ":" + std::to_string(number) + " (" + facts.function + ")");
      line = known;
    }
    PyFrameObject* back = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
  }
  Py_XDECREF(frame);
  return line;
}

uint32_t current_line() {
  if (!Py_IsInitialized()) return 0;
  pybind11::gil_scoped_acquire gil;
  return line_of_frames();
}

// Lines of recent forward operations by the autograd sequence number their node has got. A ring: backward comes soon after forward.
class ForwardLines {
 public:
  void put(uint64_t sequence, uint32_t line) {
    std::lock_guard lock(mutex_);
    ring_[sequence % kSize] = {sequence, line};
  }
  uint32_t get(uint64_t sequence) {
    std::lock_guard lock(mutex_);
    const Entry& entry = ring_[sequence % kSize];
    return entry.sequence == sequence ? entry.line : 0;
  }

 private:
  static constexpr size_t kSize = 1 << 16;
  struct Entry {
    uint64_t sequence = UINT64_MAX;
    uint32_t line = 0;
  };
  std::mutex mutex_;
  std::vector<Entry> ring_ = std::vector<Entry>(kSize);
};
ForwardLines& forward_lines() {
  static auto* lines = new ForwardLines();
  return *lines;
}

}  // namespace

std::string python_line() {
  uint32_t line = current_line();
  if (line == 0 && recording && in_backward()) line = traced_line(true);
  return line ? lazy::line_text(line) : std::string();
}

bool is_recording_lines() { return recording.load(std::memory_order_relaxed); }
void set_recording_lines(bool on) { recording = on; }

uint32_t traced_line(bool backward) {
  if (backward) {
    if (const auto sequence = current_node_sequence()) return forward_lines().get(*sequence);
    return 0;
  }
  const uint32_t line = current_line();
  // Autograd makes the node before it calls the kernel below, so the number is the last one handed out.
  const uint64_t next = at::sequence_number::peek();
  if (line && next > 0) forward_lines().put(next - 1, line);
  return line;
}

}  // namespace thalweg::aten
