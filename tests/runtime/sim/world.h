// A simulated device for scenarios: kernels stamp and check values, and every scheduler gets its turn, threads too.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/race_checker.h"
#include "runtime/sim/explorer.h"
#include "runtime/sim/sim_device.h"
#include "support/error.h"

namespace thalweg::runtime::sim {

// One run of a scenario.
class World {
 public:
  explicit World(Options options) : sim_(options) {}

  SimDevice& sim() { return sim_; }
  Device& device() { return sim_.device(); }
  Stream& compute() { return sim_.device().compute_stream(); }
  Stream& copy() { return sim_.device().copy_stream(); }
  std::unique_ptr<Stream> stream(const char* name) { return sim_.device().make_stream(name); }

  BufferPtr allocate(Stream& on, size_t bytes = 256, AllocFlags flags = {}) {
    sim_.host_step(true);
    return on.allocate(bytes, flags);
  }
  // A kernel that writes `tag` to the whole buffer.
  void stamp(Stream& on, const BufferPtr& buffer, uint64_t tag, const char* label = "stamp") {
    sim_.host_step(false);
    Submission(on).write(buffer).label(label).run([this, to = buffer->data(), n = buffer->size(), tag](void*) { fill(to, n, tag); });
  }
  // A kernel that reads the buffer and finds `tag`.
  void expect(Stream& on, const BufferPtr& buffer, uint64_t tag, const char* label = "expect") {
    sim_.host_step(false);
    Submission(on).read(buffer).label(label).run([this, from = buffer->data(), n = buffer->size(), tag](void*) { check(from, n, tag); });
  }
  // A kernel that finds `tag` in one buffer and writes it to another of the same size.
  void move(Stream& on, const BufferPtr& from, const BufferPtr& to, uint64_t tag, const char* label = "move") {
    sim_.host_step(false);
    Submission(on).read(from).write(to).label(label).run([this, a = from->data(), b = to->data(), n = to->size(), tag](void*) {
      check(a, n, tag);
      fill(b, n, tag);
    });
  }
  // A kernel of another library: the runtime does not know what it reads.
  void foreign_expect(Stream& on, const void* from, size_t bytes, uint64_t tag) {
    sim_.host_step(false);
    Submission(on).label("foreign").run([this, from, bytes, tag](void*) { check(from, bytes, tag); });
  }
  void free(BufferPtr& buffer) {
    sim_.host_step(false);
    buffer.reset();
  }
  // The host reads.
  void host_expect(const BufferPtr& buffer, uint64_t tag) {
    sim_.host_step(true);
    buffer->wait_written();
    touch(buffer, false);
    check(buffer->data(), buffer->size(), tag);
  }
  // The host writes.
  void host_stamp(const BufferPtr& buffer, uint64_t tag) {
    sim_.host_step(true);
    buffer->wait_unused();
    touch(buffer, true);
    fill(buffer->data(), buffer->size(), tag);
  }
  void finish() {
    sim_.host_step(false);
    sim_.run_all();
  }
  std::string fault() const {
    std::lock_guard guard(lock_);
    return fault_;
  }
  void set_fault(const std::string& fault) {
    std::lock_guard guard(lock_);
    if (fault_.empty()) fault_ = fault;
  }

 private:
  static void touch(const BufferPtr& buffer, bool writes) {
    RaceChecker* checker = race_checker.load();
    if (checker) checker->host_access({static_cast<const char*>(buffer->data()), buffer->size(), writes, buffer->life()});
  }
  void fill(void* to, size_t bytes, uint64_t tag) {
    if (!sim_.is_mapped(to, bytes)) return set_fault("a kernel wrote to memory that was taken away");
    for (size_t i = 0; i + 8 <= bytes; i += 8) std::memcpy(static_cast<char*>(to) + i, &tag, 8);
  }
  void check(const void* from, size_t bytes, uint64_t tag) {
    if (!sim_.is_mapped(from, bytes)) return set_fault("a kernel read memory that was taken away");
    for (size_t i = 0; i + 8 <= bytes; i += 8) {
      uint64_t found;
      std::memcpy(&found, static_cast<const char*>(from) + i, 8);
      if (found != tag) return set_fault("found " + std::to_string(found) + " where " + std::to_string(tag) + " was written");
    }
  }

  // Before the device, whose threads use them to its end.
  mutable std::mutex lock_;
  std::string fault_;
  SimDevice sim_;
};

// Runs a scenario under every scheduler, on threads, and in every schedule (up to 3,000), with the race checker: no wrong value, no race, all memory given
// back.
inline void under_all(const std::function<void(World&)>& scenario, Options options = {}) {
  auto once = [&](Scheduler* scheduler, const std::string& name) {
    RaceChecker checker;
    check_races(&checker);
    options.scheduler = scheduler;
    {
      World world(options);
      scenario(world);
      world.finish();
      EXPECT_EQ(world.fault(), "") << "under " << name << ", schedule " << world.sim().schedule();
      EXPECT_EQ(world.device().memory().live, 0u) << "a buffer was lost";
    }
    check_races(nullptr);
    EXPECT_EQ(checker.count(), 0u) << "under " << name << ": " << checker.races().front().text();
  };
  for (const char* name : scheduler_names()) {
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      auto scheduler = make_scheduler(name, seed);
      once(scheduler.get(), name);
      if (testing::Test::HasFailure()) return;
    }
  }
  for (options.threads = 1; options.threads <= 5; ++options.threads) {
    once(nullptr, "threads");
    if (testing::Test::HasFailure()) return;
  }
  options.threads = 0;
  Explorer explorer;
  int runs = 0;
  do {
    once(&explorer.scheduler(), "the explorer");
  } while (!testing::Test::HasFailure() && ++runs < 3000 && explorer.next());
}

}  // namespace thalweg::runtime::sim
