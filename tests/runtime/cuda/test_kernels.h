// A few kernels as PTX text, which the driver compiles: for tests and benchmarks.
#pragma once

#include <span>

#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/kernel.h"

namespace thalweg::runtime::cuda {

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

}  // namespace thalweg::runtime::cuda
