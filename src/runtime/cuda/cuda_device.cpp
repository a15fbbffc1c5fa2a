// The backend of NVIDIA GPUs, and the process's devices.
#include "runtime/cuda/cuda_device.h"

#include <chrono>
#include <map>
#include <mutex>
#include <thread>

#include "runtime/cuda/host_queue.h"
#include "runtime/cuda/mapped_memory.h"
#include "runtime/cuda/stream_queue.h"
#include "runtime/pooled_device.h"
#include "support/error.h"

namespace thalweg::runtime::cuda {
namespace {

constexpr size_t kChunkPages = 16;               // of 2 MiB
constexpr size_t kHeadroom = size_t{128} << 20;  // of the card that is left to others

SystemMemory free_memory(Context context) {
  ContextScope scope(context);
  CaptureExempt exempt;
  SystemMemory memory;
  check(driver().memory_info(&memory.free, &memory.total), "read the free memory of a GPU");
  return memory;
}

Properties read_properties(DeviceHandle device, int ordinal) {
  Properties all;
  all.ordinal = ordinal;
  char name[256] = "";
  check(driver().device_name(name, sizeof name, device), "read the name of a GPU");
  all.name = name;
  auto attribute = [&](int which) {
    int value = 0;
    check(driver().device_attribute(&value, which, device), "read an attribute of a GPU");
    return value;
  };
  all.major = attribute(kComputeMajor);
  all.minor = attribute(kComputeMinor);
  all.multiprocessors = attribute(kMultiprocessors);
  all.max_threads_per_block = attribute(kMaxThreadsPerBlock);
  all.shared_bytes_per_block = attribute(kSharedBytesPerBlockOptin);
  all.l2_bytes = static_cast<size_t>(attribute(kL2Bytes));
  check(driver().device_memory(&all.memory_bytes, device), "read the memory size of a GPU");
  return all;
}

// A GPU that this process has a context on; the context is the one that every library in the process shares.
struct Gpu {
  explicit Gpu(int ordinal) {
    check(driver().device_get(&handle, ordinal), "open a GPU");
    properties = read_properties(handle, ordinal);
    note_context_made();
    check(driver().primary_retain(&context, handle), "make a context on a GPU");
  }
  DeviceHandle handle = 0;
  Context context = nullptr;
  Properties properties;
};

// Never released: other users of the context come and go.
Gpu& gpu(int ordinal) {
  std::string reason;
  int count = device_count(&reason);
  driver();  // its own errors first
  THALWEG_CHECK(count > 0, Missing, "there is no GPU to use: ", reason);
  THALWEG_CHECK(ordinal >= 0 && ordinal < count, Invalid, "there is no GPU ", ordinal, ": this process sees ", count);
  static std::mutex& lock = *new std::mutex;
  static auto& all = *new std::map<int, std::unique_ptr<Gpu>>;
  std::lock_guard guard(lock);
  std::unique_ptr<Gpu>& entry = all[ordinal];
  if (!entry) entry = std::make_unique<Gpu>(ordinal);
  return *entry;
}

class CudaBackend final : public Backend {
 public:
  CudaBackend(Gpu& gpu, const DebugModes& modes)
      : gpu(gpu), events_(std::make_shared<EventPool>(gpu.context)), memory_(gpu.context, gpu.handle, modes.unmap ? 1 : kChunkPages) {}

  std::unique_ptr<Queue> make_queue(Axis& axis) override {
    ContextScope scope(gpu.context);
    CaptureExempt exempt;
    StreamHandle stream = nullptr;
    check(driver().stream_create(&stream, kStreamNonBlocking, 0), "create a stream");
    return std::make_unique<StreamQueue>(axis, events_, stream, true);
  }
  std::unique_ptr<Queue> make_host_queue(Axis& axis) override { return std::make_unique<HostQueue>(axis); }
  std::unique_ptr<Queue> adopt(Axis& axis, StreamHandle stream) { return std::make_unique<StreamQueue>(axis, events_, stream, false); }

  const Axis* running_here() const override {
    const Axis* axis = StreamCore::running_here();
    return axis ? axis : HostQueue::running_here();
  }
  void pause(void* native, std::chrono::microseconds time) override {
    auto sleep = [](void* data) { std::this_thread::sleep_for(std::chrono::microseconds(reinterpret_cast<intptr_t>(data))); };
    check(driver().launch_host(static_cast<StreamHandle>(native), sleep, reinterpret_cast<void*>(time.count())), "put a pause on a stream");
  }
  void fill(void* native, void* base, unsigned char value, size_t bytes) override {
    check(driver().fill_bytes(reinterpret_cast<DevicePtr>(base), value, bytes, static_cast<StreamHandle>(native)), "fill memory");
  }
  void wait(Axis& axis, uint64_t epoch) override {
    if (std::shared_ptr<StreamCore> core = StreamCore::of(axis)) return core->wait(epoch);
    axis.done.wait(epoch);
  }
  void refresh(Axis& axis) override {
    if (std::shared_ptr<StreamCore> core = StreamCore::of(axis)) core->poll();
  }
  void poll() override { StreamCore::poll_all(*events_); }
  void mark(Axis& axis) override {
    if (std::shared_ptr<StreamCore> core = StreamCore::of(axis)) core->mark();
  }

