// What the runtime costs: allocate + free, enqueue, synchronise, on 1 to 16 threads, beside malloc and a best fit in a std::set.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "runtime/cpu/cpu_device.h"
#include "runtime/history.h"
#include "runtime/race_checker.h"

namespace {

using thalweg::runtime::BufferPtr;
using thalweg::runtime::Device;
using thalweg::runtime::Stream;
using thalweg::runtime::Submission;

// Processor time of the calling thread: what other programs on the machine take does not count.
double thread_ns() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

// Nanoseconds of one of `count` calls that `body` makes: the best of seven runs.
double best_ns(int count, const std::function<void()>& body) {
  double best = 1e30;
  for (int run = 0; run < 7; ++run) {
    double start = thread_ns();
    body();
    best = std::min(best, (thread_ns() - start) / count);
  }
  return best;
}

// The allocator that most frameworks have: free blocks in a std::set by size, best fit, split and joined by neither.
class SetBestFit {
 public:
  void* allocate(size_t bytes) {
    auto found = free_.lower_bound({bytes, nullptr});
    if (found == free_.end()) return std::malloc(bytes);
    void* address = found->second;
    free_.erase(found);
    return address;
  }
  void release(void* address, size_t bytes) { free_.insert({bytes, address}); }
  ~SetBestFit() {
    for (auto& [bytes, address] : free_) std::free(address);
  }

 private:
  std::set<std::pair<size_t, void*>> free_;
};

void allocate_and_free(Device& device) {
  std::printf("allocate + free, ns of processor time a pair\n");
  for (int threads : {1, 2, 4, 8, 16}) {
    for (size_t bytes : {size_t{4} << 10, size_t{1} << 20, size_t{64} << 20}) {
      constexpr int kPairs = 200'000;
      std::vector<std::unique_ptr<Stream>> streams;
      for (int t = 0; t < threads; ++t) streams.push_back(device.make_stream("bench"));
      uint64_t calls = 0;
      double ns = 1e30;
      for (int run = 0; run < 7; ++run) {
        for (auto& stream : streams) stream->allocate(bytes);
        uint64_t before = device.memory_counts().system_calls;
        std::vector<double> each(static_cast<size_t>(threads));
        std::vector<std::thread> workers;
        for (int t = 0; t < threads; ++t) {
          workers.emplace_back([&, t] {
            double start = thread_ns();
            for (int i = 0; i < kPairs; ++i) streams[t]->allocate(bytes);
            each[t] = (thread_ns() - start) / kPairs;
          });
        }
        for (auto& worker : workers) worker.join();
        ns = std::min(ns, *std::max_element(each.begin(), each.end()));
        calls = device.memory_counts().system_calls - before;
      }
      std::printf("  %2d thread(s), a stream each, %6zu KiB: %7.1f ns, %llu system calls\n", threads, bytes >> 10, ns, static_cast<unsigned long long>(calls));
    }
  }
  // What is known of memory: the ways it was got are always counted; exact totals and peaks at every moment come with a limit, and all events with a recording.
  auto one = [&](const char* what) {
    Stream& stream = device.compute_stream();
    stream.allocate(4096);
    double ns = best_ns(100'000, [&] {
      for (int i = 0; i < 100'000; ++i) stream.allocate(4096);
    });
    std::printf("  1 thread, %-46s %7.1f ns\n", what, ns);
  };
  one("4 KiB:");
  device.set_memory_limit(size_t{1} << 40);
  one("4 KiB, exact totals and peaks (a memory limit):");
  device.set_memory_limit(0);
  thalweg::runtime::record_history(100'000);
  one("4 KiB, every event recorded:");
  thalweg::runtime::record_history(0);
  SetBestFit other;
  std::vector<std::pair<void*, size_t>> held;
  for (size_t i = 0; i < 1000; ++i) held.emplace_back(other.allocate(4096 + i * 64), 4096 + i * 64);
  for (auto& [address, bytes] : held) other.release(address, bytes);
  size_t step = 0;
  double ns = best_ns(100'000, [&] {
    for (int i = 0; i < 100'000; ++i) {
      size_t bytes = 4096 + (step = (step + 617) % 1000) * 64;
      other.release(other.allocate(bytes), bytes);
    }
  });
  std::printf("  std::set best fit over 1,000 free blocks: %.1f ns\n", ns);
}

void submit(Device& device) {
  Stream& stream = device.compute_stream();
  std::vector<BufferPtr> buffers;
  for (int i = 0; i < 200; ++i) buffers.push_back(stream.allocate(4096));
  for (int count : {0, 1, 3, 20, 200}) {
    constexpr int kCalls = 1000;
    double total = 1e30;
    for (int run = 0; run < 7; ++run) {
      stream.synchronize();
      double start = thread_ns();
      for (int i = 0; i < kCalls; ++i) {
        Submission submission(stream);
        for (int b = 0; b < count; ++b) b % 2 ? submission.read(buffers[b]) : submission.write(buffers[b]);
        submission.run([](void*) {});
      }
      total = std::min(total, (thread_ns() - start) / kCalls);
    }
    std::printf("submit with %3d buffers: %8.1f ns\n", count, total);
  }
  double ns = best_ns(2000, [&] {
    for (int i = 0; i < 2000; ++i) {
      Submission(stream).write(buffers[0]).run([](void*) {});
      buffers[0]->wait_written();
    }
  });
  std::printf("submit and wait: %.1f ns of the host's processor time\n", ns);
  double best = 1e30, best_reached = 1e30;
  for (int i = 0; i < 50; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::chrono::steady_clock::time_point reached;
    auto start = std::chrono::steady_clock::now();
    Submission(stream).write(buffers[0]).run([&](void*) { reached = std::chrono::steady_clock::now(); });
    std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
    best = std::min(best, time.count());
    buffers[0]->wait_written();
    time = reached - start;
    best_reached = std::min(best_reached, time.count());
  }
  std::printf("submit to a sleeping stream: %.1f ns, its work starts after %.1f ns\n", best, best_reached);
}

}  // namespace

// What the race checker adds to an access: submissions with and without it.
void check() {
  using thalweg::runtime::RaceChecker;
  double with[2], without[2];
  for (int checked = 0; checked < 2; ++checked) {
    auto checker = std::make_unique<RaceChecker>();
    if (checked) thalweg::runtime::check_races(checker.get());
    {
      auto device = thalweg::runtime::cpu::make_device(1);
      Stream& stream = device->compute_stream();
      std::vector<BufferPtr> buffers;
      for (int i = 0; i < 101; ++i) buffers.push_back(stream.allocate(4096));
      for (int size : {0, 1}) {
        int count = size ? 101 : 1;
        double best = 1e30;
        for (int run = 0; run < 20; ++run) {
          stream.synchronize();
          double start = thread_ns();
          for (int i = 0; i < 200; ++i) {
            Submission submission(stream);
            for (int b = 0; b < count; ++b) b % 2 ? submission.read(buffers[b]) : submission.write(buffers[b]);
            submission.run([](void*) {});
          }
          best = std::min(best, (thread_ns() - start) / 200);
        }
        (checked ? with : without)[size] = best;
      }
    }
    thalweg::runtime::check_races(nullptr);
  }
  double per_access = (with[1] - with[0] - without[1] + without[0]) / 100;
  std::printf("race checker: %.1f ns an access, %.1f ns a submission\n", per_access, with[0] - without[0] - per_access);
}

int main() {
  auto device = thalweg::runtime::cpu::make_device(1);
  allocate_and_free(*device);
  submit(*device);
  check();
}
