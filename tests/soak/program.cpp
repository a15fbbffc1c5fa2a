// Making, running and printing random programs.
#include "tests/soak/program.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <random>
#include <sstream>

#include "runtime/race_checker.h"
#include "runtime/sim/sim_device.h"
#include "support/error.h"

namespace thalweg::soak {
namespace {

using runtime::BufferPtr;
using runtime::Stream;
using runtime::Submission;

// What is known of a buffer while a program is made.
struct Known {
  bool live = false, written = false;
};

class Maker {
 public:
  Maker(uint64_t seed, const Size& size, bool pressure) : random_(seed), size_(size), known_(size.buffers) {
    program_.seed = seed;
    program_.streams = 2 + below(size.streams - 1);
    program_.memory_bytes = size_t{64} << 20;
    if (pressure && below(2) == 0) {
      program_.memory_bytes = 1024u << below(3);
      if (below(2) == 0) program_.limit = 512u * (1 + below(4));
    }
    program_.deterministic = below(8) == 0;
    if (pressure) {
      program_.modes.poison = below(8) == 0;
      program_.modes.quarantine = below(8) == 0 ? below(4) : 0;
      program_.modes.delay = below(8) == 0 ? seed + 1 : 0;
      program_.symmetric = below(4) == 0;
    }
  }

  Program make() {
    while (static_cast<int>(program_.steps.size()) < size_.steps) add();
    return std::move(program_);
  }

 private:
  unsigned below(int bound) { return static_cast<unsigned>(random_() % static_cast<unsigned>(bound)); }
  uint8_t any_stream() { return static_cast<uint8_t>(below(program_.streams)); }
  // A buffer for which `fits`, or -1.
  template <class Fits>
  int pick(Fits fits) {
    unsigned start = below(size_.buffers);
    for (int i = 0; i < size_.buffers; ++i) {
      int buffer = static_cast<int>((start + i) % size_.buffers);
      if (fits(known_[buffer])) return buffer;
    }
    return -1;
  }
  void add() {
    switch (unsigned roll = below(100); roll < 28 ? 0 : roll < 70 ? 1 : roll < 94 ? 2 : roll < 97 ? 3 : roll < 99 ? 4 : 5) {
      case 0:
        return allocate();
      case 1:
        return kernel();
      case 2:
        return free();
      case 3:
        return host(Step::HostRead);
      case 4:
        return host(Step::HostWrite);
      default:
        return end_stream();
    }
  }
  void allocate() {
    int buffer = pick([](const Known& known) { return !known.live; });
    if (buffer < 0) return;
    known_[buffer] = {true, false};
    static constexpr uint16_t kSizes[] = {256, 256, 256, 512, 1024};
    Step step{Step::Allocate, any_stream(), static_cast<uint8_t>(buffer)};
    step.bytes = kSizes[below(5)];
    step.symmetric = program_.symmetric && below(2) == 0;
    program_.steps.push_back(std::move(step));
  }
  void kernel() {
    int output = pick([](const Known& known) { return known.live; });
    if (output < 0) return;
    Step step{Step::Kernel, any_stream(), static_cast<uint8_t>(output)};
    step.reads_output = known_[output].written && below(3) == 0;
    for (unsigned i = below(3); i > 0; --i) {
      int input = pick([](const Known& known) { return known.live && known.written; });
      if (input >= 0 && input != output) step.inputs.push_back(static_cast<uint8_t>(input));
    }
    known_[output].written = true;
    program_.steps.push_back(std::move(step));
  }
  void free() {
    int buffer = pick([](const Known& known) { return known.live; });
    if (buffer < 0) return;
    known_[buffer] = {};
    program_.steps.push_back({Step::Free, 0, static_cast<uint8_t>(buffer)});
  }
  void host(Step::Kind kind) {
    int buffer = pick([&](const Known& known) { return known.live && (known.written || kind == Step::HostWrite); });
    if (buffer < 0) return;
    known_[buffer].written = true;
    program_.steps.push_back({kind, 0, static_cast<uint8_t>(buffer)});
  }
  void end_stream() {
    if (program_.streams > 2) program_.steps.push_back({Step::EndStream, static_cast<uint8_t>(2 + below(program_.streams - 2))});
  }

