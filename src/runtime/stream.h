// Streams: in-order queues of work on a device, and the submissions that put work on them.
#pragma once

#include <exception>
#include <functional>
#include <source_location>
#include <vector>

#include "runtime/buffer.h"

namespace thalweg::runtime {

class Axis;
struct Access;

// How an allocation may be satisfied.
struct AllocFlags {
  bool no_hidden_wait = false;  // never make the stream, or the host, wait for another stream to get memory
  bool no_growth = false;       // only memory that is already reserved
  bool deterministic = false;   // same addresses whatever the timing
  // In a range of its own, at the offset that follows from the device's symmetric allocations and frees so far and from nothing else: ranks that make the same
  // ones have the same offsets, as communication windows want. The stream waits for whoever used the memory before; with no_hidden_wait, Error(OutOfMemory).
  bool symmetric = false;
};

// What a submission runs. On CPU and sim streams it is called later, on a thread of the stream, in order; on CUDA at once, on the
// submitting thread, with `native` = the CUstream to put the work on. It may throw thalweg::Error: the buffers written by this
// submission then carry the error (Buffer::wait_written rethrows it) and later submissions go on; one that reads a buffer with an error is
// not run, and the buffers it writes carry that same error.
// It may use the submission's buffers by address, without holding references: a reference in the work would keep the memory past its stream order.
using Work = std::function<void(void* native)>;

// One piece of work and the buffers it touches. The waits that it needs are derived from them and inserted before it.
class Submission {
 public:
  explicit Submission(Stream& stream, std::source_location site = std::source_location::current()) : stream_(&stream), site_(site) {}
  Submission& read(BufferPtr buffer);
  Submission& write(BufferPtr buffer);
  // What the work is called in traces, race reports and errors. The text must live as long as the device.
  Submission& label(const char* text);
  // Puts the work on the stream and returns; it is ordered after all earlier submissions that it conflicts with. References to the buffers are dropped on
  // return: their memory stays as it is until the work has completed, whoever frees it.
  void run(Work work);

 private:
  friend class DeviceStream;
  // The points that work on `axis` with these buffers must wait for. Under the ordering lock.
  void add_waits(Axis& axis, Frontier& waits) const;
  // Notes the uses by `point` in the buffers. Under the ordering lock.
  void record_uses(Point point) const;
  std::vector<Access> accesses() const;
  // The writes that made what is read here. Under the ordering lock.
  void add_sources(std::vector<Point>& sources) const;

  Stream* stream_;
  std::source_location site_;  // for race reports
  const char* label_ = "";
  std::vector<BufferPtr> reads_, writes_;
};

// An in-order queue of work. Thread-safe: submissions of several threads are ordered as their run() calls return.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual Device& device() const = 0;
  // Memory first used on this stream. Throws Error(OutOfMemory) with a report when the ladder is exhausted; the process stays usable.
  // `bytes` 0 gives a valid empty buffer. Contents are undefined. Alignment is at least 64 bytes (256 on CUDA).
  virtual BufferPtr allocate(size_t bytes, AllocFlags flags = {}) = 0;
  // Memory that the host may write at once through data(): every earlier use of it, on any stream, has completed. Otherwise as allocate().
  virtual BufferPtr allocate_for_host(size_t bytes) {
    BufferPtr buffer = allocate(bytes);
    buffer->wait_unused();
    return buffer;
  }
  // Blocks the host until everything submitted so far has completed. Errors of submissions are not thrown here: they stay with their buffers.
  virtual void synchronize() = 0;
  // Counts what others have put on the stream past us by now as submitted: for streams of somebody else that a backend has wrapped. Throws
  // Error(Device) while such a stream is capturing a graph.
  virtual void mark() {}
  // The system's handle of the stream, as work gets it; null where there is none.
  virtual void* native() const { return nullptr; }
  // The stream's timeline; lives for ever.
  virtual Axis& axis() = 0;
  // The error of the first submission that failed since the last call, null when none did. Only of completed work.
  virtual std::exception_ptr take_error() = 0;

 protected:
  friend class Submission;
  virtual void submit(const Submission& submission, Work work) = 0;
};

}  // namespace thalweg::runtime
