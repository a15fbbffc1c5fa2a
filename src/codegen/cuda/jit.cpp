// Compiles what neither this process nor the disk has, several kernels at a time, and remembers all.
#include "codegen/cuda/jit.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <unordered_set>

#include "codegen/cuda/nvrtc.h"
#include "codegen/prelude.h"
#include "support/error.h"
#include "support/object_cache.h"

namespace thalweg::codegen::cuda {
namespace {

constexpr const char* kIntegers =
    "typedef signed char int8_t; typedef short int16_t; typedef int int32_t; typedef long int64_t;\n"
    "typedef unsigned char uint8_t; typedef unsigned short uint16_t; typedef unsigned int uint32_t; typedef unsigned long uint64_t;\n";

struct State {
  std::mutex mutex;
  std::unordered_map<std::string, Image> images;  // by architecture and text
  JitStats stats;
};

// Never destroyed: streams may compile while the process ends.
State& state() {
  static auto* s = new State;
  return *s;
}

std::string identity(const KernelSource& kernel, int architecture) { return std::to_string(architecture) + '\n' + kernel.text; }

// One kernel to be made, by one of several threads.
struct Job {
  const KernelSource* kernel;
  std::string key;
  Image image;
  bool from_disk = false;
  std::string failure;
};

void make(Job& job, const ObjectCache& cache, const std::string& environment, int architecture) {
  const std::string key = environment + job.key;
  if (auto found = cache.load(key)) {
    job.image = std::make_shared<const std::string>(std::move(*found));
    job.from_disk = true;
    return;
  }
  try {
    job.image = std::make_shared<const std::string>(compile_cubin(std::string(kPrelude) + kIntegers + job.kernel->text, architecture));
    cache.store(key, *job.image);
  } catch (const Error& error) {
    job.failure = error.what();
  }
}

void make_all(std::vector<Job>& jobs, int architecture) {
  static const auto* cache = new ObjectCache(ObjectCache::default_folder());
  const std::string environment = "nvrtc " + std::to_string(nvrtc_version()) + '\n' + digest(kPrelude) + '\n';
  std::atomic<size_t> next = 0;
  auto work = [&] {
    for (size_t i; (i = next.fetch_add(1)) < jobs.size();) make(jobs[i], *cache, environment, architecture);
  };
  std::vector<std::thread> threads;
  const size_t count = std::min<size_t>(std::max(1u, std::thread::hardware_concurrency()), jobs.size());
  for (size_t i = 1; i < count; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
}

// The kernels that are not in memory yet, each once.
std::vector<Job> missing(std::span<const KernelSource> kernels, int architecture) {
  State& s = state();
  std::vector<Job> jobs;
  std::unordered_set<std::string> seen;
  std::scoped_lock lock(s.mutex);
  for (const KernelSource& kernel : kernels) {
    std::string key = identity(kernel, architecture);
    if (s.images.contains(key) || !seen.insert(key).second) {
      ++s.stats.memory_hits;
    } else {
      jobs.push_back({&kernel, std::move(key), nullptr, false, {}});
    }
  }
  return jobs;
}

}  // namespace

std::vector<Image> compile(std::span<const KernelSource> kernels, int architecture) {
  const auto start = std::chrono::steady_clock::now();
  State& s = state();
  std::vector<Job> jobs = missing(kernels, architecture);
  if (!jobs.empty()) {
    make_all(jobs, architecture);
    std::scoped_lock lock(s.mutex);
    for (const Job& job : jobs) {
      if (!job.image) continue;
      s.images.emplace(job.key, job.image);
      ++(job.from_disk ? s.stats.disk_hits : s.stats.compiled);
    }
    s.stats.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  for (const Job& job : jobs) THALWEG_CHECK(job.image, Internal, job.failure, "\nkernel ", job.kernel->name, ":\n", job.kernel->text);
  std::vector<Image> images;
  std::scoped_lock lock(s.mutex);
  for (const KernelSource& kernel : kernels) images.push_back(s.images.at(identity(kernel, architecture)));
  return images;
}

JitStats stats() {
  std::scoped_lock lock(state().mutex);
  return state().stats;
}

}  // namespace thalweg::codegen::cuda
