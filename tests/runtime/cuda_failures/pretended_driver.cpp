// What the pretended driver's functions do.
#include "tests/runtime/cuda_failures/pretended_driver.h"

#include <sys/mman.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

namespace thalweg::runtime::cuda {
namespace {

constexpr size_t kBytes = size_t{512} << 20, kPage = size_t{2} << 20, kLargestRange = size_t{1} << 36;

std::atomic<int> left{0}, objects{0};
std::atomic<Result> failure{kSuccess};
std::atomic<const char*> failed{""};
std::atomic<size_t> used{0};
Requests requests;  // made by one thread at a time
std::atomic<bool> capturing{false};
thread_local Context current = nullptr;
std::atomic<uintptr_t> handles{64};

// Whether this call is the one that fails.
Result step(const char* symbol) {
  if (left.load() == 0 || left.fetch_sub(1) != 1) return kSuccess;
  failed = symbol;
  return failure.load();
}

// For how many more queries an event says that it is not ready.
std::mutex events_lock;
std::map<EventHandle, int> not_ready;

void* host(DevicePtr address) { return reinterpret_cast<void*>(address); }

// Each function that does something; the rest only succeed or fail.
void fill_in(Driver& table) {
  table.error_name = [](Result, const char** text) -> Result { return *text = "PRETENDED_ERROR", kSuccess; };
  table.error_string = [](Result, const char** text) -> Result { return *text = "made to fail", kSuccess; };
  table.device_count = [](int* count) -> Result { return *count = 1, kSuccess; };
  table.device_get = [](DeviceHandle* device, int) -> Result { return *device = 0, kSuccess; };
  table.device_name = [](char* name, int, DeviceHandle) -> Result { return std::strcpy(name, "pretended"), kSuccess; };
  table.device_attribute = [](int* value, int, DeviceHandle) -> Result { return *value = 9, kSuccess; };
  table.device_memory = [](size_t* bytes, DeviceHandle) -> Result { return *bytes = kBytes, kSuccess; };
  table.primary_retain = [](Context* context, DeviceHandle) -> Result { return *context = reinterpret_cast<Context>(8), kSuccess; };
  table.context_current = [](Context* context) -> Result { return *context = current, kSuccess; };
  table.context_push = [](Context context) -> Result { return current = context, kSuccess; };
  table.context_pop = [](Context* context) -> Result { return *context = current, current = nullptr, kSuccess; };
  table.exchange_capture_mode = [](int*) -> Result { return kSuccess; };
  table.can_access_peer = [](int* can, DeviceHandle, DeviceHandle) -> Result { return *can = 0, kSuccess; };
  table.memory_info = [](size_t* free, size_t* total) -> Result { return *free = kBytes - used + (size_t{128} << 20), *total = kBytes, kSuccess; };
  table.memory_granularity = [](size_t* bytes, const MemoryProperties*, int) -> Result { return *bytes = kPage, kSuccess; };

  table.stream_create = [](StreamHandle* stream, unsigned flags, int priority) -> Result {
    if (Result result = step("cuStreamCreateWithPriority")) return result;
    requests.streams += 1;
    requests.blocking_streams += flags != kStreamNonBlocking;
    requests.streams_with_priority += priority != 0;
    ++objects;
    return *stream = reinterpret_cast<StreamHandle>(++handles), kSuccess;
  };
  table.stream_destroy = [](StreamHandle) -> Result { return --objects, kSuccess; };
  table.stream_is_capturing = [](StreamHandle, int* status) -> Result { return *status = capturing, kSuccess; };
  table.stream_context = [](StreamHandle, Context* context) -> Result { return *context = reinterpret_cast<Context>(8), kSuccess; };
  table.event_create = [](EventHandle* event, unsigned) -> Result {
    if (Result result = step("cuEventCreate")) return result;
    ++objects;
    return *event = reinterpret_cast<EventHandle>(++handles), kSuccess;
  };
  table.event_destroy = [](EventHandle) -> Result { return --objects, kSuccess; };
  table.event_record = [](EventHandle event, StreamHandle) -> Result {
    if (Result result = step("cuEventRecord")) return result;
    std::lock_guard guard(events_lock);
    not_ready[event] = static_cast<int>(handles.load() % 4);
    return kSuccess;
  };
  table.event_query = [](EventHandle event) -> Result {
    if (Result result = step("cuEventQuery")) return result;
    std::lock_guard guard(events_lock);
    return not_ready[event]-- > 0 ? kErrorNotReady : kSuccess;
  };
  table.event_synchronize = [](EventHandle event) -> Result {
    if (Result result = step("cuEventSynchronize")) return result;
    std::lock_guard guard(events_lock);
    return not_ready[event] = 0, kSuccess;
  };

  table.address_reserve = [](DevicePtr* base, size_t bytes, size_t, DevicePtr, unsigned long long) -> Result {
    if (Result result = step("cuMemAddressReserve")) return result;
    if (bytes > kLargestRange) return kErrorOutOfMemory;
    void* range = mmap(nullptr, bytes + kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) return kErrorOutOfMemory;
    return *base = (reinterpret_cast<DevicePtr>(range) + kPage - 1) / kPage * kPage, kSuccess;
  };
  table.address_free = [](DevicePtr base, size_t bytes) -> Result { return munmap(host(base), bytes), kSuccess; };
  table.memory_create = [](MemoryHandle* handle, size_t bytes, const MemoryProperties* properties, unsigned long long) -> Result {
    if (Result result = step("cuMemCreate")) return result;
    requests.memories += 1;
    requests.shareable_memories += properties->handle_types != 0;
    if (used + bytes > kBytes) return kErrorOutOfMemory;
    used += bytes;
    return *handle = bytes, kSuccess;
  };
  table.memory_release = [](MemoryHandle handle) -> Result { return used -= handle, kSuccess; };
  table.memory_set_access = [](DevicePtr base, size_t bytes, const MemoryAccess*, size_t) -> Result {
    if (Result result = step("cuMemSetAccess")) return result;
    return mprotect(host(base), bytes, PROT_READ | PROT_WRITE), kSuccess;
  };
  table.memory_unmap = [](DevicePtr base, size_t bytes) -> Result {
    madvise(host(base), bytes, MADV_DONTNEED);
    return mprotect(host(base), bytes, PROT_NONE), kSuccess;
  };
  table.host_alloc = [](void** memory, size_t bytes, unsigned) -> Result {
    if (Result result = step("cuMemHostAlloc")) return result;
    return *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256), kSuccess;
  };
  table.host_free = [](void* memory) -> Result { return std::free(memory), kSuccess; };
  table.copy = [](DevicePtr to, DevicePtr from, size_t bytes, StreamHandle) -> Result {
    if (Result result = step("cuMemcpyAsync")) return result;
    return std::memcpy(host(to), host(from), bytes), kSuccess;
  };
  table.copy_to_device = [](DevicePtr to, const void* from, size_t bytes, StreamHandle) -> Result {
    if (Result result = step("cuMemcpyHtoDAsync")) return result;
    return std::memcpy(host(to), from, bytes), kSuccess;
  };
  table.copy_to_host = [](void* to, DevicePtr from, size_t bytes, StreamHandle) -> Result {
    if (Result result = step("cuMemcpyDtoHAsync")) return result;
    return std::memcpy(to, host(from), bytes), kSuccess;
  };
  table.launch_host = [](StreamHandle, void (*function)(void*), void* data) -> Result {
    if (Result result = step("cuLaunchHostFunc")) return result;
    return function(data), kSuccess;
  };
  table.fill_bytes = [](DevicePtr to, unsigned char value, size_t count, StreamHandle) -> Result {
    if (Result result = step("cuMemsetD8Async")) return result;
    return std::memset(host(to), value, count), kSuccess;
  };
}

}  // namespace

void pretend_driver() {
  static bool done = false;
  if (std::exchange(done, true)) return;
  Driver table{};
#define THALWEG_DRIVER(name, symbol, since, ...) table.name = [](__VA_ARGS__) -> Result { return step(symbol); };
#include "runtime/cuda/driver.def"
#undef THALWEG_DRIVER
  fill_in(table);
  use_driver(table);
}

void fail_call(int call, Result result) {
  failed = "";
  failure = result;
  left = call;
}

void pretend_capture(bool on) { capturing = on; }
const char* failed_symbol() { return failed; }
size_t pretended_bytes() { return kBytes; }
size_t pretended_used() { return used; }
int pretended_objects() { return objects; }
Requests pretended_requests() { return requests; }

}  // namespace thalweg::runtime::cuda
