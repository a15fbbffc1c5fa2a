// A GPU for tests: skipping without one, and a few kernels as PTX text.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>

#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/kernel.h"
#include "runtime/cuda/staging.h"
#include "tests/runtime/conformance.h"

namespace thalweg::runtime::cuda {

// Skips the test on a machine without a GPU.
#define SKIP_WITHOUT_GPU()                                  \
  do {                                                      \
    std::string reason;                                     \
    if (device_count(&reason) == 0) GTEST_SKIP() << reason; \
  } while (0)

// add_one(u64* p); fill_words(u32* p, u32 value, u64 n); count_other(const u32* p, u64 n, u32 want, u32* count); spin(u64 clocks); write_to(u64 address).
inline constexpr char kTestKernels[] = R"(
.version 7.0
.target sm_70
.address_size 64

.visible .entry add_one(.param .u64 p) {
  .reg .u64 %a, %v;
  ld.param.u64 %a, [p];
  ld.global.u64 %v, [%a];
  add.u64 %v, %v, 1;
  st.global.u64 [%a], %v;
  ret;
}

.visible .entry fill_words(.param .u64 p, .param .u32 value, .param .u64 n) {
  .reg .u64 %a, %n, %i, %step, %at;
  .reg .u32 %v, %x, %y, %z;
  .reg .pred %out;
  ld.param.u64 %a, [p];
  ld.param.u32 %v, [value];
  ld.param.u64 %n, [n];
  mov.u32 %x, %ctaid.x;
  mov.u32 %y, %ntid.x;
  mov.u32 %z, %tid.x;
  mad.wide.u32 %i, %x, %y, 0;
  cvt.u64.u32 %step, %z;
  add.u64 %i, %i, %step;
  mov.u32 %x, %nctaid.x;
  mul.wide.u32 %step, %x, %y;
loop:
  setp.ge.u64 %out, %i, %n;
  @%out bra done;
  shl.b64 %at, %i, 2;
  add.u64 %at, %at, %a;
  st.global.u32 [%at], %v;
  add.u64 %i, %i, %step;
  bra loop;
done:
  ret;
}

.visible .entry count_other(.param .u64 p, .param .u64 n, .param .u32 want, .param .u64 count) {
  .reg .u64 %a, %n, %i, %step, %at, %c;
  .reg .u32 %v, %x, %y, %z, %w, %old;
  .reg .pred %out, %same;
  ld.param.u64 %a, [p];
  ld.param.u64 %n, [n];
  ld.param.u32 %w, [want];
  ld.param.u64 %c, [count];
  mov.u32 %x, %ctaid.x;
  mov.u32 %y, %ntid.x;
  mov.u32 %z, %tid.x;
  mad.wide.u32 %i, %x, %y, 0;
  cvt.u64.u32 %step, %z;
  add.u64 %i, %i, %step;
  mov.u32 %x, %nctaid.x;
  mul.wide.u32 %step, %x, %y;
loop:
  setp.ge.u64 %out, %i, %n;
  @%out bra done;
  shl.b64 %at, %i, 2;
  add.u64 %at, %at, %a;
  ld.global.u32 %v, [%at];
  setp.eq.u32 %same, %v, %w;
  @%same bra next;
  atom.global.add.u32 %old, [%c], 1;
next:
  add.u64 %i, %i, %step;
  bra loop;
done:
  ret;
}

.visible .entry spin(.param .u64 clocks) {
  .reg .u64 %n, %start, %now;
  .reg .pred %more;
  ld.param.u64 %n, [clocks];
  mov.u64 %start, %clock64;
loop:
  mov.u64 %now, %clock64;
  sub.u64 %now, %now, %start;
  setp.lt.u64 %more, %now, %n;
  @%more bra loop;
  ret;
}

.visible .entry write_to(.param .u64 address) {
  .reg .u64 %a;
  .reg .u32 %v;
  ld.param.u64 %a, [address];
  mov.u32 %v, 1;
  st.global.u32 [%a], %v;
  ret;
}
)";

// The kernels of kTestKernels on one device.
struct TestKernels {
  explicit TestKernels(Device& device) : module(device, std::span(kTestKernels, sizeof kTestKernels)) {}
  Module module;
  Kernel add_one = module.kernel("add_one"), fill_words = module.kernel("fill_words"), count_other = module.kernel("count_other"), spin = module.kernel("spin"),
         write_to = module.kernel("write_to");
};

inline constexpr LaunchShape kWide{{1024, 1, 1}, {256, 1, 1}, 0};
inline constexpr LaunchShape kSingle{};

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
