// Device memory with stream-ordered lifetime: who may still be using it is derived from submissions, never declared.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <string>

#include "runtime/frontier.h"
#include "support/intrusive.h"

namespace thalweg::runtime {

class Device;
class Stream;
class Buffer;
class Axis;
using BufferPtr = IntrusivePtr<Buffer>;

// Bytes on one device. Dropping the last reference frees them in stream order: the memory is handed out again only to work
// that is ordered after every submission that used it. Any thread may drop it; the drop never blocks and calls no driver.
// Submissions hold no references once run() has returned, so use_count() counts only the host's own.
class Buffer : public Counted<Buffer> {
 public:
  virtual ~Buffer() = default;
  static void destroy(Buffer* buffer);

  // The address: fixed for life, valid for submissions on the device; host code reads it only after wait().
  void* data() const { return data_; }
  size_t size() const { return size_; }
  Device& device() const { return *device_; }

  // A number of this allocation: larger than that of any earlier one of the device. 0 where nobody watches (Backend::wants_accesses).
  uint64_t life() const { return life_; }

  // Blocks the calling host thread until every write submitted so far has completed; rethrows the error of a failed one.
  void wait_written() const;
  // Blocks until every read and write submitted so far has completed, so that the host may write. Rethrows nothing.
  void wait_unused() const;
  // True when every write submitted so far has completed. Never blocks.
  bool is_written() const;
  // True when every read and write submitted so far has completed, and the last write without error. Never blocks.
  bool is_idle() const;
  // The error that wait_written() would rethrow now, null while the last write has not failed (or not completed).
  std::exception_ptr error() const;
  // Declares the contents good although the last write failed (a failed launch leaves donated arguments as they were).
  void clear_error();
  // Counts all that is queued on `axis` by now as a use: for work that touches the buffer without having been submitted with it, such as that of a
  // library which the buffer was lent to.
  void add_use(Axis& axis);
  // Memory that nobody may write: whoever would has to copy it first. Set before the buffer is shared; false at first.
  bool is_read_only() const { return read_only_; }
  void set_read_only() { read_only_ = true; }
  // What the buffer is called in memory reports: the label of the submission that wrote it last, until named by hand. At most 31 bytes are kept.
  void set_label(const char* text);
  std::string label() const;

 protected:
  friend class Submission;
  Buffer(Device& device, void* data, size_t size) : device_(&device), data_(data), size_(size) {}
  struct LastWrite {
    Point point;
    bool written;
  };
  LastWrite last_write() const;
  void note_label(const char* text);

  Device* device_;
  void* data_;
  size_t size_;
  // Guarded by the ordering lock while the buffer is referenced; afterwards, with last_, its death frontier.
  uint64_t life_ = 0;
  Frontier reads_;        // since the last write
  Point last_;            // the last write; before the first one, the point at which the stream got the memory
  bool written_ = false;  // last_ is a write that has not been cleared of its error
  bool named_ = false;    // by set_label
  bool read_only_ = false;
  std::array<std::atomic<uint64_t>, 4> label_{};  // 31 characters; words, so that a report may look while they change
};

}  // namespace thalweg::runtime
