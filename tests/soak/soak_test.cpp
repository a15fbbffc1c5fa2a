// Cases 74 to 76 and a short soak: known races are flagged in every schedule and good programs never, also where memory is reused in part.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <utility>

#include "runtime/rules.h"
#include "runtime/sim/explorer.h"
#include "tests/runtime/sim/world.h"
#include "tests/soak/program.h"

namespace thalweg::soak {
namespace {

using runtime::BufferPtr;
using runtime::RaceChecker;
using runtime::sim::Explorer;
using runtime::sim::World;

// What the schedules of a scenario did.
struct Counts {
  int runs = 0, corrupt = 0, flagged = 0;
  std::string report, picture;
};

Counts explore(const std::string& rule, const std::function<void(World&)>& scenario) {
  use_rule(rule);
  Counts counts;
  Explorer explorer;
  do {
    RaceChecker checker;
    runtime::check_races(&checker);
    {
      World world({.scheduler = &explorer.scheduler()});
      scenario(world);
      world.finish();
      counts.corrupt += !world.fault().empty();
    }
    runtime::check_races(nullptr);
    ++counts.runs;
    counts.flagged += checker.count() > 0;
    if (checker.count() > 0 && counts.report.empty()) {
      counts.report = checker.races().front().text();
      counts.picture = checker.picture(checker.races().front());
    }
  } while (explorer.next());
  use_rule("frontier");
  return counts;
}

constexpr size_t kPage = 4096;  // whole pages, so that there is no rest of a page to be had instead of freed memory

void copy_into_freed_temporary(World& w) {
  BufferPtr temporary = w.allocate(w.compute(), kPage);
  w.stamp(w.compute(), temporary, 1, "make temporary");
  w.expect(w.compute(), temporary, 1, "read temporary");
  w.free(temporary);
  BufferPtr input = w.allocate(w.copy(), kPage);
  w.stamp(w.copy(), input, 2, "copy of the input");
  w.expect(w.compute(), input, 2);
}

void collective_reads_freed_gradient(World& w) {
  auto collective = w.stream("collective");
  BufferPtr gradient = w.allocate(w.compute(), kPage);
  w.stamp(w.compute(), gradient, 1);
  w.expect(*collective, gradient, 1, "all-reduce");
  w.free(gradient);
  BufferPtr next = w.allocate(w.compute(), kPage);
  w.stamp(w.compute(), next, 2, "next temporary");
}

void consumer_reads_after_free_elsewhere(World& w) {
  auto consumer = w.stream("consumer"), third = w.stream("third");
  BufferPtr shared = w.allocate(w.compute(), kPage);
  w.stamp(w.compute(), shared, 1);
  w.expect(*consumer, shared, 1, "consumer");
  w.free(shared);
  BufferPtr next = w.allocate(*third, kPage);
  w.stamp(*third, next, 2, "third");
}

TEST(SoakTest, Case74KnownRacesAreFlaggedInEverySchedule) {
  Counts bfc = explore("bfc", copy_into_freed_temporary);
  EXPECT_GT(bfc.corrupt, 0);
  EXPECT_EQ(bfc.flagged, bfc.runs);
  for (const char* part : {"'make temporary'", "'copy of the input'", "on compute", "on copy", "freed and reused", "copy is made to wait", "world.h:"}) {
    EXPECT_NE(bfc.report.find(part), std::string::npos) << part << " is missing in: " << bfc.report;
  }
  EXPECT_NE(bfc.picture.find("<svg"), std::string::npos);
  EXPECT_NE(bfc.picture.find("copy of the input"), std::string::npos);
  for (const char* rule : {"bfc", "pytorch", "rmm"}) {
    Counts counts = explore(rule, collective_reads_freed_gradient);
    EXPECT_GT(counts.corrupt, 0) << rule;
    EXPECT_EQ(counts.flagged, counts.runs) << rule;
  }
  Counts third = explore("bfc", consumer_reads_after_free_elsewhere);
  EXPECT_GT(third.corrupt, 0);
  EXPECT_EQ(third.flagged, third.runs);
}

TEST(SoakTest, Case75GoodProgramsAreNeverFlagged) {
  for (auto scenario : {copy_into_freed_temporary, collective_reads_freed_gradient, consumer_reads_after_free_elsewhere}) {
    Counts counts = explore("frontier", scenario);
    EXPECT_EQ(counts.corrupt, 0);
    EXPECT_EQ(counts.flagged, 0) << counts.report;
  }
}

TEST(SoakTest, Case76ReuseOfAPartIsFlagged) {
  auto scenario = [](World& w) {
    auto collective = w.stream("collective");
    BufferPtr whole = w.allocate(w.compute(), 4096);
    w.stamp(w.compute(), whole, 1);
    w.expect(*collective, whole, 1, "reads all");
    w.free(whole);
    BufferPtr big = w.allocate(w.copy(), 2048), part = w.allocate(w.copy(), 1024);
    w.stamp(w.copy(), part, 2, "writes a part");
  };
  Counts counts = explore("bfc", scenario);
  EXPECT_EQ(counts.flagged, counts.runs);
  EXPECT_NE(counts.report.find("1024 bytes"), std::string::npos) << counts.report;
  EXPECT_EQ(explore("frontier", scenario).flagged, 0);
}

// Random programs under all schedulers; the seed changes with THALWEG_SEED.
TEST(SoakTest, RandomProgramsAreNeverCorruptUnderTheFrontierRule) {
  const char* given = std::getenv("THALWEG_SEED");
  uint64_t seed = given ? std::strtoull(given, nullptr, 10) : 20'000;
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  for (uint64_t i = 0; i < 1500; ++i) {
    Program program = make_program(seed + i, {}, true);
    for (const char* name : runtime::sim::scheduler_names()) {
      auto scheduler = runtime::sim::make_scheduler(name, i);
      Outcome outcome = run_program(program, *scheduler, i % 4 == 0);
      ASSERT_FALSE(outcome.corrupt) << outcome.what << " under " << name << "\n" << program.text() << "\nschedule " << outcome.schedule;
      ASSERT_EQ(outcome.races, 0u) << outcome.race << "\nunder " << name << "\n" << program.text() << "\nschedule " << outcome.schedule;
    }
  }
}

TEST(SoakTest, RandomProgramsAreNeverCorruptOnThreads) {
  const char* given = std::getenv("THALWEG_SEED");
  uint64_t seed = given ? std::strtoull(given, nullptr, 10) : 70'000;
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  for (uint64_t i = 0; i < 400; ++i) {
    Program program = make_program(seed + i, {}, true);
    Outcome outcome = run_on_threads(program, i + 1, i % 2 == 0);
    ASSERT_FALSE(outcome.corrupt) << outcome.what << " on threads\n" << program.text();
    ASSERT_EQ(outcome.races, 0u) << outcome.race << "\non threads\n" << program.text();
  }
}

// What the mutation suite (mutation_main.cpp) relies on: without a rule, random programs do go wrong, and the race checker says so.
TEST(SoakTest, Case77ARuleThatIsSwitchedOffIsMissed) {
  for (runtime::Rule rule : {runtime::Rule::HeapChecksOrder, runtime::Rule::ReadWaitsForWrite, runtime::Rule::SymmetricWait}) {
    bool& off = runtime::rules_off[static_cast<size_t>(rule)];
    const bool before = std::exchange(off, true);
    int corrupt = 0;
    for (uint64_t seed = 1; seed <= 400 && corrupt == 0; ++seed) {
      auto scheduler = runtime::sim::make_scheduler("newest-first", seed);
      Outcome outcome = run_program(make_program(seed, {}, true), *scheduler, true);
      corrupt += outcome.corrupt;
      EXPECT_TRUE(!outcome.corrupt || outcome.races > 0);
    }
    off = before;
    EXPECT_GT(corrupt, 0) << "rule " << static_cast<int>(rule);
  }
}

// Whatever exhaustive search can corrupt, the checker flags from the first schedule that it sees.
TEST(SoakTest, TheCheckerFlagsWhatExhaustiveSearchCorrupts) {
  for (const char* rule : {"bfc", "pytorch", "rmm"}) {
    use_rule(rule);
    int corrupt = 0;
    for (uint64_t seed = 1; seed <= 300; ++seed) {
      Program program = make_program(seed, {3, 12, 4}, false);
      Explorer explorer;
      bool flagged = false, is_corrupt = false;
      for (int runs = 0; runs < 2000 && !is_corrupt; ++runs) {
        Outcome outcome = run_program(program, explorer.scheduler(), true);
        flagged = flagged || outcome.races > 0;
        is_corrupt = outcome.corrupt;
        EXPECT_TRUE(!is_corrupt || outcome.races > 0) << rule << ": a corrupt run was not flagged\n" << program.text() << "\n" << outcome.schedule;
        if (!explorer.next()) break;
      }
      corrupt += is_corrupt;
    }
    EXPECT_GT(corrupt, 0) << rule;
  }
  use_rule("frontier");
}

}  // namespace
}  // namespace thalweg::soak
