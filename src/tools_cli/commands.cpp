// run, check, opt and judge.
#include "tools_cli/commands.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <iostream>
#include <random>
#include <sstream>

#include "compiler/outline.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "passes/canonicalize.h"
#include "passes/convolutions.h"
#include "passes/cse.h"
#include "passes/dce.h"
#include "passes/decompose.h"
#include "passes/fold.h"
#include "passes/inline_calls.h"
#include "passes/pass.h"
#include "passes/recognize.h"
#include "tools_cli/arguments.h"
#include "tools_cli/engine.h"
#include "tools_cli/graph_picture.h"
#include "tools_cli/npz.h"
#include "tools_cli/oracle.h"
#include "tools_cli/program_file.h"
#include "tools_cli/verdict.h"

namespace thalweg::tools_cli {
namespace {

using Clock = std::chrono::steady_clock;
using Arrays = std::map<std::string, ir::Literal>;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Array number `i` under one of the names that arrays are saved with.
const ir::Literal* numbered(const Arrays& arrays, const std::vector<std::string>& prefixes, size_t i) {
  for (const std::string& prefix : prefixes) {
    const auto found = arrays.find(prefix + std::to_string(i));
    if (found != arrays.end()) return &found->second;
  }
  return nullptr;
}

// `literal` as an argument of `type`: 16- and 8-bit floats, which files cannot tell apart, take the argument's dtype.
ir::Literal fitted(ir::Literal literal, const ir::Type& type) {
  const bool untold = literal.type.dtype == ir::DType::BF16 || literal.type.dtype == ir::DType::F8E4M3FN || byte_size(type.dtype) == 1;
  if (untold && literal.type.dims == type.dims && byte_size(literal.type.dtype) == byte_size(type.dtype)) literal.type.dtype = type.dtype;
  return literal;
}

std::vector<ir::Literal> inputs_from(const std::string& path, const ir::Function& main) {
  const Arrays arrays = read_npz(path);
  std::vector<ir::Literal> inputs;
  for (size_t i = 0; i < main.body.args.size(); ++i) {
    const ir::Literal* array = numbered(arrays, {"in_", "arg_", "arr_"}, i);
    THALWEG_CHECK(array, Invalid, "inputs have no array in_", i, ": ", path, "; the program takes ", main.body.args.size());
    inputs.push_back(fitted(*array, main.body.args[i]->type));
    THALWEG_CHECK(inputs.back().type == main.body.args[i]->type, Invalid, "input in_", i, " has the wrong type: ", to_string(inputs.back().type),
                  ", the program takes ", to_string(main.body.args[i]->type));
  }
  return inputs;
}

// Floats evenly between -0.05 and 0.05, integers from 0 to 9, flags: inputs for timing a program whose data are not at hand.
std::vector<ir::Literal> random_inputs(const ir::Function& main, uint64_t seed) {
  std::vector<ir::Literal> inputs;
  std::mt19937_64 random(seed);
  for (const auto& arg : main.body.args) {
    ir::Literal& input = inputs.emplace_back(arg->type);
    const ir::DType dtype = arg->type.dtype;
    const int64_t bytes = byte_size(dtype);
    for (int64_t i = 0; i < arg->type.size(); ++i) {
      std::byte* const at = input.data.data() + i * bytes;
      const double x = static_cast<double>(random() >> 11) * 0x1p-53;
      if (is_complex(dtype)) {
        store_complex(dtype, at, x, -x);
      } else if (is_float(dtype)) {
        store_double(dtype, at, (x - 0.5) * 0.1);
      } else {
        store_int(dtype, at, static_cast<int64_t>(x * (dtype == ir::DType::I1 ? 2 : 10)));
      }
    }
  }
  return inputs;
}

// Judges results against the arrays out_i of a file; prints what is wrong.
bool expected_from(const std::string& path, const std::vector<ir::Literal>& results, double tolerance) {
  const Arrays arrays = read_npz(path);
  bool good = true;
  double worst = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    const ir::Literal* array = numbered(arrays, {"out_"}, i);
    THALWEG_CHECK(array, Invalid, "expected results have no array out_", i, ": ", path, "; the program gives ", results.size());
    const Verdict verdict = judge(results[i], fitted(*array, results[i].type), Rule::Tolerance, tolerance);
    worst = std::max(worst, verdict.absolute);
    if (verdict.good) continue;
    good = false;
    std::cout << "result " << i << " is wrong: " << verdict.wrong << " of " << verdict.total << " elements, first " << verdict.first << "\n";
  }
  std::cout << (good ? "results agree" : "results differ") << "; largest difference " << worst << "\n";
  return good;
}

std::string describe(const Check& check, const Verdict& verdict) {
  std::ostringstream text;
  text << "check." << check.name << ": " << verdict.wrong << " of " << verdict.total << " elements wrong";
  if (!std::isnan(verdict.ulp)) text << ", up to " << verdict.ulp << " ULP";
  text << ", first " << verdict.first;
  return text.str();
}

// The checks of a test program; text of the first that fails, and the largest distance.
std::string failed_check(const TestProgram& program, const std::vector<ir::Literal>& results, double& ulp) {
  std::string failed;
  for (const Check& check : program.checks) {
    const ir::Literal& expected = check.expected ? *check.expected : results[check.expected_result];
    const Verdict verdict = judge(results[check.result], expected, check.rule, check.limit);
    ulp = std::max(ulp, verdict.ulp);
    if (!verdict.good && failed.empty()) failed = describe(check, verdict);
  }
  return failed;
}

void print_results(const std::vector<ir::Literal>& results) {
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].type.size() <= 1000)
      std::cout << "out_" << i << " = " << print(results[i]) << "\n";
    else
      std::cout << "out_" << i << " : " << to_string(results[i].type) << " (long; write it with --out FILE.npz)\n";
  }
}

