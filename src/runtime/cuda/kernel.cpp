// Loading modules and launching kernels.
#include "runtime/cuda/kernel.h"

#include <array>

#include "runtime/cuda/cuda_device.h"
#include "support/error.h"

namespace thalweg::runtime::cuda {
namespace {

constexpr int kInfoLog = 3, kInfoLogBytes = 4, kErrorLog = 5, kErrorLogBytes = 6;  // options of loading

}  // namespace

void Kernel::allow_shared_bytes(int bytes) const {
  ContextScope scope(context_);
  Result result = driver().function_set_attribute(function_, kFunctionMaxDynamicShared, bytes);
  THALWEG_CHECK(result == kSuccess, Vendor, "a kernel cannot have so much shared memory a block: ", bytes, " bytes (", error_text(result),
                "); use smaller tiles");
}

int Kernel::registers() const {
  ContextScope scope(context_);
  int value = 0;
  check(driver().function_attribute(&value, kFunctionRegisters, function_), "read an attribute of a kernel");
  return value;
}

int Kernel::static_shared_bytes() const {
  ContextScope scope(context_);
  int value = 0;
  check(driver().function_attribute(&value, kFunctionSharedBytes, function_), "read an attribute of a kernel");
  return value;
}

int Kernel::blocks_per_multiprocessor(int threads, size_t dynamic_shared_bytes) const {
  ContextScope scope(context_);
  int blocks = 0;
  check(driver().occupancy(&blocks, function_, threads, dynamic_shared_bytes), "read the occupancy of a kernel");
  return blocks;
}

Module::Module(Device& device, std::span<const char> image) : context_(context(device)) {
  ContextScope scope(context_);
  CaptureExempt exempt;
  std::array<char, 8192> log{};
  int options[] = {kErrorLog, kErrorLogBytes};
  void* values[] = {log.data(), reinterpret_cast<void*>(log.size() - 1)};
  Result result = driver().module_load(&module_, image.data(), 2, options, values);
  if (result == kErrorOutOfMemory) check(result, "load code on a GPU");
  THALWEG_CHECK(result == kSuccess, Vendor, "the CUDA driver failed to load code of ", image.size(), " bytes: ", error_text(result), "\n", log.data());
}

Module::~Module() {
  if (is_forked()) return;
  ContextScope scope(context_);
  CaptureExempt exempt;
  driver().module_unload(module_);
}

Kernel Module::kernel(const char* name) const {
  ContextScope scope(context_);
  FunctionHandle function = nullptr;
  Result result = driver().module_function(&function, module_, name);
  THALWEG_CHECK(result == kSuccess, Vendor, "the code has no kernel of this name: ", name, " (", error_text(result), ")");
  return Kernel(function, context_);
}

std::pair<DevicePtr, size_t> Module::global(const char* name) const {
  ContextScope scope(context_);
  DevicePtr address = 0;
  size_t bytes = 0;
  Result result = driver().module_global(&address, &bytes, module_, name);
  THALWEG_CHECK(result == kSuccess, Vendor, "the code has no variable of this name: ", name, " (", error_text(result), ")");
  return {address, bytes};
}

void launch(const Kernel& kernel, const LaunchShape& shape, void* native, void** arguments) {
  Result result = driver().launch(kernel.handle(), shape.grid[0], shape.grid[1], shape.grid[2], shape.block[0], shape.block[1], shape.block[2],
                                  shape.shared_bytes, static_cast<StreamHandle>(native), arguments, nullptr);
  if (result == kSuccess) [[likely]]
    return;
  raise(ErrorKind::Vendor, "the CUDA driver refused a launch of ", shape.grid[0], "x", shape.grid[1], "x", shape.grid[2], " blocks of ", shape.block[0], "x",
        shape.block[1], "x", shape.block[2], " threads with ", shape.shared_bytes, " bytes of shared memory: ", error_text(result));
}

}  // namespace thalweg::runtime::cuda
