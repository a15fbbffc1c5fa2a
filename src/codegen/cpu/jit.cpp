// Compiles what neither this process nor the disk has, several kernels at a time, and remembers all.
#include "codegen/cpu/jit.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "codegen/cpu/backend_library.h"
#include "codegen/prelude.h"
#include "support/error.h"
#include "support/object_cache.h"

namespace thalweg::codegen::cpu {

namespace {

struct State {
  std::mutex mutex;
  std::unordered_map<std::string, KernelFn> functions;  // by name and text
  JitStats stats;
};

// Never destroyed: streams may compile while the process ends.
State& state() {
  static auto* s = new State;
  return *s;
}

std::string identity(const KernelSource& kernel) { return kernel.name + '\n' + kernel.text; }

void append(void* text, const char* bytes, size_t size) { static_cast<std::string*>(text)->append(bytes, size); }

// One kernel to be made, by one of several threads.
struct Job {
  const KernelSource* kernel;
  std::string key;
  KernelFn function = nullptr;
  bool from_disk = false;
  std::string failure;
};

bool load(const ThalwegClangApi& api, const std::string& object, Job& job) {
  void* address = nullptr;
  std::string log;
  if (api.load(object.data(), object.size(), job.kernel->name.c_str(), &address, append, &log) != 0) {
    job.failure = "could not load the kernel's object code: " + log;
    return false;
  }
  job.function = reinterpret_cast<KernelFn>(address);
  return true;
}

// Kernels of one batch are parsed together; more of them would leave threads idle at the end.
constexpr size_t kBatch = 8;

// What making kernels takes from the process.
struct Workshop {
  const ThalwegClangApi& api;
  ObjectCache cache{ObjectCache::default_folder()};
  std::string environment{std::string(api.describe()) + '\n' + digest(kPrelude) + '\n'};

  bool find(Job& job) const {
    auto object = cache.load(environment + job.key);
    job.from_disk = object && load(api, *object, job);
    return job.from_disk;
  }

  void compile(std::span<Job* const> jobs) const {
    std::vector<const char*> texts, symbols;
    std::vector<size_t> sizes;
    std::vector<std::string> objects(jobs.size());
    std::vector<void*> contexts;
    for (size_t i = 0; i < jobs.size(); ++i) {
      texts.push_back(jobs[i]->kernel->text.data());
      sizes.push_back(jobs[i]->kernel->text.size());
      symbols.push_back(jobs[i]->kernel->name.c_str());
      contexts.push_back(&objects[i]);
    }
    if (api.compile(kPrelude, std::char_traits<char>::length(kPrelude), texts.data(), sizes.data(), symbols.data(), jobs.size(), append, contexts.data()) !=
        0) {
      if (jobs.size() == 1)
        jobs[0]->failure = "Clang rejected a kernel: " + objects[0];
      else
        for (size_t i = 0; i < jobs.size(); ++i) compile(jobs.subspan(i, 1));  // which one is it?
      return;
    }
    for (size_t i = 0; i < jobs.size(); ++i)
      if (load(api, objects[i], *jobs[i])) cache.store(environment + jobs[i]->key, objects[i]);
  }
};

void make_all(const ThalwegClangApi& api, std::vector<Job>& jobs) {
  static const auto* workshop = new Workshop{api};
  std::vector<Job*> left;
  for (Job& job : jobs)
    if (!workshop->find(job)) left.push_back(&job);
  if (left.empty()) return;
  size_t cores = std::max(1u, std::thread::hardware_concurrency());
  size_t batch = std::clamp<size_t>(left.size() / (2 * cores), 1, kBatch);
  std::atomic<size_t> next = 0;
  auto work = [&] {
    for (size_t begin; (begin = next.fetch_add(batch)) < left.size();) workshop->compile(std::span(left).subspan(begin, std::min(batch, left.size() - begin)));
  };
  std::vector<std::thread> threads;
  for (size_t i = 1; i < std::min(cores, (left.size() + batch - 1) / batch); ++i) threads.emplace_back(work);
  work();
  for (auto& thread : threads) thread.join();
}

// The kernels that are not in memory yet, each once.
std::vector<Job> missing(std::span<const KernelSource> kernels) {
  State& s = state();
  std::vector<Job> jobs;
  std::unordered_map<std::string, bool> seen;
  std::scoped_lock lock(s.mutex);
  for (const KernelSource& kernel : kernels) {
    std::string key = identity(kernel);
    if (s.functions.contains(key) || !seen.emplace(key, true).second)
      ++s.stats.memory_hits;
    else
      jobs.push_back({&kernel, std::move(key), nullptr, false, {}});
  }
  return jobs;
}

}  // namespace

std::vector<KernelFn> compile(std::span<const KernelSource> kernels) {
  auto start = std::chrono::steady_clock::now();
  State& s = state();
  std::vector<Job> jobs = missing(kernels);
  if (!jobs.empty()) {
    std::string why;
    const ThalwegClangApi* api = backend(&why);
    THALWEG_CHECK(api, Missing, why);
    make_all(*api, jobs);
    std::scoped_lock lock(s.mutex);
    for (Job& job : jobs) {
      if (!job.function) continue;
      s.functions.emplace(job.key, job.function);
      ++(job.from_disk ? s.stats.disk_hits : s.stats.compiled);
    }
    s.stats.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  for (const Job& job : jobs) THALWEG_CHECK(job.function, Internal, job.failure, "\nkernel ", job.kernel->name, ":\n", job.kernel->text);
  std::vector<KernelFn> functions;
  std::scoped_lock lock(s.mutex);
  for (const KernelSource& kernel : kernels) functions.push_back(s.functions.at(identity(kernel)));
  return functions;
}

JitStats stats() {
  std::scoped_lock lock(state().mutex);
  return state().stats;
}

bool available(std::string* why) { return backend(why) != nullptr; }

}  // namespace thalweg::codegen::cpu