  std::mt19937_64 random_;
  const Size size_;
  Program program_;
  std::vector<Known> known_;
};

// Runs one program.
class Run {
 public:
  // `scheduler` null: on threads by the seed `threads`.
  Run(const Program& program, runtime::sim::Scheduler* scheduler, uint64_t threads)
      : program_(program),
        buffers_(256),
        tags_(256),
        sim_({.page_bytes = 256,
              .range_bytes = size_t{64} << 20,
              .memory_bytes = program.memory_bytes,
              .scheduler = scheduler,
              .threads = threads,
              .modes = program.modes}) {
    sim_.device().set_memory_limit(program.limit);
    for (int i = 0; i < program.streams; ++i) made_.push_back(i < 2 ? nullptr : sim_.device().make_stream("stream " + std::to_string(i)));
  }

  Outcome run() {
    for (const Step& step : program_.steps) {
      sim_.host_step(step.kind != Step::Kernel && step.kind != Step::Free);
      take(step);
      if (is_corrupt_) break;
    }
    for (BufferPtr& buffer : buffers_) buffer.reset();
    sim_.host_step(false);
    sim_.run_all();
    outcome_.corrupt = is_corrupt_;
    outcome_.schedule = sim_.schedule();
    return std::move(outcome_);
  }

 private:
  Stream& stream(int index) {
    if (index == 0) return sim_.device().compute_stream();
    if (index == 1) return sim_.device().copy_stream();
    return *made_[index];
  }
  void take(const Step& step) {
    switch (step.kind) {
      case Step::Allocate:
        return allocate(step);
      case Step::Kernel:
        return kernel(step);
      case Step::Free:
        return buffers_[step.buffer].reset();
      case Step::HostRead:
        return host_read(step);
      case Step::HostWrite:
        return host_write(step);
      case Step::EndStream:
        made_[step.stream].reset();
        made_[step.stream] = sim_.device().make_stream("stream " + std::to_string(step.stream) + " again");
    }
  }
  void allocate(const Step& step) {
    try {
      buffers_[step.buffer] = stream(step.stream).allocate(step.bytes, {.deterministic = program_.deterministic, .symmetric = step.symmetric});
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::OutOfMemory) throw;
      buffers_[step.buffer].reset();  // later steps leave it out
      return;
    }
    tags_[step.buffer] = 0;
    const char* address = static_cast<const char*>(buffers_[step.buffer]->data());
    outcome_.addresses.push_back(address);
  }
  void kernel(const Step& step) {
    BufferPtr& output = buffers_[step.buffer];
    if (!output) return;
    Submission submission(stream(step.stream));
    submission.label("kernel").write(output);
    std::vector<std::pair<BufferView, uint64_t>> checks;
    for (uint8_t input : step.inputs) {
      if (!buffers_[input] || tags_[input] == 0) continue;
      submission.read(buffers_[input]);
      checks.push_back({view(buffers_[input]), tags_[input]});
    }
    if (step.reads_output && tags_[step.buffer] != 0) {
      submission.read(output);
      checks.push_back({view(output), tags_[step.buffer]});
    }
    uint64_t tag = tags_[step.buffer] = ++next_tag_ * 0x9e3779b97f4a7c15u | 1;
    submission.run([this, checks = std::move(checks), to = view(output), tag](void*) {
      for (const auto& [from, expected] : checks) check(from, expected);
      if (map_check(to)) stamp(to, tag);
    });
  }
  void host_read(const Step& step) {
    const BufferPtr& buffer = buffers_[step.buffer];
    if (!buffer || tags_[step.buffer] == 0) return;
    buffer->wait_written();
    if (auto* checker = runtime::race_checker.load()) checker->host_access({view(buffer).data, buffer->size(), false, buffer->life()});
    check(view(buffer), tags_[step.buffer]);
  }
  void host_write(const Step& step) {
    const BufferPtr& buffer = buffers_[step.buffer];
    if (!buffer) return;
    buffer->wait_unused();
    if (auto* checker = runtime::race_checker.load()) checker->host_access({view(buffer).data, buffer->size(), true, buffer->life()});
    stamp(view(buffer), tags_[step.buffer] = ++next_tag_ * 0x9e3779b97f4a7c15u | 1);
  }

