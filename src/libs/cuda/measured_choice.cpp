// Timing by the host's clock over a synchronised stream.
#include "libs/cuda/measured_choice.h"

#include <chrono>

#include "support/object_cache.h"

namespace thalweg::libs::cuda {
namespace {

constexpr int kWarmUps = 2, kRuns = 10;

const ObjectCache& cache() {
  static const auto* instance = new ObjectCache(ObjectCache::default_folder());
  return *instance;
}

}  // namespace

double seconds_of(runtime::Stream& stream, std::span<const runtime::BufferPtr> buffers, const char* label, const std::function<void(void* native)>& work) {
  auto queue = [&](int runs) {
    runtime::Submission submission(stream);
    for (const runtime::BufferPtr& buffer : buffers) submission.write(buffer);
    submission.label(label).run([&work, runs](void* native) {
      for (int i = 0; i < runs; ++i) work(native);
    });
    stream.synchronize();
  };
  queue(kWarmUps);
  const auto start = std::chrono::steady_clock::now();
  queue(kRuns);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / kRuns;
}

std::optional<std::string> kept_choice(const std::string& key) { return cache().load(key); }

void keep_choice(const std::string& key, const std::string& choice) { cache().store(key, choice); }

}  // namespace thalweg::libs::cuda
