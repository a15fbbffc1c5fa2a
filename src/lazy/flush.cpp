// From pending storages to a launched program, and back to the last good state when one fails.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <utility>

#include "compiler/compiler.h"
#include "lazy/lines.h"
#include "lazy/session_state.h"
#include "lazy/transfer.h"
#include "runtime/history.h"

namespace thalweg::lazy {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); }

// Errors of launches that are known to have overwritten nothing: the state before them is intact.
bool leaves_state_intact(const Error& error) {
  return error.kind() == ErrorKind::Index || error.kind() == ErrorKind::NotFinite || error.kind() == ErrorKind::OutOfMemory;
}

std::shared_ptr<const Error> shared(const Error& error) { return std::make_shared<Error>(error); }

// Appends the program to XLA_SAVE_TENSORS_FILE when that is set. A file that cannot be written stops no training: it is said once.
void save_text(const ir::Function& function, const FlushRecord& record) {
  static const char* const path = std::getenv("XLA_SAVE_TENSORS_FILE");
  if (!path || !*path) return;
  std::ofstream file(path, std::ios::app);
  file << "// compiled: " << record.compiled << "\n// flushed by: " << record.reason;
  if (!record.line.empty()) file << " at " << record.line;
  file << "\n" << portable_text(function) << "\n";
  file.flush();
  static bool said = false;
  if (file || std::exchange(said, true)) return;
  std::fprintf(stderr, "thalweg: XLA_SAVE_TENSORS_FILE cannot be written: %s; check the folder and the free space. Programs are not saved.\n", path);
}

void release_internal(ValuePtr& value) {
  if (value) --value->internal_refs;
  value.reset();
}

}  // namespace

void Session::State::flush(Trace& trace, const char* reason, const std::string& line) {
  trace.operations = 0;
  if (trace.pending.empty()) return;
  FlushRecord record;
  record.reason = reason;
  record.line = line;
  try {
    poll();
    const PendingGraph graph = collect(trace.pending, nan_guard);
    record.operations = static_cast<int64_t>(graph.order.size());
    record.outputs = static_cast<int64_t>(graph.outputs.size());
    const std::shared_ptr<const Program> program = program_for(graph, record);
    // A GPU's programs that may fail overwrite nothing, so that what follows them need not wait: on a failure everything goes back to the state before.
    if (lazy::is_host_memory(use_device())) settle_fallible();
    settle(kRunAhead - 1);
    std::vector<exec::Argument> arguments = arguments_for(graph, record);
    const auto start = std::chrono::steady_clock::now();
    exec::LaunchResult result = program->executable->launch(use_device().compute_stream(), arguments);
    finish_launch(trace, graph, *program, std::move(result));
    time("ExecuteTime", seconds_since(start));
  } catch (const Error& error) {
    drop_pending(trace, shared(error));
    throw;
  }
  log.push_back(std::move(record));
  if (log.size() > 1000) log.pop_front();
}

std::shared_ptr<const Program> Session::State::program_for(const PendingGraph& graph, FlushRecord& record) {
  const Numerics numerics = numerics_source ? numerics_source() : Numerics{};
  Key key = graph.key;
  key.a ^= (numerics.deterministic ? 0x9e3779b97f4a7c15ull : 0) ^ (numerics.tf32 ? 0xc2b2ae3d27d4eb4full : 0);
  if (auto it = programs.find(key); it != programs.end()) {
    count("CachedCompile");
    record.kernels = it->second->executable->info().kernels;
    record.library_calls = it->second->executable->info().library_calls;
    return it->second;
  }
  const auto start = std::chrono::steady_clock::now();
  auto program = std::make_shared<Program>();
  program->sketch = sketch(graph);
  std::vector<const ProgramSketch*> earlier;
  for (const auto& p : recent) earlier.push_back(&p->sketch);
  record.compiled = explain_difference(program->sketch, earlier);
  LoweredProgram lowered = lower(graph, nan_guard);
  program->fallible = lowered.fallible;
  save_text(*lowered.function, record);
  compiler::Options options;
  options.device = &use_device();
  options.deterministic = numerics.deterministic, options.tf32 = numerics.tf32;
  program->executable = compiler::compile(std::move(lowered.function), options);
  record.compile_seconds = seconds_since(start);
  record.kernels = program->executable->info().kernels;
  record.library_calls = program->executable->info().library_calls;
  count("UncachedCompile");
  time("CompileTime", record.compile_seconds);
  programs.emplace(key, program);
  recent.push_front(program);
  if (recent.size() > 16) recent.pop_back();
  return program;
}

