// Devices: the backends' common interface, and memory accounting.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/stream.h"

namespace thalweg::runtime {

// Bytes, now and at most since reset_peak().
struct MemoryInfo {
  size_t live = 0;       // in buffers that are referenced
  size_t pending = 0;    // freed, still in use by queued work
  size_t cached = 0;     // reserved from the system, free for reuse
  size_t reserved = 0;   // live + pending + cached
  size_t adopted = 0;    // memory of others in buffers of ours (imports, results of other libraries): counts against the limit, not as reserved
  size_t peak_live = 0;  // of live and adopted together
  size_t limit = 0;      // see set_memory_limit; 0: none but the system's
};

// How often each way of getting memory was taken, since the device was made.
struct MemoryCounts {
  uint64_t own = 0;              // from the stream's own lists, used on that stream alone
  uint64_t foreign = 0;          // from them, other streams' use was seen to have finished
  uint64_t ordered = 0;          // from them, the stream was already ordered after other streams' use
  uint64_t heap = 0;             // cut from free memory of the device
  uint64_t fresh = 0;            // memory from the system
  uint64_t hidden_waits = 0;     // the stream was made to wait for another one
  uint64_t host_waits = 0;       // the host waited for queued work
  uint64_t trims = 0;            // cached memory was given back to make room
  uint64_t failures = 0;         // OutOfMemory was raised
  uint64_t system_calls = 0;     // commits and decommits of memory
  uint64_t failed_releases = 0;  // release functions of wrapped memory that threw
};

// A piece of a device's reserved memory, or memory of others in a buffer of ours.
struct MemoryBlock {
  uintptr_t address = 0;
  size_t bytes = 0, requested = 0;
  bool live = false;     // in a referenced buffer
  bool pending = false;  // freed, still in use by queued work
  std::string stream;    // that it was allocated on; "adopted": memory of others
  std::string label;     // of its buffer
};

// Which thread calls the release function of wrapped memory.
enum class ReleaseOn {
  AnyThread,  // the one that drops the last reference, or one of the device's own
  OwnThread,  // always one of the device's own: for functions that wait for locks of others, such as Python's, since whoever drops may hold locks
};

// One device of a backend (cpu, sim, cuda).
class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;  // "CPU:0", "CUDA:1"
  virtual int ordinal() const = 0;
  // The stream that compiled programs run on, and the one host-to-device copies land on. Live as long as the device.
  virtual Stream& compute_stream() = 0;
  virtual Stream& copy_stream() = 0;
  virtual std::unique_ptr<Stream> make_stream(std::string name) = 0;
  // Wraps memory of somebody else; `release` is called exactly once, with no lock held, when nothing of ours uses it any more.
  virtual BufferPtr wrap(void* data, size_t bytes, std::function<void()> release, ReleaseOn where = ReleaseOn::AnyThread) = 0;
  virtual MemoryInfo memory() const = 0;
  virtual MemoryCounts memory_counts() const = 0;
  // Who holds what, as text: totals, then the labels (of buffers, see Buffer::label) with most bytes.
  virtual std::string memory_report() const = 0;
  // All reserved and adopted memory, by address; what several buffers have adopted, once.
  virtual std::vector<MemoryBlock> memory_blocks() const = 0;
  virtual void reset_peak() = 0;
  // Allocations beyond `bytes` live and adopted raise OutOfMemory (0: no limit). Reserved memory is kept below it as well where waiting for queued work and
  // giving cached memory back can do so.
  virtual void set_memory_limit(size_t bytes) = 0;
  // Gives cached memory that nothing uses back to the system; returns the bytes given back.
  virtual size_t trim() = 0;
  virtual void synchronize() = 0;
};

}  // namespace thalweg::runtime
