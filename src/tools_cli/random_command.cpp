// Random programs compared with the interpreter, and differing ones made small.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <iostream>
#include <map>
#include <random>
#include <sstream>

#include "interp/interpreter.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "passes/canonicalize.h"
#include "passes/cse.h"
#include "passes/dce.h"
#include "passes/decompose.h"
#include "passes/fold.h"
#include "passes/pass.h"
#include "tools_cli/arguments.h"
#include "tools_cli/commands.h"
#include "tools_cli/engine.h"
#include "tools_cli/random_program.h"

namespace thalweg::tools_cli {
namespace {

using Literals = std::vector<ir::Literal>;

// Another way to run programs than the interpreter's.
struct Runner {
  std::function<Literals(const ir::Function&, const Literals&)> run;
  // On a GPU functions such as exp are computed another way, so that results may differ by about this many units in the last place; else bits are compared.
  double ulps = 0;
  Literals operator()(const ir::Function& function, const Literals& inputs) const { return run(function, inputs); }
};
constexpr double kGpuUlps = 200;  // of f32 and f64, since what follows a function makes its error larger; of 16-bit floats four

Literals on_device(const ir::Function& function, const Literals& inputs, const std::string& device) {
  ir::Module module;
  module.functions.push_back(clone(function));
  return make_engine(module, device)->run(inputs);
}

// After a few passes in a random order that `seed` gives.
Literals after_passes(const ir::Function& function, const Literals& inputs, uint64_t seed) {
  static constexpr passes::Pass kPasses[] = {
      {"canonicalize", passes::canonicalize}, {"fold", passes::fold}, {"cse", passes::cse}, {"dce", passes::dce}, {"decompose", passes::decompose},
  };
  std::mt19937_64 random(seed);
  std::vector<passes::Pass> pipeline;
  for (auto n = 1 + random() % 6; n > 0; --n) pipeline.push_back(kPasses[random() % std::size(kPasses)]);
  const auto changed = clone(function);
  passes::run(*changed, pipeline, nullptr, [](const passes::Pass&, const ir::Function& f) { ir::verify(f); });
  return interp::run(*changed, inputs);
}

// How a run differs from the interpreter's. A sum of products may be a zero of either sign, so that kind is kept apart.
struct Difference {
  enum Kind { None, Failure, Value, ZeroSign } kind = None;
  std::string text;
};

// Whether two floats, or pairs of them, lie within `ulps`.
bool close(const ir::Literal& x, const ir::Literal& y, int64_t k, double ulps) {
  const bool complex = is_complex(x.type.dtype);
  const ir::DType dtype = x.type.dtype == ir::DType::C64 ? ir::DType::F32 : x.type.dtype == ir::DType::C128 ? ir::DType::F64 : x.type.dtype;
  if (!is_float(dtype)) return false;
  const double unit = dtype == ir::DType::F64 ? 0x1p-52 : dtype == ir::DType::F32 ? 0x1p-23 : dtype == ir::DType::F16 ? 0x1p-10 : 0x1p-7;
  const double allowed = unit * (dtype == ir::DType::F64 || dtype == ir::DType::F32 ? ulps : 4);
  const int64_t parts = complex ? 2 : 1, bytes = byte_size(dtype);
  for (int64_t i = k * parts; i < (k + 1) * parts; ++i) {
    const double a = load_double(dtype, x.data.data() + i * bytes), b = load_double(dtype, y.data.data() + i * bytes);
    if (a == b || (a != a && b != b)) continue;
    if (!(std::abs(a - b) <= allowed * std::max({std::abs(a), std::abs(b), 1e-300}))) return false;
  }
  return true;
}

Difference difference(const ir::Function& function, const Literals& inputs, const Runner& runner) {
  const Literals expected = interp::run(function, inputs);
  Literals got;
  try {
    got = runner(function, inputs);
  } catch (const std::exception& error) {
    return {Difference::Failure, std::string("error: ") + std::string(error.what()).substr(0, 400)};
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    if (same_bits(got[i], expected[i])) continue;
    const ir::Literal x = expand(got[i]), y = expand(expected[i]);
    const int64_t bytes = byte_size(x.type.dtype);
    for (int64_t k = 0; k < x.type.size(); ++k) {
      if (std::memcmp(x.data.data() + k * bytes, y.data.data() + k * bytes, static_cast<size_t>(bytes)) == 0) continue;
      if (is_float(x.type.dtype) && to_double(x, k) != to_double(x, k) && to_double(y, k) != to_double(y, k)) continue;
      if (runner.ulps > 0 && close(x, y, k, runner.ulps)) continue;
      std::ostringstream text;
      text.precision(17);
      text << "result " << i << " " << to_string(x.type) << " at " << k << ": got " << to_double(x, k) << ", the interpreter gives " << to_double(y, k);
      const bool zeros = is_float(x.type.dtype) && to_double(x, k) == 0 && to_double(y, k) == 0;
      return {zeros ? Difference::ZeroSign : Difference::Value, text.str()};
    }
    return {Difference::Value, "result " + std::to_string(i)};
  }
  return {};
}

// Makes a failing program small: one result, the fewest ops before it, and values that are computed turned into inputs where it still fails.
class Shrinker {
 public:
  Shrinker(RandomProgram program, const Runner& runner)
      : program_(std::move(program)), runner_(runner), kind_(difference(*program_.function, program_.inputs, runner).kind) {}