  struct BufferView {
    char* data;
    size_t bytes;
  };
  static BufferView view(const BufferPtr& buffer) { return {static_cast<char*>(buffer->data()), buffer->size()}; }
  static void stamp(BufferView to, uint64_t tag) {
    for (size_t i = 0; i < to.bytes; i += 8) std::memcpy(to.data + i, &tag, 8);
  }
  bool map_check(BufferView at) {
    if (sim_.is_mapped(at.data, at.bytes)) return true;
    fault("memory was taken away under a kernel");
    return false;
  }
  void check(BufferView from, uint64_t expected) {
    if (!map_check(from)) return;
    for (size_t i = 0; i < from.bytes; i += 8) {
      uint64_t found;
      std::memcpy(&found, from.data + i, 8);
      if (found != expected) return fault("a read found another buffer's value");
    }
  }
  void fault(const char* what) {
    if (!is_corrupt_.exchange(true)) outcome_.what = what;
  }

  const Program& program_;
  std::vector<BufferPtr> buffers_;
  std::vector<uint64_t> tags_;  // last written, 0: nothing yet
  uint64_t next_tag_ = 0;
  Outcome outcome_;
  std::atomic<bool> is_corrupt_{false};
  // Last: their threads use the rest to their end.
  runtime::sim::SimDevice sim_;
  std::vector<std::unique_ptr<Stream>> made_;
};

}  // namespace

Program make_program(uint64_t seed, const Size& size, bool pressure) { return Maker(seed, size, pressure).make(); }

namespace {

Outcome run_with(const Program& program, runtime::sim::Scheduler* scheduler, uint64_t threads, bool check) {
  if (!check) return Run(program, scheduler, threads).run();
  runtime::RaceChecker checker;
  runtime::check_races(&checker);
  Outcome outcome = Run(program, scheduler, threads).run();
  runtime::check_races(nullptr);
  outcome.races = checker.count();
  if (auto races = checker.races(); !races.empty()) outcome.race = races.front().text();
  return outcome;
}

}  // namespace

Outcome run_program(const Program& program, runtime::sim::Scheduler& scheduler, bool check) { return run_with(program, &scheduler, 0, check); }

Outcome run_on_threads(const Program& program, uint64_t seed, bool check) { return run_with(program, nullptr, seed, check); }

std::string Program::text() const {
  std::ostringstream text;
  text << "program " << seed << ": " << streams << " streams, " << memory_bytes << " bytes of memory, limit " << limit
       << (deterministic ? ", deterministic" : "") << (modes.poison ? ", poison" : "") << ", quarantine " << modes.quarantine << ", delay " << modes.delay;
  for (const Step& step : steps) {
    text << "\n  ";
    switch (step.kind) {
      case Step::Allocate:
        text << "b" << +step.buffer << " = allocate " << step.bytes << (step.symmetric ? " symmetrically" : "") << " on " << +step.stream;
        break;
      case Step::Kernel:
        text << "kernel on " << +step.stream << " writes b" << +step.buffer << (step.reads_output ? " (read first)" : "");
        for (uint8_t input : step.inputs) text << " reads b" << +input;
        break;
      case Step::Free:
        text << "free b" << +step.buffer;
        break;
      case Step::HostRead:
        text << "host reads b" << +step.buffer;
        break;
      case Step::HostWrite:
        text << "host writes b" << +step.buffer;
        break;
      case Step::EndStream:
        text << "stream " << +step.stream << " ends and begins again";
        break;
    }
  }
  return text.str();
}

}  // namespace thalweg::soak
