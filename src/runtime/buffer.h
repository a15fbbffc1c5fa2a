// Device memory with stream-ordered lifetime: who may still be using it is derived from submissions, never declared.
#pragma once

#include <cstddef>
#include <functional>

#include "support/intrusive.h"

namespace thalweg::runtime {

class Device;
class Stream;
class Buffer;
using BufferPtr = IntrusivePtr<Buffer>;

// Bytes on one device. Dropping the last reference frees them in stream order: the memory is handed out again only to work
// that is ordered after every submission that used it. Any thread may drop it; the drop never blocks and calls no driver.
class Buffer : public Counted<Buffer> {
 public:
  virtual ~Buffer() = default;
  static void destroy(Buffer* buffer);

  // The address: fixed for life, valid for submissions on the device; host code reads it only after wait().
  void* data() const { return data_; }
  size_t size() const { return size_; }
  Device& device() const { return *device_; }

  // Blocks the calling host thread until every write submitted so far has completed; rethrows the error of a failed one.
  void wait_written() const;
  // Blocks until every read and write submitted so far has completed, so that the host may write.
  void wait_unused() const;
  // Takes back the error that a failed submission left, after the caller made sure that the bytes are good (rollback of a donated buffer that was
  // never overwritten). The buffer must have no unfinished writes.
  void clear_error();
  // True when every write submitted so far has completed. Never blocks.
  bool is_written() const;

 protected:
  friend class Submission;
  Buffer(Device& device, void* data, size_t size) : device_(&device), data_(data), size_(size) {}
  Device* device_;
  void* data_;
  size_t size_;
};

}  // namespace thalweg::runtime
