// Compiled GPU code: modules, their kernels, and launches.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "runtime/cuda/driver.h"
#include "runtime/device.h"

namespace thalweg::runtime::cuda {

// A grid of blocks of threads.
struct LaunchShape {
  unsigned grid[3] = {1, 1, 1};
  unsigned block[3] = {1, 1, 1};
  unsigned shared_bytes = 0;  // dynamic
};

// A function of a module. Valid as long as the module; copied freely; any thread.
class Kernel {
 public:
  Kernel() = default;
  Kernel(FunctionHandle function, Context context) : function_(function), context_(context) {}
  FunctionHandle handle() const { return function_; }
  // Lets launches use up to `bytes` of dynamic shared memory a block; needed above 48 KiB.
  void allow_shared_bytes(int bytes) const;
  // Registers a thread and static shared bytes a block, as compiled.
  int registers() const;
  int static_shared_bytes() const;
  // Blocks of `threads` threads that a multiprocessor runs at once.
  int blocks_per_multiprocessor(int threads, size_t dynamic_shared_bytes) const;

 private:
  FunctionHandle function_ = nullptr;
  Context context_ = nullptr;
};

// Machine code (cubin) or PTX text loaded on one device. Unloaded at its end, which waits for nothing: the owner keeps it while launches are queued.
class Module {
 public:
  // Throws Error(Vendor) with the driver's log when the image cannot be loaded, Error(OutOfMemory) when the GPU has no room.
  // PTX text must end with a zero byte.
  Module(Device& device, std::span<const char> image);
  ~Module();
  Module(const Module&) = delete;
  // Throws Error(Vendor) when there is no such kernel.
  Kernel kernel(const char* name) const;
  // Address and size of a global variable of the code.
  std::pair<DevicePtr, size_t> global(const char* name) const;

 private:
  Context context_;
  ModuleHandle module_ = nullptr;
};

// Puts a launch on `native`, the stream that a submission's work gets. `arguments`: one pointer to each of the kernel's parameters; read before it returns.
// Throws Error(Vendor) with the shape when the driver refuses it.
void launch(const Kernel& kernel, const LaunchShape& shape, void* native, void** arguments);

// The same with the arguments themselves, which must have exactly the types of the kernel's parameters.
template <class... Arguments>
void launch_with(const Kernel& kernel, const LaunchShape& shape, void* native, Arguments... arguments) {
  void* pointers[] = {static_cast<void*>(&arguments)..., nullptr};
  launch(kernel, shape, native, pointers);
}

}  // namespace thalweg::runtime::cuda
