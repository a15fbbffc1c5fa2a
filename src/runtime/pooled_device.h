// Device and Stream over a Backend: what is common to every kind of device.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "runtime/backend.h"
#include "runtime/debug_modes.h"
#include "runtime/device.h"
#include "runtime/pool.h"

namespace thalweg::runtime {

class PooledDevice;

// A stream of a PooledDevice: a timeline, its queue and its lane. Its end waits for its work.
class DeviceStream final : public Stream {
 public:
  using MakeQueue = std::function<std::unique_ptr<Queue>(Axis& axis)>;
  DeviceStream(PooledDevice& device, std::string name, const MakeQueue& make_queue);
  ~DeviceStream() override;

  Device& device() const override;
  BufferPtr allocate(size_t bytes, AllocFlags flags) override {
    if (guarded_) [[unlikely]]
      return allocate_guarded(bytes, flags);
    return pool_.allocate(*lane_, bytes, flags);
  }
  void synchronize() override;
  std::exception_ptr take_error() override { return axis_.take_error(); }
  // Puts `work` on the stream after `waits`, without buffers; returns its point.
  Point submit_after(const Frontier& waits, const char* label, Work work);
  Axis& axis() override { return axis_; }
  void mark() override;
  void* native() const override { return queue_->native(); }
  // Throws Error(Device) when the stream takes no work for the moment.
  void check_usable() const { queue_->check_usable(); }

 protected:
  void submit(const Submission& submission, Work work) override;

 private:
  void pace();
  void delay();
  BufferPtr allocate_guarded(size_t bytes, AllocFlags flags);

  PooledDevice& device_;
  Pool& pool_;
  const bool guarded_;  // by a debug mode
  Axis& axis_;
  std::unique_ptr<Queue> queue_;
  Lane* lane_;
};

// A device of any backend. All buffers and made streams must be gone before it is destroyed.
class PooledDevice final : public Device {
 public:
  PooledDevice(std::unique_ptr<Backend> backend, std::string name, int ordinal, const DebugModes& modes);
  ~PooledDevice() override;

  std::string name() const override { return name_; }
  int ordinal() const override { return ordinal_; }
  Stream& compute_stream() override { return *compute_; }
  Stream& copy_stream() override { return *copy_; }
  std::unique_ptr<Stream> make_stream(std::string name) override;
  // A stream over a queue of the caller's making.
  std::unique_ptr<Stream> make_stream(std::string name, const DeviceStream::MakeQueue& make_queue);
  BufferPtr wrap(void* data, size_t bytes, std::function<void()> release, ReleaseOn where = ReleaseOn::AnyThread) override {
    return pool_->wrap(data, bytes, std::move(release), where);
  }
  MemoryInfo memory() const override { return pool_->info(); }
  MemoryCounts memory_counts() const override { return pool_->counts(); }
  std::string memory_report() const override { return pool_->report(); }
  std::vector<MemoryBlock> memory_blocks() const override { return pool_->blocks(); }
  void reset_peak() override { pool_->reset_peak(); }
  void set_memory_limit(size_t bytes) override { pool_->set_limit(bytes); }
  size_t trim() override { return pool_->trim(); }
  void synchronize() override;

  // When memory has run out and all of ours has been tried, `relief` is called without any lock: true when others have given memory back.
  void set_memory_relief(std::function<bool(size_t bytes)> relief) { pool_->set_relief(std::move(relief)); }

  // Guest mode: from now on memory comes in slabs from another allocator of the process, and goes back there with trim() and before an allocation would fail.
  // Before the first allocation.
  void set_lender(SlabLender lender) { pool_->set_lender(std::move(lender)); }
  // Where symmetric addresses count from (AllocFlags::symmetric); null before the first such allocation.
  char* symmetric_base() { return pool_->symmetric_base(); }

  Backend& backend() { return *backend_; }
  Pool& pool() { return *pool_; }
  // How many submissions of a stream may be under way before the next one waits for half of them.
  void set_run_ahead(uint64_t submissions) { run_ahead_.store(submissions); }
  uint64_t run_ahead() const { return run_ahead_.load(std::memory_order_relaxed); }
  // What the debug mode `redzone` has found.
  std::vector<std::string> guard_reports() const { return guards_.reports(); }
  // The timelines of this device's streams. Under the ordering lock.
  const std::vector<Axis*>& axes() const { return axes_; }

 private:
  friend class DeviceStream;
  void poison(Block& block);
  void check_guard(Block& block);

  std::unique_ptr<Backend> backend_;
  const std::string name_;
  const int ordinal_;
  const DebugModes modes_;
  std::mt19937_64 delays_;  // under the ordering lock
  std::atomic<uint64_t> run_ahead_{4096};
  GuardLog guards_;
  std::unique_ptr<Pool> pool_;
  std::vector<Axis*> axes_;                                         // of open streams; under the ordering lock
  std::vector<std::pair<Axis*, std::unique_ptr<Queue>>> outlived_;  // of streams that ended in somebody's capture; under the ordering lock
  // The third runs release functions of wrapped memory, on the host, once its users have finished; the last one, made in debug modes, fills freed memory.
  std::unique_ptr<DeviceStream> compute_, copy_, release_, fill_;
};

}  // namespace thalweg::runtime
