// The subcommands of the `thalweg` program.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace thalweg::tools_cli {

// Exit codes of every command.
inline constexpr int kGood = 0, kCheckFailed = 1, kBadInput = 2;

// `thalweg NAME arguments…`. Writes results to stdout and errors to stderr; gives the exit code. Throws Error for bad input; main() turns it into kBadInput.
int run_command(std::span<const std::string> arguments);
int check_command(std::span<const std::string> arguments);
int opt_command(std::span<const std::string> arguments);
// Judges the test programs whose paths come on stdin, one a line: for each a line "status, largest ULP, seconds, reason" with tabs between, status passed,
// failed or error.
int judge_command(std::span<const std::string> arguments);
// Compares random programs on a device, or after random passes, with the interpreter; prints a small program for each difference.
int random_command(std::span<const std::string> arguments);

}  // namespace thalweg::tools_cli