  RandomProgram run() {
    earliest_result();
    cut_operands();
    return std::move(program_);
  }

 private:
  bool fails(const RandomProgram& candidate) const {
    try {
      return difference(*candidate.function, candidate.inputs, runner_).kind == kind_;
    } catch (const std::exception&) {
      return false;
    }
  }

  static RandomProgram copy(const RandomProgram& program) { return {clone(*program.function), program.inputs}; }

  // Without ops and arguments that the result does not need.
  static void trim(RandomProgram& program) {
    passes::dce(*program.function);
    std::map<const ir::Value*, bool> used;
    mark(program.function->body, used);
    auto& args = program.function->body.args;
    for (size_t i = args.size(); i-- > 0;) {
      if (used[args[i].get()]) continue;
      args.erase(args.begin() + static_cast<ptrdiff_t>(i));
      program.inputs.erase(program.inputs.begin() + static_cast<ptrdiff_t>(i));
    }
    for (size_t i = 0; i < args.size(); ++i) args[i]->index = static_cast<uint32_t>(i);
  }

  static void mark(const ir::Block& block, std::map<const ir::Value*, bool>& used) {
    for (const auto& op : block.ops) {
      for (const ir::Value* operand : op->operands) used[operand] = true;
      for (const auto& region : op->regions) mark(*region, used);
    }
  }

  void earliest_result() {
    for (size_t i = 0; i + 1 < program_.function->body.ops.size(); ++i) {
      for (size_t r = 0; r < program_.function->body.ops[i]->results.size(); ++r) {
        RandomProgram candidate = copy(program_);
        auto& ops = candidate.function->body.ops;
        ops.back()->operands = {ops[i]->result(r)};
        trim(candidate);
        if (!fails(candidate)) continue;
        program_ = std::move(candidate);
        return;
      }
    }
  }

  // From the last op backwards: each value becomes an input that holds what the interpreter computes for it.
  void cut_operands() {
    for (size_t i = program_.function->body.ops.size(); i-- > 0;) {
      if (i + 2 > program_.function->body.ops.size()) continue;
      RandomProgram candidate = copy(program_);
      auto& ops = candidate.function->body.ops;
      if (ops[i]->results.size() != 1 || ops[i]->code == ir::OpCode::Return || ops.back()->operands[0] == ops[i]->result()) continue;
      RandomProgram prefix = copy(program_);
      prefix.function->body.ops.back()->operands = {prefix.function->body.ops[i]->result()};
      ir::Value* input = candidate.function->body.add_arg(ops[i]->result()->type);
      candidate.inputs.push_back(interp::run(*prefix.function, prefix.inputs)[0]);
      replace(candidate.function->body, ops[i]->result(), input);
      trim(candidate);
      if (fails(candidate)) {
        program_ = std::move(candidate);
        i = std::min(i, program_.function->body.ops.size());
      }
    }
  }

  static void replace(ir::Block& block, const ir::Value* from, ir::Value* to) {
    for (const auto& op : block.ops) {
      std::replace(op->operands.begin(), op->operands.end(), const_cast<ir::Value*>(from), to);
      for (const auto& region : op->regions) replace(*region, from, to);
    }
  }

  RandomProgram program_;
  const Runner& runner_;
  Difference::Kind kind_;
};

void show(uint64_t seed, const RandomProgram& program, const Runner& runner) {
  std::cout << "seed " << seed << ": " << difference(*program.function, program.inputs, runner).text << "\n" << print(*program.function);
  for (size_t i = 0; i < program.inputs.size(); ++i)
    if (program.inputs[i].type.size() <= 64) std::cout << "// %arg" << i << " = " << print(program.inputs[i]) << "\n";
  std::cout << std::endl;
}

}  // namespace

int random_command(std::span<const std::string> given) {
  const Arguments arguments(given, {"--count", "--seed", "--ops", "--largest", "--device"}, {"--keep-going", "--print"}, false);
  const auto first = static_cast<uint64_t>(arguments.integer("--seed", 1));
  const int64_t count = arguments.integer("--count", 100);
  const std::string device = arguments.value("--device", "cpu");
  THALWEG_CHECK(device == "cpu" || device == "cuda" || device == "passes", Invalid, "no such device: ", device, "; use cpu, cuda or passes");
  RandomOptions options;
  options.ops = static_cast<int>(arguments.integer("--ops", options.ops));
  options.largest = arguments.integer("--largest", options.largest);
  int64_t differing = 0;
  for (uint64_t seed = first; seed < first + static_cast<uint64_t>(count); ++seed) {
    const Runner runner{[&](const ir::Function& function, const Literals& inputs) {
                          return device == "passes" ? after_passes(function, inputs, seed) : on_device(function, inputs, device);
                        },
                        device == "cuda" ? kGpuUlps : 0};
    RandomProgram program = random_program(seed, options);
    ir::verify(*program.function);
    if (arguments.has("--print")) std::cout << "seed " << seed << ":\n" << print(*program.function) << std::endl;
    if (difference(*program.function, program.inputs, runner).kind == Difference::None) continue;
    ++differing;
    show(seed, Shrinker(std::move(program), runner).run(), runner);
    if (!arguments.has("--keep-going")) break;
  }
  std::cout << count << " programs from seed " << first << ": " << differing << " differ"
            << (differing && !arguments.has("--keep-going") ? " (stopped at the first)" : "") << "\n";
  return differing ? kCheckFailed : kGood;
}

}  // namespace thalweg::tools_cli