  bool is_host_memory() const override { return false; }
  size_t page_bytes() const override { return memory_.page_bytes(); }
  char* reserve(size_t& bytes) override { return memory_.reserve(bytes); }
  void unreserve(char* base, size_t bytes) override { memory_.unreserve(base, bytes); }
  bool commit(char* base, size_t bytes) override {
    // The driver, and the libraries in the process, need some memory for themselves; and a search that will fail should not map the rest of the card first.
    SystemMemory memory = free_memory(gpu.context);
    return bytes + kHeadroom <= memory.free && memory_.commit(base, bytes);
  }
  void decommit(char* base, size_t bytes) override { memory_.decommit(base, bytes); }

  Gpu& gpu;

 private:
  std::shared_ptr<EventPool> events_;
  MappedMemory memory_;
};

PooledDevice* make(int ordinal) {
  Gpu& on = gpu(ordinal);
  DebugModes modes = debug_modes_of_environment();
  return new PooledDevice(std::make_unique<CudaBackend>(on, modes), "CUDA:" + std::to_string(ordinal), ordinal, modes);
}

// The backend of a device, null when it is not a GPU.
CudaBackend* backend_of(const Device& device) {
  auto* pooled = dynamic_cast<const PooledDevice*>(&device);
  return pooled ? dynamic_cast<CudaBackend*>(&const_cast<PooledDevice*>(pooled)->backend()) : nullptr;
}

CudaBackend& gpu_backend(const Device& device) {
  CudaBackend* backend = backend_of(device);
  THALWEG_CHECK(backend != nullptr, Invalid, "the device is not a GPU: ", device.name());
  return *backend;
}

}  // namespace

Device& device(int ordinal) {
  static std::mutex& lock = *new std::mutex;
  static auto& all = *new std::map<int, PooledDevice*>;
  driver();
  std::lock_guard guard(lock);
  PooledDevice*& entry = all[ordinal];
  if (entry == nullptr) entry = make(ordinal);
  return *entry;
}

std::shared_ptr<Device> make_device(int ordinal) { return std::shared_ptr<Device>(make(ordinal)); }

const Properties& properties(const Device& device) { return gpu_backend(device).gpu.properties; }
Context context(const Device& device) { return gpu_backend(device).gpu.context; }
bool is_cuda(const Device& device) { return backend_of(device) != nullptr; }

StreamHandle native_stream(Stream& stream) { return is_cuda(stream.device()) ? static_cast<StreamHandle>(stream.native()) : nullptr; }

std::unique_ptr<Stream> wrap_stream(Device& device, StreamHandle native, std::string name) {
  CudaBackend& backend = gpu_backend(device);
  {
    ContextScope scope(backend.gpu.context);
    int capturing = 0;
    Context owner = nullptr;
    check(driver().stream_is_capturing(native, &capturing), "ask whether a stream is capturing a graph");
    THALWEG_CHECK(capturing == 0, Device, "the stream ", name, " is capturing a graph: use it from Thalweg before or after the capture");
    check(driver().stream_context(native, &owner), "ask for the context of a stream");
    THALWEG_CHECK(owner == backend.gpu.context, Invalid, "the stream ", name, " belongs to another GPU or context than ", device.name());
  }
  return static_cast<PooledDevice&>(device).make_stream(std::move(name), [&](Axis& axis) { return backend.adopt(axis, native); });
}

void order_after(Stream& later, Stream& earlier) {
  auto &before = dynamic_cast<DeviceStream&>(earlier), &after = dynamic_cast<DeviceStream&>(later);
  after.check_usable();
  before.mark();
  Frontier waits;
  {
    std::lock_guard guard(ordering_lock());
    waits.add({&before.axis(), before.axis().submitted.load()});
  }
  after.submit_after(waits, "wait for a stream", nullptr);
}

void on_complete(std::function<void()> check) { StreamCore::add_check(std::move(check)); }

SystemMemory system_memory(const Device& device) { return free_memory(context(device)); }

}  // namespace thalweg::runtime::cuda
