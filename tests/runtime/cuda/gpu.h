// The GPU of the common suite: what it puts on streams there, and how the host reaches the memory.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>

#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/staging.h"
#include "tests/runtime/conformance.h"
#include "tests/runtime/cuda/skip_without_gpu.h"
#include "tests/runtime/cuda/test_kernels.h"

namespace thalweg::runtime::cuda {

// What the common suite puts on CUDA streams.
class GpuWork final : public conformance::HostWork {
 public:
  explicit GpuWork(Device& device) : device_(device), kernels_(device) {
    ContextScope scope(context(device_));
    check(driver().stream_create(&stream_, kStreamNonBlocking, 0), "create a stream");
  }
  ~GpuWork() override {
    ContextScope scope(context(device_));
    driver().stream_destroy(stream_);
  }
  void fill(void* native, void* to, unsigned char value, size_t bytes) override {
    check(driver().fill_bytes(address(to), value, bytes, static_cast<StreamHandle>(native)), "fill memory");
  }
  void copy(void* native, const void* from, void* to, size_t bytes) override {
    check(driver().copy(address(to), address(from), bytes, static_cast<StreamHandle>(native)), "copy memory");
  }
  void add_one(void* native, void* counter) override { launch_with(kernels_.add_one, kSingle, native, address(counter)); }
  void wait_for(void* native, const std::shared_ptr<std::atomic<uint32_t>>& open) override {
    check(driver().stream_wait_value(static_cast<StreamHandle>(native), address(open.get()), 1, kWaitValueGeq), "make a stream wait for a value");
  }
  void read(const void* from, void* to, size_t bytes) override {
    ContextScope scope(context(device_));
    std::shared_ptr<char> pinned = pinned_memory(device_, bytes);
    copy(stream_, from, pinned.get(), bytes);
    check(driver().stream_synchronize(stream_), "wait for a stream");
    std::memcpy(to, pinned.get(), bytes);
  }
  void write(void* to, unsigned char value, size_t bytes) override {
    ContextScope scope(context(device_));
    fill(stream_, to, value, bytes);
    check(driver().stream_synchronize(stream_), "wait for a stream");
  }
  std::shared_ptr<unsigned char> shared_memory(size_t bytes) override {
    std::shared_ptr<char> memory = pinned_memory(device_, bytes);
    return {memory, reinterpret_cast<unsigned char*>(memory.get())};
  }

 private:
  static DevicePtr address(const void* at) { return reinterpret_cast<DevicePtr>(at); }
  Device& device_;
  TestKernels kernels_;
  StreamHandle stream_ = nullptr;
};

}  // namespace thalweg::runtime::cuda
