// Kernel text of GPUs run by the CPU: the text is compiled as C++, each thread of a block is a fiber, and shuffles and barriers are places where they meet.
#pragma once

#include <ucontext.h>

#include <bit>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "codegen/cpu/jit.h"
#include "codegen/cuda/kernel_text.h"

namespace thalweg::testing {

// Runs one kernel, block after block. Throws std::runtime_error when its threads wait for each other forever.
class EmulatedGpu {
 public:
  // args: addresses of the kernel's buffers.
  void run(const codegen::cuda::KernelText& kernel, const std::vector<void*>& args) {
    const codegen::cpu::KernelSource source{"emulate", text_of(kernel)};
    fn_ = codegen::cpu::compile({&source, 1})[0];
    args_ = {&machine_};
    args_.insert(args_.end(), args.begin(), args.end());
    for (unsigned block = 0; block < kernel.blocks; ++block) run_block(block, kernel.threads);
  }

 private:
  static constexpr size_t kStack = 256 << 10;

  // What the text knows of the emulator, with the same layout there.
  struct Machine {
    unsigned thread = 0, block = 0;
    unsigned (*shuffle)(unsigned mask, unsigned x, int offset) = nullptr;
    void (*barrier)(unsigned id, unsigned count) = nullptr;
  };
  struct Fiber {
    ucontext_t context;
    std::unique_ptr<char[]> stack = std::make_unique<char[]>(kStack);
    bool done = true;
  };
  struct Meeting {
    unsigned arrived = 0, generation = 0;
    std::map<unsigned, unsigned> values[2];
  };

  static std::string text_of(const codegen::cuda::KernelText& kernel) {
    std::string text = kernel.source.text;
    const std::string from = "asm volatile(\"bar.sync %0, %1;\" ::\"r\"(threadIdx.x / Lanes), \"n\"(Lanes) : \"memory\")";
    const size_t at = text.find(from);
    if (at == std::string::npos) throw std::runtime_error("the barrier's text has changed: " + text);
    text.replace(at, from.size(), "machine->barrier(threadIdx.x / Lanes, Lanes)");
    return "using namespace thalweg::scalar;\n"
           "typedef signed char int8_t; typedef short int16_t; typedef int int32_t; typedef long int64_t;\n"
           "typedef unsigned char uint8_t; typedef unsigned short uint16_t; typedef unsigned int uint32_t; typedef unsigned long uint64_t;\n"
           "struct Machine { unsigned thread, block; unsigned (*shuffle)(unsigned, unsigned, int); void (*barrier)(unsigned, unsigned); };\n"
           "static Machine* machine;\nstruct Place { unsigned x; };\n"
           "#define threadIdx (Place{machine->thread})\n#define blockIdx (Place{machine->block})\n#define __shared__ static\n#define __align__(n) "
           "__attribute__((aligned(n)))\n"
           "#define __global__\n#define __launch_bounds__(n)\n#define __grid_constant__\n"
           "static unsigned __shfl_xor_sync(unsigned mask, unsigned x, int offset) { return machine->shuffle(mask, x, offset); }\n"
           "static void __syncwarp(unsigned mask) { machine->shuffle(mask, 0, 0); }\n" +
           text + "extern \"C\" void emulate(void* const* args, int64_t begin, int64_t end) {\nmachine = (Machine*)args[0];\n" + kernel.source.name +
           "(*(const Args*)(args + 1));\n}\n";
  }

  static EmulatedGpu*& running() {
    static EmulatedGpu* gpu = nullptr;
    return gpu;
  }
  static void start() {
    EmulatedGpu& gpu = *running();
    Fiber& fiber = *gpu.fibers_[gpu.machine_.thread];
    gpu.fn_(gpu.args_.data(), 0, 0);
    fiber.done = true;
    ++gpu.progress_;
    swapcontext(&fiber.context, &gpu.scheduler_);
  }
  void yield() {
    const unsigned thread = machine_.thread;
    swapcontext(&fibers_[thread]->context, &scheduler_);
  }
  // All `count` threads meet at `key`; each leaves `x` and gets what `from` left.
  unsigned meet(uint64_t key, unsigned count, unsigned x, unsigned from) {
    Meeting& meeting = meetings_[key];
    const unsigned generation = meeting.generation, thread = machine_.thread;
    meeting.values[generation & 1][thread] = x;
    ++progress_;
    if (++meeting.arrived == count) {
      meeting.arrived = 0, ++meeting.generation;
    } else {
      while (meetings_[key].generation == generation) yield();
    }
    return meetings_[key].values[generation & 1].at(from);
  }
  static unsigned shuffle(unsigned mask, unsigned x, int offset) {
    EmulatedGpu& gpu = *running();
    const unsigned thread = gpu.machine_.thread;
    return gpu.meet(uint64_t{thread / 32} << 32 | mask, static_cast<unsigned>(std::popcount(mask)), x, thread ^ static_cast<unsigned>(offset));
  }
  static void barrier(unsigned id, unsigned count) {
    EmulatedGpu& gpu = *running();
    if (id >= 16) throw std::runtime_error("a block has 16 barriers");
    gpu.meet(uint64_t{1} << 63 | id, count, 0, gpu.machine_.thread);
  }

  void run_block(unsigned block, unsigned threads) {
    running() = this;
    meetings_.clear();
    machine_ = {0, block, &shuffle, &barrier};
    while (fibers_.size() < threads) fibers_.push_back(std::make_unique<Fiber>());
    for (unsigned t = 0; t < threads; ++t) {
      Fiber& fiber = *fibers_[t];
      fiber.done = false;
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = fiber.stack.get();
      fiber.context.uc_stack.ss_size = kStack;
      fiber.context.uc_link = nullptr;
      makecontext(&fiber.context, &EmulatedGpu::start, 0);
    }
    for (bool any = true; any;) {
      any = false;
      const uint64_t before = progress_;
      // In turn from either end, so that no order of threads is taken for granted.
      backwards_ = !backwards_;
      for (unsigned i = 0; i < threads; ++i) {
        const unsigned t = backwards_ ? threads - 1 - i : i;
        if (fibers_[t]->done) continue;
        any = true;
        machine_.thread = t;
        swapcontext(&scheduler_, &fibers_[t]->context);
      }
      if (any && progress_ == before) throw std::runtime_error("the threads of a block wait for each other forever");
    }
  }

  Machine machine_;
  codegen::cpu::KernelFn fn_ = nullptr;
  std::vector<void*> args_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::map<uint64_t, Meeting> meetings_;
  ucontext_t scheduler_;
  uint64_t progress_ = 0;
  bool backwards_ = false;
};

}  // namespace thalweg::testing
