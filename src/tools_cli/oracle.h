// Test programs that carry their inputs and expected results: taken apart into a program of parameters, inputs and checks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "tools_cli/verdict.h"

namespace thalweg::tools_cli {

// One check.* call: result `result` of the program against `expected`, or against result `expected_result` when that is computed too.
struct Check {
  size_t result = 0;
  ir::LiteralPtr expected;
  size_t expected_result = 0;
  Rule rule = Rule::Equal;
  double limit = 0;
  std::string name;  // e.g. "expect_close"
};

struct TestProgram {
  std::unique_ptr<ir::Module> module;  // its main takes the inputs and returns what the checks look at; no check is left in it
  std::vector<ir::Literal> inputs;
  std::vector<Check> checks;
};

// Calls without arguments (@inputs, @expected) are run once by the interpreter and become parameters or expected values; check.* calls leave the program.
// A program without checks comes back with its own results and parameters. With `keep_constants` the calls stay and nothing becomes a parameter, so that a
// compiler sees constants.
TestProgram take_apart(std::unique_ptr<ir::Module> module, bool keep_constants = false);

}  // namespace thalweg::tools_cli
