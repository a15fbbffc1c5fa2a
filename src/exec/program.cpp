// Running a program's commands, and launching it on a stream.
#include "exec/program.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "exec/placing.h"
#include "exec/profile.h"
#include "libs/cpu/blas.h"
#include "libs/cpu/parallel.h"
#include "support/error.h"

namespace thalweg::exec {
namespace {

// Resolves references of one command after the other into one reused array.
class Runner {
 public:
  explicit Runner(void* const* slots) : slots_(slots) {}

  void operator()(const KernelCommand& command) {
    void* const* args = resolve(command.args);
    if (command.units <= command.grain) {
      command.fn(args, 0, command.units);
    } else {
      libs::cpu::parallel_for(command.units, command.grain, [&](int64_t begin, int64_t end) { command.fn(args, begin, end); });
    }
  }
  void operator()(const GemmCommand& command) {
    if (command.element == Element::F64) {
      gemm<double>(command);
    } else {
      gemm<float>(command);
    }
  }
  void operator()(const CallCommand& command) { command.fn(resolve(command.args)); }

 private:
  void* address(const Ref& ref) const { return static_cast<char*>(slots_[ref.slot]) + ref.offset; }
  void* const* resolve(const std::vector<Ref>& refs) {
    args_.resize(std::max<size_t>(refs.size(), args_.size()));
    for (size_t i = 0; i < refs.size(); ++i) args_[i] = address(refs[i]);
    return args_.data();
  }
  template <class T>
  void gemm(const GemmCommand& g) {
    const T *a = static_cast<const T*>(address(g.a)), *b = static_cast<const T*>(address(g.b));
    T* c = static_cast<T*>(address(g.c));
    auto one = [&](int64_t i) {
      libs::cpu::gemm(g.trans_a, g.trans_b, g.m, g.n, g.k, T(1), a + g.a_offsets[i], g.lda, b + g.b_offsets[i], g.ldb, T(0), c + g.c_offsets[i], g.ldc);
    };
    const int64_t batch = static_cast<int64_t>(g.a_offsets.size());
    if (batch == 1) return one(0);
    const int64_t grain = std::max<int64_t>(1, (int64_t{1} << 19) / std::max<int64_t>(1, g.m * g.n * g.k));
    libs::cpu::parallel_for(batch, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) one(i);
    });
  }

  void* const* slots_;
  std::vector<void*> args_;
};

std::string name_of(const Command& command) {
  if (auto kernel = std::get_if<KernelCommand>(&command)) return "kernel " + kernel->name;
  if (auto call = std::get_if<CallCommand>(&command)) return "call " + call->name;
  const GemmCommand& g = std::get<GemmCommand>(command);
  return "product " + std::to_string(g.a_offsets.size()) + " x " + std::to_string(g.m) + "x" + std::to_string(g.n) + "x" + std::to_string(g.k) +
         (g.trans_a ? " T" : " N") + (g.trans_b ? "T" : "N");
}

void run_profiled(const Program& program, Runner& runner) {
  for (const Command& command : program.commands) {
    const auto start = std::chrono::steady_clock::now();
    std::visit(runner, command);
    profile(name_of(command), std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
}

// What one launch keeps until its work has run.
struct Launch {
  std::shared_ptr<const Program> program;
  Placed placed;
};

class ProgramExecutable final : public Executable {
 public:
  explicit ProgramExecutable(Program program) : program_(std::make_shared<const Program>(std::move(program))) {}
  const ExecutableInfo& info() const override { return program_->info; }
  LaunchResult launch(runtime::Stream& stream, std::span<const Argument> arguments) const override;

 private:
  std::shared_ptr<const Program> program_;
};

LaunchResult ProgramExecutable::launch(runtime::Stream& stream, std::span<const Argument> arguments) const {
  const Program& p = *program_;
  auto launch = std::make_shared<Launch>();
  launch->program = program_;
  runtime::Submission submission(stream);
  LaunchResult result;
  launch->placed = place(p, stream, arguments, submission, result);
  std::vector<void*>& slots = launch->placed.slots;
  for (size_t i = 0; i < arguments.size(); ++i)
    if (!arguments[i].buffer) slots[i] = &launch->placed.scalars[i];
  for (size_t i = 0; i < p.constants.size(); ++i) slots[p.constant_slot(i)] = const_cast<std::byte*>(p.constants[i].data());
  submission.label("program");
  submission.run([launch](void*) {
    void* const* at = launch->placed.slots.data();
    for (const Placed::Copy& copy : launch->placed.copies) std::memcpy(at[copy.to], at[copy.from], copy.bytes);
    run(*launch->program, at);
  });
  return result;
}

}  // namespace

void run(const Program& program, void* const* slots) {
  Runner runner(slots);
  if (profiling()) return run_profiled(program, runner);
  for (const Command& command : program.commands) std::visit(runner, command);
}

NestedRun::NestedRun(const Program& program)
    : program_(program), slots_(program.slots()), arena_(program.arena_bytes ? new std::byte[program.arena_bytes + 64] : nullptr) {
  for (size_t i = 0; i < program.constants.size(); ++i) slots_[program.constant_slot(i)] = const_cast<std::byte*>(program.constants[i].data());
  slots_[program.arena_slot()] = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(arena_.get()) + 63) / 64 * 64);
}

void NestedRun::operator()(void* const* arguments, void* const* outputs) {
  std::copy(arguments, arguments + program_.argument_bytes.size(), slots_.begin());
  std::copy(outputs, outputs + program_.outputs.size(), slots_.begin() + program_.output_slot(0));
  for (size_t i = 0; i < program_.outputs.size(); ++i) {
    const OutputPlan& plan = program_.outputs[i];
    if (plan.forward && outputs[i] != arguments[plan.alias]) std::memcpy(outputs[i], arguments[plan.alias], plan.bytes);
  }
  run(program_, slots_.data());
}

std::shared_ptr<const Executable> make_executable(Program program) { return std::make_shared<ProgramExecutable>(std::move(program)); }

}  // namespace thalweg::exec
