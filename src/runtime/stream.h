// Streams: in-order queues of work on a device, and the submissions that put work on them.
#pragma once

#include <functional>
#include <vector>

#include "runtime/buffer.h"

namespace thalweg::runtime {

// How an allocation may be satisfied; see memory.md 6.2 for the ladder.
struct AllocFlags {
  bool no_hidden_wait = false;  // never make the stream wait for another one to get memory
  bool no_growth = false;       // only memory that is already reserved
  bool deterministic = false;   // same addresses whatever the timing
};

// What a submission runs. On CPU and sim streams it is called later, on a thread of the stream, in order; on CUDA at once, on the
// submitting thread, with `native` = the CUstream to put the work on. It may throw thalweg::Error: the buffers written by this
// submission then carry the error (Buffer::wait_written rethrows it) and later submissions go on; one that reads a buffer with an error is
// not run, and the buffers it writes carry that same error.
using Work = std::function<void(void* native)>;

// One piece of work and the buffers it touches. The waits that it needs are derived from them and inserted before it.
class Submission {
 public:
  explicit Submission(Stream& stream) : stream_(&stream) {}
  Submission& read(BufferPtr buffer);
  Submission& write(BufferPtr buffer);
  // What the work is called in traces, race reports and errors.
  Submission& label(const char* text);
  // Puts the work on the stream and returns. References to the buffers are held until it has completed (CPU) or is ordered (CUDA).
  void run(Work work);

 private:
  friend class Stream;
  Stream* stream_;
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
  // Memory that the host may write at once through data(): every earlier use of it has completed, whatever the stream. Otherwise as allocate().
  virtual BufferPtr allocate_for_host(size_t bytes) = 0;
  // Blocks the host until everything submitted so far has completed. Errors of submissions are not thrown here: they stay with their buffers.
  virtual void synchronize() = 0;
};

}  // namespace thalweg::runtime