constexpr passes::Pass kPasses[] = {
    {"inline", passes::inline_calls},
    {"decompose", passes::decompose},
    {"recognize", passes::recognize},
    {"disjoint_convolutions", passes::disjoint_convolutions},
    {"unfold_convolutions", passes::unfold_convolutions},
    {"canonicalize", passes::canonicalize},
    {"fold", passes::fold},
    {"cse", passes::cse},
    {"dce", passes::dce},
};

std::vector<passes::Pass> pipeline_of(const std::string& names) {
  std::vector<passes::Pass> pipeline;
  std::stringstream stream(names);
  for (std::string name; std::getline(stream, name, ',');) {
    const auto* found = std::find_if(std::begin(kPasses), std::end(kPasses), [&](const passes::Pass& pass) { return pass.name == name; });
    THALWEG_CHECK(found != std::end(kPasses), Invalid, "unknown pass: ", name, "; thalweg --help lists them");
    pipeline.push_back(*found);
  }
  return pipeline;
}

// The picture of main as a compile divides it.
void write_graph(const ir::Module& module, const std::string& path) {
  const auto function = ir::clone(module.main());
  const std::vector<compiler::OutlineGroup> groups = compiler::outline(*function, &module);
  std::ofstream file(path);
  file << graph_svg(*function, groups);
  file.close();
  THALWEG_CHECK(file, Invalid, "picture could not be written: ", path, "; check that the folder exists and can be written");
}

// One test program, judged: status, ULP and reason.
std::string judged(const std::string& path, const std::string& device, bool keep_constants) {
  double ulp = 0;
  std::ostringstream line;
  try {
    const TestProgram program = take_apart(load_program(path), keep_constants);
    const std::vector<ir::Literal> results = make_engine(*program.module, device)->run(program.inputs);
    const std::string failed = program.checks.empty() ? "the program holds no check" : failed_check(program, results, ulp);
    line << (failed.empty() ? "passed" : "failed") << '\t' << ulp << '\t' << failed;
  } catch (const std::exception& error) {
    line << "error\t0\t" << error.what();
  }
  std::string text = line.str();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

}  // namespace

