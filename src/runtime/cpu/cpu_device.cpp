// Host memory by pages, and the process's CPU device with its behaviour at fork and exit.
#include "runtime/cpu/cpu_device.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/cpu/thread_queue.h"
#include "runtime/pooled_device.h"

namespace thalweg::runtime::cpu {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kSmallPage = 4096;
constexpr auto kExitPatience = std::chrono::seconds(5);

// The memory that this process may have: the machine's, or its control group's.
size_t physical_bytes() {
  size_t bytes = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  size_t group = 0;
  if (std::ifstream("/sys/fs/cgroup/memory.max") >> group && group > 0) bytes = std::min(bytes, group);
  return bytes;
}

class CpuBackend final : public Backend {
 public:
  // `page`: the unit of memory; below a huge page only where pages are to be told apart.
  explicit CpuBackend(size_t page) : page_(page) {}

  std::unique_ptr<Queue> make_queue(Axis& axis) override { return std::make_unique<ThreadQueue>(axis); }
  const Axis* running_here() const override { return ThreadQueue::running_here(); }
  size_t page_bytes() const override { return page_; }

  char* reserve(size_t& bytes) override {
    for (; bytes >= page_; bytes /= 2) {
      void* range = mmap(nullptr, bytes + page_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (range == MAP_FAILED) continue;
      auto address = reinterpret_cast<uintptr_t>(range), aligned = (address + page_ - 1) / page_ * page_;
      if (size_t before = aligned - address) munmap(range, before);
      if (size_t after = address + page_ - aligned) munmap(reinterpret_cast<void*>(aligned + bytes), after);
      if (page_ == kHugePage) madvise(reinterpret_cast<void*>(aligned), bytes, MADV_HUGEPAGE);
      return reinterpret_cast<char*>(aligned);
    }
    return nullptr;
  }
  void unreserve(char* base, size_t bytes) override { munmap(base, bytes); }
  bool commit(char* base, size_t bytes) override {
    if (committed_ + bytes > physical_ || mprotect(base, bytes, PROT_READ | PROT_WRITE) != 0) return false;
    committed_ += bytes;
    return true;
  }
  void decommit(char* base, size_t bytes) override {
    madvise(base, bytes, MADV_DONTNEED);
    mprotect(base, bytes, PROT_NONE);
    committed_ -= bytes;
  }

 private:
  const size_t page_;
  const size_t physical_ = physical_bytes();
  size_t committed_ = 0;  // under the ordering lock
};

// The devices of this process. Under the ordering lock.
std::vector<PooledDevice*>& devices() {
  static std::vector<PooledDevice*>& list = *new std::vector<PooledDevice*>;
  return list;
}

template <class Visit>
void each_axis(Visit visit) {
  for (PooledDevice* device : devices()) {
    for (Axis* axis : device->axes()) visit(*axis);
  }
}

// Around a fork nothing of ours is half done: the child gets every list and every error whole.
void before_fork() {
  ordering_lock().lock();
  for (PooledDevice* device : devices()) device->pool().lock_lanes();
  each_axis([](Axis& axis) { axis.errors_lock().lock(); });
}

void unlock_after_fork() {
  each_axis([](Axis& axis) { axis.errors_lock().unlock(); });
  for (PooledDevice* device : devices()) device->pool().unlock_lanes();
}

void after_fork_in_parent() {
  unlock_after_fork();
  ordering_lock().unlock();
}

void after_fork_in_child() {
  unlock_after_fork();
  ThreadQueue::each([](ThreadQueue& queue) { queue.restart_after_fork(); });
  ordering_lock().unlock();
}

// No task starts any more, the running ones finish, and whoever still waits gets an error instead of waiting for ever: static objects that tasks might
// use are destroyed after this.
void at_exit() {
  ThreadQueue::stop_all();
  auto deadline = std::chrono::steady_clock::now() + kExitPatience;
  for (;;) {
    bool busy = false;
    {
      std::lock_guard guard(ordering_lock());
      ThreadQueue::each([&](ThreadQueue& queue) { busy = busy || queue.is_running(); });
    }
    if (!busy || std::chrono::steady_clock::now() > deadline) break;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  std::lock_guard guard(ordering_lock());
  each_axis([](Axis& axis) { axis.lose_pending("the process is exiting: work that was still queued did not run"); });
}

// Makes a device that fork and exit know.
PooledDevice* make_listed(int ordinal, const DebugModes& modes) {
  static const bool handlers = [] {
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    std::atexit(at_exit);
    return true;
  }();
  (void)handlers;
  auto backend = std::make_unique<CpuBackend>(modes.unmap ? kSmallPage : kHugePage);
  auto* device = new PooledDevice(std::move(backend), "CPU:" + std::to_string(ordinal), ordinal, modes);
  std::lock_guard guard(ordering_lock());
  devices().push_back(device);
  return device;
}

// A device that leaves the list when it ends.
struct Unlist {
  void operator()(Device* device) const {
    {
      std::lock_guard guard(ordering_lock());
      std::erase(devices(), static_cast<PooledDevice*>(device));
    }
    delete device;
  }
};

}  // namespace

Device& device() {
  static Device& instance = *make_listed(0, debug_modes_of_environment());
  return instance;
}

std::shared_ptr<Device> make_device(int ordinal) { return make_device(ordinal, debug_modes_of_environment()); }

std::shared_ptr<Device> make_device(int ordinal, const DebugModes& modes) { return {make_listed(ordinal, modes), Unlist{}}; }

}  // namespace thalweg::runtime::cpu
