// The `thalweg` program: runs, checks and transforms StableHLO files.
#include <iostream>
#include <new>

#include "support/error.h"
#include "tools_cli/commands.h"

namespace {

constexpr const char* kUsage = R"(usage: thalweg COMMAND …

  run FILE.mlir [--inputs IN.npz | --random SEED] [--out OUT.npz] [--expect OUT.npz [--tolerance T]] [--device interpreter|cpu|cuda] [--repeat N] [--report]
      runs the program's main on arrays in_0, in_1, … or on random ones; checks that the program holds are judged; --repeat times it
  check FILE.mlir
      parses and verifies
  opt FILE.mlir [--passes NAME,…] [--print-after-each] [--graph OUT.svg]
      prints the program after the passes: inline, decompose, recognize, disjoint_convolutions, unfold_convolutions, canonicalize, fold, cse, dce; without
      --passes: what every compile does first;
      --graph draws it instead, each kernel, product and call of the compiled program a box with its ops
  judge [--device interpreter|cpu|cuda] [--constants]
      judges the test programs named on stdin; see tools/stablehlo_suite
  random [--count N] [--seed S] [--ops K] [--largest ELEMENTS] [--device cpu|cuda|passes] [--keep-going] [--print]
      compares random programs with the interpreter, bit for bit, and shrinks those that differ; prints the seed of each

exit codes: 0 good, 1 a check in the program failed, 2 bad input
)";

}  // namespace

int main(int argc, char** argv) {
  namespace cli = thalweg::tools_cli;
  const std::vector<std::string> all(argv + 1, argv + argc);
  const std::string command = all.empty() ? "" : all[0];
  const std::span<const std::string> rest = std::span(all).subspan(all.empty() ? 0 : 1);
  try {
    if (command == "run") return cli::run_command(rest);
    if (command == "check") return cli::check_command(rest);
    if (command == "opt") return cli::opt_command(rest);
    if (command == "judge") return cli::judge_command(rest);
    if (command == "random") return cli::random_command(rest);
    const bool asked = command == "--help" || command == "-h" || command == "help";
    (asked ? std::cout : std::cerr) << kUsage;
    return asked ? cli::kGood : cli::kBadInput;
  } catch (const thalweg::Error& error) {
    std::cerr << error.what() << "\n";
  } catch (const std::bad_alloc&) {
    std::cerr << "out of memory: the program needs more than there is; use smaller shapes\n";
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
  }
  return cli::kBadInput;
}
