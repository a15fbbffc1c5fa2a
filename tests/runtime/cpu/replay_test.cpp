// Replays what PyTorch allocated in training and generation (made by bench/record_allocations.py): memory taken from the system against memory in use.
#include <gtest/gtest.h>

#include <fstream>

#include "runtime/cpu/cpu_device.h"

namespace thalweg::runtime {
namespace {

constexpr double kLeastUtilisation = 0.95;

std::vector<int64_t> events(const std::string& name) {
  std::ifstream file(THALWEG_TEST_DATA "/allocations/" + name + ".txt");
  EXPECT_TRUE(file) << name << ".txt is missing from tests/data/allocations";
  std::vector<int64_t> out;
  for (int64_t event; file >> event;) out.push_back(event);
  return out;
}

struct Utilisation {
  size_t peak_live = 0, peak_reserved = 0, allocations = 0;
  double ratio() const { return static_cast<double>(peak_live) / static_cast<double>(peak_reserved); }
};

// Runs the events `rounds` times on a stream of a fresh device, without work: what is freed is free at once.
Utilisation replay(const std::vector<int64_t>& events, int rounds) {
  const auto device = cpu::make_device(0);
  Utilisation out;
  for (int round = 0; round < rounds; ++round) {
    std::vector<BufferPtr> buffers;
    size_t live = 0;
    for (int64_t event : events) {
      if (event > 0) {
        buffers.push_back(device->compute_stream().allocate(static_cast<size_t>(event)));
        live += static_cast<size_t>(event);
        ++out.allocations;
      } else {
        BufferPtr& buffer = buffers[buffers.size() - static_cast<size_t>(-event)];
        live -= buffer->size();
        buffer.reset();
      }
      out.peak_live = std::max(out.peak_live, live);
      out.peak_reserved = std::max(out.peak_reserved, device->memory().reserved);
    }
  }
  return out;
}

class Replay : public testing::TestWithParam<const char*> {};

TEST_P(Replay, NearlyAllOfTheMemoryTakenIsInUse) {
  const Utilisation u = replay(events(GetParam()), 3);
  std::printf("%s: %zu allocations, %.1f MB in use, %.1f MB taken: %.1f %%\n", GetParam(), u.allocations, u.peak_live / 1e6, u.peak_reserved / 1e6,
              100 * u.ratio());
  EXPECT_GE(u.ratio(), kLeastUtilisation);
}

INSTANTIATE_TEST_SUITE_P(Recorded, Replay, testing::Values("vit", "bert", "generation"));

}  // namespace
}  // namespace thalweg::runtime
