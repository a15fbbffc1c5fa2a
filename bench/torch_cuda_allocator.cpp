// PyTorch's CUDA allocator in the same measurement as cuda_memory_bench: allocate + free on 1 to 16 threads, a stream each. Built by tools/gpu_test with g++.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

int main() {
  namespace allocator = c10::cuda::CUDACachingAllocator;
  at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
  std::printf("PyTorch's CUDA allocator: allocate + free of one block, ns a pair, a stream a thread\n%8s %10s %12s\n", "threads", "KiB", "PyTorch");
  for (int threads : {1, 2, 4, 8, 16}) {
    for (size_t bytes : {size_t{4} << 10, size_t{1} << 20, size_t{64} << 20}) {
      double best = 1e30;
      for (int run = 0; run < 6; ++run) {
        std::vector<double> each(static_cast<size_t>(threads));
        std::vector<std::thread> workers;
        for (int t = 0; t < threads; ++t) {
          workers.emplace_back([&, t] {
            constexpr int kCalls = 50'000;
            auto stream = c10::cuda::getStreamFromPool().stream();
            allocator::raw_delete(allocator::raw_alloc_with_stream(bytes, stream));
            auto start = std::chrono::steady_clock::now();
            for (int i = 0; i < kCalls; ++i) allocator::raw_delete(allocator::raw_alloc_with_stream(bytes, stream));
            each[static_cast<size_t>(t)] = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / kCalls;
          });
        }
        for (auto& worker : workers) worker.join();
        if (run > 0) best = std::min(best, *std::max_element(each.begin(), each.end()));
      }
      std::printf("%8d %10zu %12.1f\n", threads, bytes >> 10, best);
    }
  }
}
