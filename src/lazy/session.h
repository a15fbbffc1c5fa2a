// The lazy device: records operations over storages, and turns what is pending into programs and launches.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "lazy/storage.h"
#include "runtime/device.h"

namespace thalweg::lazy {

// A tensor argument: which storage, read how. A null storage is an absent optional tensor.
struct TensorArg {
  Storage* storage = nullptr;
  View view;
};

// Where a result goes: `view` covers a fresh storage (then it must be dense), or is the window of an in-place or out= write.
struct ResultArg {
  Storage* storage = nullptr;
  View view;
};

// One operation to record, as the tracer decoded it. Spans need to live only for the call.
struct Record {
  const Row* row = nullptr;
  std::span<const TensorArg> tensors;  // lists flattened
  std::span<const uint64_t> words;     // as Node::words
  std::span<const Scalar> scalars;
  std::span<const ResultArg> results;
  bool backward = false;  // recorded by the autograd engine: joins the trace of its inputs and is grouped apart
  uint32_t line = 0;
};

// One flush, for explain().
struct FlushRecord {
  std::string reason;    // why it flushed: "sync", "value read", "budget", …
  std::string compiled;  // why it compiled: "first time", "input 3 changed from [64,1,8,8] to [61,1,8,8]"; empty when the program was cached
  std::string line;      // the Python line that asked
  int64_t operations = 0, arguments = 0, outputs = 0, donated = 0, kernels = 0, library_calls = 0;
  double compile_seconds = 0;
};

// What a GPU's programs may do about numbers.
struct Numerics {
  bool deterministic = false;  // no algorithm is chosen by measuring
  bool tf32 = false;           // f32 products may round their factors to TF32
};

// Event counters and timers by upstream's names.
struct Counters {
  std::map<std::string, int64_t> counts;
  struct Timer {
    int64_t samples = 0;
    double seconds = 0;
  };
  std::map<std::string, Timer> timers;
};

// The process's lazy session over one runtime device. All calls are thread-safe; none takes Python's lock. Errors of failed launches surface as
// thalweg::Error from sync(), read() and record(): the storages have then returned to the state before the failed step.
class Session {
 public:
  static Session& get();
  runtime::Device& device();  // made on first use

  // Records one operation. Results replace the storages' current versions. May flush when the budget is reached.
  void record(const Record& record);

  // Makes `storage` hold `buffer`'s bytes as they will be when work submitted so far is done. exclusive: nobody else will ever look at the buffer.
  void assign(Storage& storage, runtime::BufferPtr buffer, const View& layout, bool exclusive);
  // Copies `bytes` host bytes (row-major elements of `layout`'s memory order) into a new version. Returns when the source may be reused.
  void upload(Storage& storage, const void* source, const View& layout);
  // The same on a GPU from pinned memory, which is read later: it must not change until then.
  void upload_pinned(Storage& storage, std::shared_ptr<char> source, const View& layout);
  // The current bytes as a buffer, flushing what is pending with `reason`; the caller reads them after buffer->wait_written(), which rethrows a failed
  // launch's error (call check() to return to the last good state). An uninitialised storage gets zeroed bytes.
  runtime::BufferPtr materialize(Storage& storage, const char* reason);
  // materialize, then the bytes where the host can read them, as they are now; waits for them. On devices with host memory no copy is made, and the storage's
  // next write may change them.
  std::shared_ptr<const void> read(Storage& storage, const char* reason);
  // Fixes the storage at its device address; from now on every new version is written back there (torch_device.md 4.6: exposed storage).
  void* expose(Storage& storage);
  // For a foreign kernel on the host: like read, but the version is not shared with any other storage or pending operation. Where the device has no host memory
  // the bytes are a copy: upload() puts them back.
  std::shared_ptr<void> write_in_place(Storage& storage);
  // The same for a foreign kernel on the device: a buffer that no other storage or pending operation reads. Everything before has been launched, not waited
  // for, on devices without host memory.
  runtime::BufferPtr own_version(Storage& storage);
  // On GPUs: waits for launches that can fail on their data, and throws what they failed with. Before values leave in stream order.
  void settle_fallible();
  // Puts `fresh` in the place of `old` in the storage's current version, if that is still its buffer: another name of the same bytes, which is never donated.
  void rename(Storage& storage, const runtime::BufferPtr& old, const runtime::BufferPtr& fresh);
  bool is_host_memory();  // whether the host can use the device's addresses
  // Makes `to` the same content as `from` without a copy; a later write to either makes a version of its own.
  void share(Storage& to, Storage& from);
  // Changes the byte size, keeping the common prefix (`resize_`).
  void resize(Storage& storage, size_t bytes);

  // Flushes the calling thread's trace. wait: also until everything launched has completed. Throws the error of a failed earlier launch.
  void sync(const char* reason, bool wait);
  // Waits for all launches; throws the first failure.
  void wait_all();
  // Nothing pending of any thread is kept: used at exit and after fork.
  void abandon();

  // Random numbers: a seed and a running offset, consumed at record time. Returns the offset before adding.
  uint64_t seed() const;
  uint64_t take_offset(uint64_t count);
  void set_rng(uint64_t seed, uint64_t offset);

  // Settings.
  void set_eager(bool on);       // flush after each operation
  void set_budget(int64_t ops);  // operations since the last sync after which a flush is made
  // Called once the device has been made, under the session's lock.
  void set_device_hook(std::function<void(runtime::Device&)> hook);
  // On GPUs: puts what others may do with exposed memory, on streams of their own, into the order of the buffer's uses. Called before we use it, which then
  // waits for what they have queued, and after, so that what they queue next waits for us. Without one the host waits.
  void set_exposed_order(std::function<void(const runtime::BufferPtr&)> order);
  void order_exposed(const runtime::BufferPtr& buffer);
  // Asked at each flush, under the session's lock; must be cheap.
  void set_numerics_source(std::function<Numerics()> source);
  void set_nan_guard(bool on);  // every floating result of a flush is checked; throws NotFinite naming op and line
  // The pending program that computes `wanted` (all that is pending when empty), as StableHLO text; empty when none of it is pending. With the environment
  // variable XLA_SAVE_TENSORS_FILE each program is appended to that file as it is compiled, in this form.
  std::string pending_text(std::span<Storage* const> wanted = {});

  std::vector<FlushRecord> flushes() const;  // the last 1,000
  Counters& counters();                      // guarded by counters_lock()
  std::mutex& counters_lock();
  // Called for the Python line of the flush being made, without any lock of ours held; may be empty.
  void set_line_source(std::function<std::string()> source);

 private:
  // materialize, and waits; on failure everything is settled first.
  runtime::BufferPtr written(Storage& storage, const char* reason);
  friend class Storage;
  Session();
  struct State;
  State* state_;
};

}  // namespace thalweg::lazy
