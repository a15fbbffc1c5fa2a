// What memory costs on a GPU: allocate + free on 1 to 16 threads beside the driver's stream-ordered pool, submissions, copies, mapping. `cuda_memory_bench
// copies` does the copies alone.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/cuda/mapped_memory.h"
#include "runtime/cuda/staging.h"
#include "support/error.h"
#include "tests/runtime/cuda/test_kernels.h"

namespace thalweg::runtime::cuda {
namespace {

using Clock = std::chrono::steady_clock;

double ns_since(Clock::time_point start) { return std::chrono::duration<double, std::nano>(Clock::now() - start).count(); }

// Nanoseconds of a call on the slowest of `threads` threads that make `calls` each at the same time: the best of five runs.
double best_ns(int threads, int calls, const std::function<void(int thread, int calls)>& body) {
  double best = 1e30;
  for (int run = 0; run < 6; ++run) {
    std::vector<double> each(static_cast<size_t>(threads));
    std::vector<std::thread> workers;
    for (int t = 0; t < threads; ++t) {
      workers.emplace_back([&, t] {
        auto start = Clock::now();
        body(t, calls);
        each[static_cast<size_t>(t)] = ns_since(start) / calls;
      });
    }
    for (auto& worker : workers) worker.join();
    if (run > 0) best = std::min(best, *std::max_element(each.begin(), each.end()));
  }
  return best;
}

void allocate_and_free(Device& device) {
  ContextScope scope(context(device));
  DeviceHandle gpu = 0;
  check(driver().device_get(&gpu, device.ordinal()), "open a GPU");
  void* pool = nullptr;
  check(driver().default_pool(&pool, gpu), "find the driver's pool");
  uint64_t keep = ~uint64_t{0};
  check(driver().pool_set_attribute(pool, 4, &keep), "keep the pool's memory");  // release threshold
  std::printf("allocate + free of one block, ns a pair, a stream a thread\n%8s %10s %12s %14s %12s\n", "threads", "KiB", "Thalweg", "driver calls",
              "mallocAsync");
  for (int threads : {1, 2, 4, 8, 16}) {
    std::vector<std::unique_ptr<Stream>> streams;
    for (int t = 0; t < threads; ++t) streams.push_back(device.make_stream("bench"));
    for (size_t bytes : {size_t{4} << 10, size_t{1} << 20, size_t{64} << 20}) {
      {
        std::vector<BufferPtr> one_each;  // so that each stream has a block of its own to come back to
        for (auto& stream : streams) one_each.push_back(stream->allocate(bytes));
      }
      uint64_t before = device.memory_counts().system_calls;
      double ours = best_ns(threads, 200'000, [&](int t, int calls) {
        for (int i = 0; i < calls; ++i) streams[static_cast<size_t>(t)]->allocate(bytes);
      });
      uint64_t calls = device.memory_counts().system_calls - before;
      double theirs = best_ns(threads, 3000, [&](int t, int calls) {
        ContextScope inner(context(device));
        StreamHandle stream = native_stream(*streams[static_cast<size_t>(t)]);
        for (int i = 0; i < calls; ++i) {
          DevicePtr memory = 0;
          check(driver().allocate_async(&memory, bytes, stream), "allocate");
          check(driver().free_async(memory, stream), "free");
        }
      });
      std::printf("%8d %10zu %12.1f %14llu %12.1f\n", threads, bytes >> 10, ours, static_cast<unsigned long long>(calls), theirs);
    }
  }
}

void submit(Device& device) {
  Stream &compute = device.compute_stream(), &copies = device.copy_stream();
  BufferPtr a = compute.allocate(4096), b = copies.allocate(4096);
  auto best = [&](const char* what, int calls, const std::function<void()>& call) {
    double least = 1e30;
    for (int run = 0; run < 6; ++run) {
      device.synchronize();
      auto start = Clock::now();
      for (int i = 0; i < calls; ++i) call();
      least = std::min(least, ns_since(start) / calls);
    }
    std::printf("%-62s %10.0f ns\n", what, least);
  };
  TestKernels kernels(device);
  ContextScope scope(context(device));
  StreamHandle native = native_stream(compute);
  best("a kernel launch of the driver alone", 1000, [&] { launch_with(kernels.spin, kSingle, native, uint64_t{1}); });
  best("a submission of a kernel with one buffer", 1000,
       [&] { Submission(compute).write(a).run([&](void* stream) { launch_with(kernels.spin, kSingle, stream, uint64_t{1}); }); });
  best("an empty submission", 1000, [&] { Submission(compute).write(a).run([](void*) {}); });
  best("two submissions that hand a buffer from stream to stream", 1000, [&] {
    Submission(compute).write(a).run([](void*) {});
    Submission(copies).read(a).write(b).run([](void*) {});
  });
  best("a submission and the wait for it", 500, [&] {
    Submission(compute).write(a).run([&](void* stream) { launch_with(kernels.spin, kSingle, stream, uint64_t{1}); });
    a->wait_written();
  });
}

void copies(Device& device, size_t bytes) {
  std::vector<char> host(bytes, 1);
  std::shared_ptr<char> pinned = pinned_memory(device, bytes);
  BufferPtr there = device.copy_stream().allocate(bytes);
  auto rate = [&](const char* what, const std::function<void()>& call) {
    double least = 1e30;
    for (int run = 0; run < 8; ++run) {
      device.synchronize();
      auto start = Clock::now();
      call();
      device.synchronize();
      least = std::min(least, ns_since(start));
    }
    std::printf("%4zu MiB %-53s %10.1f GB/s\n", bytes >> 20, what, static_cast<double>(bytes) / least);
  };
  rate("from pinned memory", [&] { copy_from_pinned(device.copy_stream(), there, 0, pinned, bytes); });
  rate("from ordinary memory, staged", [&] { copy_from_host(device.copy_stream(), there, 0, host.data(), bytes); });
  rate("to ordinary memory, staged", [&] { copy_to_host(device.copy_stream(), there, 0, host.data(), bytes); });
}

void mapping(Device& device) {
  DeviceHandle gpu = 0;
  check(driver().device_get(&gpu, device.ordinal()), "open a GPU");
  for (size_t pages : {size_t{1}, size_t{16}, size_t{64}}) {
    MappedMemory memory(context(device), gpu, pages);
    constexpr size_t kBytes = size_t{4} << 30;
    size_t range = kBytes;
    char* base = memory.reserve(range);
    auto start = Clock::now();
    bool good = memory.commit(base, kBytes);
    double there = ns_since(start);
    start = Clock::now();
    memory.decommit(base, kBytes);
    std::printf("mapping 4 GiB in chunks of %3zu MiB%s: %8.2f ms, and back %8.2f ms\n", pages * 2, good ? "" : " FAILED", there / 1e6, ns_since(start) / 1e6);
    memory.unreserve(base, range);
  }
}

}  // namespace
}  // namespace thalweg::runtime::cuda

int main(int count, char** words) {
  const bool only_copies = count > 1 && std::string(words[1]) == "copies";
  using namespace thalweg::runtime;
  try {
    auto device = cuda::make_device(0);
    std::printf("%s\n", cuda::properties(*device).name.c_str());
    for (size_t mib : {1, 8, 16, 64, 256, 1024}) cuda::copies(*device, mib << 20);
    if (only_copies) return 0;
    cuda::allocate_and_free(*device);
    cuda::submit(*device);
    cuda::mapping(*device);
    return 0;
  } catch (const thalweg::Error& error) {
    std::fprintf(stderr, "cuda_memory_bench: %s\n", error.what());
    return 2;
  }
}