int run_command(std::span<const std::string> given) {
  const Arguments arguments(given, {"--inputs", "--out", "--expect", "--tolerance", "--device", "--repeat", "--random"}, {"--report"});
  TestProgram program = take_apart(load_program(arguments.file()));
  const ir::Function& main = program.module->main();
  if (arguments.has("--inputs")) program.inputs = inputs_from(arguments.value("--inputs"), main);
  if (arguments.has("--random")) program.inputs = random_inputs(main, static_cast<uint64_t>(arguments.integer("--random", 0)));
  THALWEG_CHECK(program.inputs.size() == main.body.args.size(), Invalid, "the program takes ", main.body.args.size(),
                " inputs; give them with --inputs FILE.npz, or let them be drawn with --random SEED");
  const auto prepared = Clock::now();
  const auto engine = make_engine(*program.module, arguments.value("--device", "interpreter"));
  const double prepare_seconds = seconds_since(prepared);
  if (arguments.has("--report")) std::cerr << "prepared in " << prepare_seconds << " s; " << engine->report() << "\n";
  const int64_t repeat = arguments.integer("--repeat", 1);
  THALWEG_CHECK(repeat >= 1, Invalid, "option needs a positive number: --repeat ", repeat);
  const std::vector<ir::Literal> results = engine->run(program.inputs);
  std::vector<double> times = repeat > 1 ? engine->time(program.inputs, repeat) : std::vector<double>();
  std::sort(times.begin(), times.end());
  if (repeat > 1) std::cout << "median of " << repeat << " runs: " << times[times.size() / 2] * 1e3 << " ms, fastest " << times[0] * 1e3 << " ms\n";
  if (arguments.has("--out")) {
    std::vector<std::pair<std::string, ir::Literal>> arrays;
    for (size_t i = 0; i < results.size(); ++i) arrays.emplace_back("out_" + std::to_string(i), results[i]);
    write_npz(arguments.value("--out"), arrays);
  }
  bool good = true;
  if (arguments.has("--expect")) good = expected_from(arguments.value("--expect"), results, arguments.real("--tolerance", 1e-5));
  if (!program.checks.empty()) {
    double ulp = 0;
    const std::string failed = failed_check(program, results, ulp);
    std::cout << (failed.empty() ? std::to_string(program.checks.size()) + " checks passed" : failed) << "\n";
    good = good && failed.empty();
  } else if (!arguments.has("--expect") && !arguments.has("--out") && repeat == 1) {
    print_results(results);
  }
  return good ? kGood : kCheckFailed;
}

int check_command(std::span<const std::string> given) {
  const Arguments arguments(given, {}, {});
  const auto module = load_program(arguments.file());
  size_t ops = 0;
  for (const auto& function : module->functions) ops += function->body.ops.size();
  std::cout << "good: " << module->functions.size() << " functions, " << ops << " ops\n";
  return kGood;
}

int opt_command(std::span<const std::string> given) {
  const Arguments arguments(given, {"--passes", "--graph"}, {"--print-after-each"});
  const auto module = load_program(arguments.file());
  const passes::Observer observer = [&](const passes::Pass& pass, const ir::Function& function) {
    ir::verify(function, module.get());
    if (arguments.has("--print-after-each")) std::cout << "// after " << pass.name << "\n" << print(function) << "\n";
  };
  ir::Function& main = module->main();
  if (arguments.has("--passes"))
    passes::run(main, pipeline_of(arguments.value("--passes")), module.get(), observer);
  else
    passes::simplify(main, module.get(), observer);
  if (arguments.has("--graph"))
    write_graph(*module, arguments.value("--graph"));
  else if (!arguments.has("--print-after-each"))
    std::cout << print(*module);
  return kGood;
}

int judge_command(std::span<const std::string> given) {
  const Arguments arguments(given, {"--device"}, {"--constants"}, false);
  const std::string device = arguments.value("--device", "interpreter");
  for (std::string path; std::getline(std::cin, path);) {
    const auto start = Clock::now();
    const std::string line = judged(path, device, arguments.has("--constants"));
    const size_t tab = line.find('\t', line.find('\t') + 1);
    std::cout << line.substr(0, tab) << '\t' << seconds_since(start) << line.substr(tab) << std::endl;
  }
  return kGood;
}

}  // namespace thalweg::tools_cli
