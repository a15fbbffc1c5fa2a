// The session's insides: program cache, launches in flight, traces with pending storages.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "exec/executable.h"
#include "lazy/program.h"
#include "lazy/session.h"
#include "lazy/trace.h"
#include "lazy/transfer.h"

namespace thalweg::lazy {

// One compiled program of the cache. Immutable.
struct Program {
  std::shared_ptr<const exec::Executable> executable;
  ProgramSketch sketch;
  bool fallible = false;
};

// One launch whose success has not been seen yet.
struct Launch {
  std::vector<ValuePtr> values;                           // what it makes; each counts in Value::internal_refs
  std::vector<std::pair<StoragePtr, ValuePtr>> rollback;  // storages and the versions before; likewise counted
  std::vector<runtime::BufferPtr> homes;                  // exposed memory that it is written back to
  bool fallible = false;
  bool done() const { return values.empty() || values.front()->buffer->is_written(); }
};

// Launches that may be unfinished before the next one waits for the oldest: bounds the memory that run-ahead can hold.
inline constexpr size_t kRunAhead = 2;

struct Session::State {
  std::recursive_mutex lock;
  std::atomic<runtime::Device*> device{nullptr};
  uint64_t sequence = 0;
  std::vector<TracePtr> traces;  // every trace that may have pending storages
  struct KeyHash {
    size_t operator()(const Key& key) const { return key.a; }
  };
  std::unordered_map<Key, std::shared_ptr<const Program>, KeyHash> programs;
  std::deque<std::shared_ptr<const Program>> recent;  // latest first
  std::deque<Launch> in_flight;                       // oldest first
  bool eager = false, nan_guard = false;
  int64_t budget = 20000;
  std::atomic<uint64_t> seed{0}, offset{0};
  std::deque<FlushRecord> log;
  std::mutex counters_lock;
  Counters counters;
  std::function<std::string()> line_source;
  std::function<Numerics()> numerics_source;
  std::function<void(runtime::Device&)> device_hook;
  std::function<void(const runtime::BufferPtr&)> exposed_order;

  runtime::Device& use_device();
  // The trace that an operation joins: the calling thread's own, or in backward that of its pending inputs; traces that meet are merged.
  Trace& join(const Record& record);
  Trace& thread_trace();

  // A new version of `storage` is pending in `trace` / is ready now.
  void set_pending(Trace& trace, Storage& storage, ValuePtr value);
  void set_ready(Storage& storage, ValuePtr value);
  ValuePtr make_value();
  // storage.current, made as uninitialised memory shaped by `view` when there is none; throws the error of a failed step.
  ValuePtr& current(Storage& storage, const View& view);
  // The bytes of a ready, written version in a buffer of its own.
  ValuePtr copy_of(const Value& value);
  ValuePtr write_view(Storage& storage, const View& view, ValuePtr update, bool backward, uint32_t line);

  // Flushes everything pending in `trace`. On an error the trace's storages are back at their last ready versions.
  void flush(Trace& trace, const char* reason, const std::string& line);
  std::shared_ptr<const Program> program_for(const PendingGraph& graph, FlushRecord& record);
  std::vector<exec::Argument> arguments_for(const PendingGraph& graph, FlushRecord& record);
  void finish_launch(Trace& trace, const PendingGraph& graph, const Program& program, exec::LaunchResult result);
  void write_home(Storage& storage);
  // Forgets the pending operations of `trace`; what has no earlier version reads as `error`.
  void drop_pending(Trace& trace, const std::shared_ptr<const Error>& error);
  void drop_all_pending(const std::shared_ptr<const Error>& error);

  // Whether others may use the storage's memory in the order of streams, without the host waiting for us.
  bool is_ordered_outside() { return exposed_order && !lazy::is_host_memory(use_device()); }
  void order_exposed(const runtime::BufferPtr& buffer) {
    if (buffer && is_ordered_outside()) exposed_order(buffer);
  }
  // The same for all that an operation names.
  void order_exposed(const Record& record);
  // On a GPU: waits where a launch may still turn out to have failed on its data.
  void settle_fallible();
  // Waits until at most `keep` launches are unfinished; throws the first failure after going back to the state before it.
  void settle(size_t keep);
  // Looks at finished launches without waiting.
  void poll();
  void retire_oldest();
  [[noreturn]] void fail(const Error& error);

  // Adds to a counter, and a duration to a timer, of the metrics report.
  void count(const char* name, int64_t by = 1);
  void time(const char* name, double seconds);
};

}  // namespace thalweg::lazy