std::vector<exec::Argument> Session::State::arguments_for(const PendingGraph& graph, FlushRecord& record) {
  std::vector<exec::Argument> arguments;
  arguments.reserve(graph.leaves.size() + graph.scalars.size());
  for (Value* leaf : graph.leaves) {
    const bool donated = leaf->exclusive && leaf->use_count() == leaf->leaf_refs + leaf->internal_refs;
    record.donated += donated;
    arguments.push_back({leaf->buffer, 0, donated});
  }
  for (const Scalar& scalar : graph.scalars) arguments.push_back({nullptr, scalar.bits, false});
  record.arguments = static_cast<int64_t>(arguments.size());
  return arguments;
}

void Session::State::finish_launch(Trace& trace, const PendingGraph& graph, const Program& program, exec::LaunchResult result) {
  THALWEG_ASSERT(result.outputs.size() == graph.outputs.size());
  Launch launch;
  launch.fallible = program.fallible;
  std::vector<NodePtr> finished;  // released last: values of this flush are borrowed from them
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    Value& value = *graph.outputs[i];
    if (runtime::History* recording = runtime::history.load(std::memory_order_relaxed)) {
      recording->name(*result.outputs[i], std::string(value.node->row->name) + (value.node->line ? " " + line_text(value.node->line) : ""));
    }
    finished.push_back(std::move(value.node));
    value.node = nullptr;
    value.buffer = std::move(result.outputs[i]);
    value.exclusive = true;
    launch.values.emplace_back(&value);
    ++value.internal_refs;
  }
  std::vector<Storage*> storages = std::move(trace.pending);
  trace.pending.clear();
  for (Storage* storage : storages) {
    storage->trace.reset();
    if (storage->committed) launch.rollback.emplace_back(StoragePtr(storage), std::move(storage->committed));  // keeps its internal reference
    storage->committed = nullptr;
    if (!storage->home) continue;
    write_home(*storage);
    launch.homes.push_back(storage->home);
  }
  in_flight.push_back(std::move(launch));
}

void Session::State::write_home(Storage& storage) {
  runtime::BufferPtr from = storage.current->buffer, home = storage.home;
  if (from == home) return;
  overwrite(use_device(), from, home, std::min(from->size(), home->size()));
  ValuePtr value = make_value();
  value->layout = storage.current->layout;
  value->buffer = home;
  storage.current = value;
}

void Session::State::drop_pending(Trace& trace, const std::shared_ptr<const Error>& error) {
  std::vector<Storage*> storages = std::move(trace.pending);
  trace.pending.clear();
  std::vector<ValuePtr> dropped;
  for (Storage* storage : storages) {
    storage->trace.reset();
    dropped.push_back(std::move(storage->current));
    if (storage->committed) {
      storage->current = storage->committed;
      release_internal(storage->committed);
    } else {
      storage->current = make_value();
      storage->current->layout = dropped.back()->layout;
      storage->current->error = error;
    }
  }
}

void Session::State::drop_all_pending(const std::shared_ptr<const Error>& error) {
  for (const TracePtr& trace : traces) drop_pending(*trace->root(), error);
}

void Session::State::poll() {
  while (!in_flight.empty() && in_flight.front().done()) retire_oldest();
}

void Session::State::settle(size_t keep) {
  while (in_flight.size() > keep) retire_oldest();
}

void Session::State::settle_fallible() {
  if (std::any_of(in_flight.begin(), in_flight.end(), [](const Launch& launch) { return launch.fallible; })) settle(0);
}

void Session::State::retire_oldest() {
  Launch& launch = in_flight.front();
  try {
    if (!launch.values.empty()) launch.values.front()->buffer->wait_written();
    for (const runtime::BufferPtr& home : launch.homes) home->wait_written();
  } catch (const Error& error) {
    fail(error);
  }
  for (ValuePtr& value : launch.values) --value->internal_refs;
  for (auto& [storage, value] : launch.rollback) --value->internal_refs;
  Launch finished = std::move(launch);
  in_flight.pop_front();
}

void Session::State::fail(const Error& error) {
  const auto why = shared(error);
  const bool intact = leaves_state_intact(error);
  drop_all_pending(why);
  use_device().compute_stream().synchronize();
  std::deque<Launch> failed = std::move(in_flight);
  in_flight.clear();
  for (auto launch = failed.rbegin(); launch != failed.rend(); ++launch) {
    for (ValuePtr& value : launch->values) {
      --value->internal_refs;
      value->error = why;
    }
    for (auto& [storage, value] : launch->rollback) {
      --value->internal_refs;
      if (!intact || storage->home) continue;
      value->buffer->clear_error();
      storage->current = value;
    }
  }
  throw Error(error);
}

void Session::State::count(const char* name, int64_t by) {
  std::lock_guard guard(counters_lock);
  counters.counts[name] += by;
}

void Session::State::time(const char* name, double seconds) {
  std::lock_guard guard(counters_lock);
  auto& timer = counters.timers[name];
  ++timer.samples;
  timer.seconds += seconds;
}

}  // namespace thalweg::lazy
