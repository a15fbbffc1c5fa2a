// The soak: random programs under hostile schedules; see usage().
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/sim/explorer.h"
#include "support/error.h"
#include "tests/soak/program.h"

namespace thalweg::soak {
namespace {

struct Arguments {
  uint64_t programs = 1000, seed = 1, only = 0;
  std::string rule = "frontier", scheduler = "all", replay;
  bool check = false, verbose = false, small = false;
};

[[noreturn]] void usage(const std::string& complaint) {
  std::fprintf(complaint.empty() ? stdout : stderr,
               "%s%susage: soak [--programs N] [--rule frontier|bfc|pytorch|rmm] [--scheduler NAME|all|threads|exhaustive] [--seed S] [--small] [--check]\n"
               "            [--verbose] [--program SEED [--replay SCHEDULE]]\n"
               "  Runs N random programs of several streams on a simulated device; a program counts as corrupt when any of its schedules corrupts it.\n"
               "  --scheduler  fifo, round-robin, newest-first, occupant-first, random, pct, starve; all: these, the random ones three times;\n"
               "               threads: each stream is a thread, which pauses at random;\n"
               "               exhaustive: every schedule (up to 20,000) of programs that --small makes small\n"
               "  --check      runs the race checker as well and counts the programs that it flags\n"
               "  --verbose    prints each corrupt program with its schedule; --program and --replay run that again\n",
               complaint.c_str(), complaint.empty() ? "" : "\n");
  std::exit(complaint.empty() ? 0 : 2);
}

Arguments parse(int count, char** words) {
  Arguments arguments;
  for (int i = 1; i < count; ++i) {
    std::string word = words[i];
    auto value = [&]() -> std::string {
      if (++i == count) usage(word + " needs a value");
      return words[i];
    };
    auto number = [&] {
      std::string text = value();
      char* end = nullptr;
      uint64_t result = std::strtoull(text.c_str(), &end, 10);
      if (text.empty() || *end != 0 || text[0] == '-') usage(word + " needs a number, not " + text);
      return result;
    };
    if (word == "--programs")
      arguments.programs = number();
    else if (word == "--seed")
      arguments.seed = number();
    else if (word == "--program")
      arguments.only = number();
    else if (word == "--rule")
      arguments.rule = value();
    else if (word == "--scheduler")
      arguments.scheduler = value();
    else if (word == "--replay")
      arguments.replay = value();
    else if (word == "--check")
      arguments.check = true;
    else if (word == "--verbose")
      arguments.verbose = true;
    else if (word == "--small")
      arguments.small = true;
    else if (word == "--help")
      usage("");
    else
      usage("unknown argument " + word);
  }
  return arguments;
}

// What the schedules of one program did.
struct Verdict {
  uint64_t schedules = 0;
  bool corrupt = false, flagged = false;
};

class Soak {
 public:
  explicit Soak(const Arguments& arguments) : arguments_(arguments) {}

  Verdict run(const Program& program) {
    verdict_ = {};
    if (!arguments_.replay.empty()) {
      auto scheduler = runtime::sim::make_replay(arguments_.replay);
      once(program, *scheduler, "replay");
    } else if (arguments_.scheduler == "exhaustive") {
      exhaust(program);
    } else if (arguments_.scheduler == "threads") {
      note(program, run_on_threads(program, program.seed + 1, arguments_.check), "threads");
    } else {
      for (const char* name : runtime::sim::scheduler_names()) {
        if (arguments_.scheduler != "all" && arguments_.scheduler != name) continue;
        bool is_random = !std::strcmp(name, "random") || !std::strcmp(name, "pct") || !std::strcmp(name, "starve");
        for (int i = 0; i < (is_random && arguments_.scheduler == "all" ? 3 : 1) && !verdict_.corrupt; ++i) {
          auto scheduler = runtime::sim::make_scheduler(name, program.seed * 31 + static_cast<uint64_t>(i));
          once(program, *scheduler, name);
        }
      }
    }
    return verdict_;
  }

 private:
  void once(const Program& program, runtime::sim::Scheduler& scheduler, const char* name) {
    note(program, run_program(program, scheduler, arguments_.check), name);
  }
  void note(const Program& program, const Outcome& outcome, const char* name) {
    ++verdict_.schedules;
    verdict_.flagged = verdict_.flagged || outcome.races > 0;
    if (arguments_.verbose && outcome.races > 0) std::printf("%s\n", outcome.race.c_str());
    if (!outcome.corrupt || verdict_.corrupt) return;
    verdict_.corrupt = true;
    if (arguments_.verbose) {
      std::printf("%s\n  %s under %s\n  replay with: --rule %s --program %llu%s --replay '%s'\n", program.text().c_str(), outcome.what.c_str(), name,
                  arguments_.rule.c_str(), static_cast<unsigned long long>(program.seed), arguments_.small ? " --small" : "", outcome.schedule.c_str());
    }
  }
  void exhaust(const Program& program) {
    runtime::sim::Explorer explorer;
    do {
      once(program, explorer.scheduler(), "an exhaustive search");
    } while (!verdict_.corrupt && verdict_.schedules < 20'000 && explorer.next());
  }

  const Arguments& arguments_;
  Verdict verdict_;
};

int soak(const Arguments& arguments) {
  use_rule(arguments.rule);
  if (arguments.scheduler != "all" && arguments.scheduler != "exhaustive" && arguments.scheduler != "threads")
    runtime::sim::make_scheduler(arguments.scheduler, 0);
  Size size;
  if (arguments.small) size = {3, 12, 4};
  bool pressure = arguments.rule == "frontier";
  auto start = std::chrono::steady_clock::now();
  Soak runner(arguments);
  uint64_t schedules = 0, corrupt = 0, flagged = 0, missed = 0;
  uint64_t programs = arguments.only ? 1 : arguments.programs;
  for (uint64_t i = 0; i < programs; ++i) {
    Program program = make_program(arguments.only ? arguments.only : arguments.seed * 1'000'003 + i, size, pressure);
    Verdict verdict = runner.run(program);
    schedules += verdict.schedules;
    corrupt += verdict.corrupt;
    flagged += verdict.flagged;
    missed += verdict.corrupt && !verdict.flagged;
  }
  std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  std::printf("rule %s, scheduler %s, seed %llu: %.1f s, %llu (program, schedule) pairs\n", arguments.rule.c_str(), arguments.scheduler.c_str(),
              static_cast<unsigned long long>(arguments.seed), time.count(), static_cast<unsigned long long>(schedules));
  if (arguments.check) {
    std::printf("the race checker flagged %llu programs and missed %llu corrupt ones\n", static_cast<unsigned long long>(flagged),
                static_cast<unsigned long long>(missed));
  }
  std::printf("%llu programs, %llu corrupt\n", static_cast<unsigned long long>(programs), static_cast<unsigned long long>(corrupt));
  return corrupt > 0 && arguments.rule == "frontier" ? 1 : 0;
}

}  // namespace
}  // namespace thalweg::soak

int main(int count, char** words) {
  thalweg::soak::Arguments arguments = thalweg::soak::parse(count, words);
  try {
    return thalweg::soak::soak(arguments);
  } catch (const thalweg::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
