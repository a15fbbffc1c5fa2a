// The few types of the CUDA driver's interface that Thalweg uses, declared here so that no CUDA header is needed to build.
#pragma once

#include <cstddef>
#include <cstdint>

namespace thalweg::runtime::cuda {

using Result = int;  // CUresult
using DeviceHandle = int;
using DevicePtr = unsigned long long;  // CUdeviceptr
using MemoryHandle = unsigned long long;

// Objects of the driver: only ever pointed to.
using Context = struct ContextObject*;
using StreamHandle = struct StreamObject*;
using EventHandle = struct EventObject*;
using ModuleHandle = struct ModuleObject*;
using FunctionHandle = struct FunctionObject*;
using GraphHandle = struct GraphObject*;
using GraphExecHandle = struct GraphExecObject*;

// Results that the runtime tells apart.
inline constexpr Result kSuccess = 0;
inline constexpr Result kErrorOutOfMemory = 2;
inline constexpr Result kErrorDeinitialized = 4;
inline constexpr Result kErrorNoDevice = 100;
inline constexpr Result kErrorNotReady = 600;

// Attributes of a device.
inline constexpr int kMaxThreadsPerBlock = 1;
inline constexpr int kMultiprocessors = 16;
inline constexpr int kL2Bytes = 38;
inline constexpr int kComputeMajor = 75;
inline constexpr int kComputeMinor = 76;
inline constexpr int kSharedBytesPerBlockOptin = 97;
inline constexpr int kVmmSupported = 102;

// Attributes of a function.
inline constexpr int kFunctionSharedBytes = 1;
inline constexpr int kFunctionRegisters = 4;
inline constexpr int kFunctionMaxDynamicShared = 8;

inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kHostPortable = 1;
inline constexpr unsigned kWaitValueGeq = 0;
inline constexpr int kCaptureGlobal = 0;
inline constexpr int kCaptureThreadLocal = 1;
inline constexpr int kCaptureRelaxed = 2;
inline constexpr int kMemoryPinned = 1;
inline constexpr int kLocationDevice = 1;
inline constexpr int kAccessReadWrite = 3;
inline constexpr int kGranularityMinimum = 0;
inline constexpr int kPointerContext = 1;     // attributes of a pointer
inline constexpr int kPointerMemoryType = 2;  // 1: host, 2: device
inline constexpr int kPointerDeviceOrdinal = 9;

// CUmemLocation.
struct MemoryLocation {
  int type;
  int id;
};

// CUmemAllocationProp.
struct MemoryProperties {
  int type;
  int handle_types;
  MemoryLocation location;
  void* win32;
  unsigned char compression, rdma;
  unsigned short usage;
  unsigned char reserved[4];
};

// CUmemAccessDesc.
struct MemoryAccess {
  MemoryLocation location;
  int flags;
};

}  // namespace thalweg::runtime::cuda
