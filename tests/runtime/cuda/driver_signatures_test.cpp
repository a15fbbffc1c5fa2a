// Our declarations of the driver against NVIDIA's header, on machines that have it: every parameter has the same size and kind.
#if __has_include(<cuda.h>)
#include <cuda.h>

#include <cstddef>
#include <tuple>
#include <type_traits>

#include "runtime/cuda/driver.h"

namespace thalweg::runtime::cuda {
namespace {

template <class Ours, class Theirs>
constexpr bool same_kind() {
  return sizeof(Ours) == sizeof(Theirs) && std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>;
}

template <class... Ours, class... Theirs>
constexpr bool same(Result (*)(Ours...), CUresult (*)(Theirs...)) {
  if constexpr (sizeof...(Ours) != sizeof...(Theirs)) {
    return false;
  } else {
    return (same_kind<Ours, Theirs>() && ...);
  }
}

#define SAME(name, theirs) static_assert(same(decltype(Driver::name){}, static_cast<decltype(&::theirs)>(nullptr)), #name)
SAME(init, cuInit);
SAME(device_name, cuDeviceGetName);
SAME(device_attribute, cuDeviceGetAttribute);
SAME(device_memory, cuDeviceTotalMem);
SAME(primary_retain, cuDevicePrimaryCtxRetain);
SAME(context_push, cuCtxPushCurrent);
SAME(context_pop, cuCtxPopCurrent);
SAME(enable_peer, cuCtxEnablePeerAccess);
SAME(can_access_peer, cuDeviceCanAccessPeer);
SAME(stream_create, cuStreamCreateWithPriority);
SAME(stream_id, cuStreamGetId);
SAME(stream_context, cuStreamGetCtx);
SAME(stream_wait_event, cuStreamWaitEvent);
SAME(stream_wait_value, cuStreamWaitValue32);
SAME(stream_is_capturing, cuStreamIsCapturing);
SAME(exchange_capture_mode, cuThreadExchangeStreamCaptureMode);
SAME(event_create, cuEventCreate);
SAME(event_record, cuEventRecord);
SAME(memory_info, cuMemGetInfo);
SAME(address_reserve, cuMemAddressReserve);
SAME(address_free, cuMemAddressFree);
SAME(memory_create, cuMemCreate);
SAME(memory_map, cuMemMap);
SAME(memory_unmap, cuMemUnmap);
SAME(memory_set_access, cuMemSetAccess);
SAME(memory_granularity, cuMemGetAllocationGranularity);
SAME(host_alloc, cuMemHostAlloc);
SAME(allocate_async, cuMemAllocAsync);
SAME(free_async, cuMemFreeAsync);
SAME(default_pool, cuDeviceGetDefaultMemPool);
SAME(pool_set_attribute, cuMemPoolSetAttribute);
SAME(pointer_attribute, cuPointerGetAttribute);
SAME(copy, cuMemcpyAsync);
SAME(copy_to_device, cuMemcpyHtoDAsync);
SAME(copy_to_host, cuMemcpyDtoHAsync);
SAME(fill_bytes, cuMemsetD8Async);
SAME(launch_host, cuLaunchHostFunc);
SAME(module_load, cuModuleLoadDataEx);
SAME(module_function, cuModuleGetFunction);
SAME(module_global, cuModuleGetGlobal);
SAME(function_attribute, cuFuncGetAttribute);
SAME(function_set_attribute, cuFuncSetAttribute);
SAME(occupancy, cuOccupancyMaxActiveBlocksPerMultiprocessor);
SAME(launch, cuLaunchKernel);
SAME(capture_begin, cuStreamBeginCapture);
SAME(capture_end, cuStreamEndCapture);
SAME(graph_instantiate, cuGraphInstantiateWithFlags);
SAME(graph_launch, cuGraphLaunch);
#undef SAME

static_assert(sizeof(MemoryProperties) == sizeof(CUmemAllocationProp));
static_assert(offsetof(MemoryProperties, location) == offsetof(CUmemAllocationProp, location));
static_assert(sizeof(MemoryAccess) == sizeof(CUmemAccessDesc));
static_assert(kErrorOutOfMemory == CUDA_ERROR_OUT_OF_MEMORY && kErrorDeinitialized == CUDA_ERROR_DEINITIALIZED && kErrorNotReady == CUDA_ERROR_NOT_READY &&
              kErrorNoDevice == CUDA_ERROR_NO_DEVICE);
static_assert(kMaxThreadsPerBlock == CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK && kMultiprocessors == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT &&
              kL2Bytes == CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE && kComputeMajor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR &&
              kComputeMinor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR && kVmmSupported == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED &&
              kSharedBytesPerBlockOptin == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
static_assert(kFunctionSharedBytes == CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES && kFunctionRegisters == CU_FUNC_ATTRIBUTE_NUM_REGS &&
              kFunctionMaxDynamicShared == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
static_assert(kStreamNonBlocking == CU_STREAM_NON_BLOCKING && kEventDisableTiming == CU_EVENT_DISABLE_TIMING && kHostPortable == CU_MEMHOSTALLOC_PORTABLE &&
              kWaitValueGeq == CU_STREAM_WAIT_VALUE_GEQ);
static_assert(kCaptureGlobal == CU_STREAM_CAPTURE_MODE_GLOBAL && kCaptureThreadLocal == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL &&
              kCaptureRelaxed == CU_STREAM_CAPTURE_MODE_RELAXED);
static_assert(kMemoryPinned == CU_MEM_ALLOCATION_TYPE_PINNED && kLocationDevice == CU_MEM_LOCATION_TYPE_DEVICE &&
              kAccessReadWrite == CU_MEM_ACCESS_FLAGS_PROT_READWRITE && kGranularityMinimum == CU_MEM_ALLOC_GRANULARITY_MINIMUM);
static_assert(kPointerContext == CU_POINTER_ATTRIBUTE_CONTEXT && kPointerMemoryType == CU_POINTER_ATTRIBUTE_MEMORY_TYPE &&
              kPointerDeviceOrdinal == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);

}  // namespace
}  // namespace thalweg::runtime::cuda
#endif
