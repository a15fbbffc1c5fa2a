// The mutation suite: runs the runtime's tests once with every ordering rule in force, which must pass, and once without each rule, which must fail.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "runtime/rules.h"

namespace {

using thalweg::runtime::rules_off;

constexpr const char* kNames[] = {
#define THALWEG_RULE(name, meaning) #name,
#include "runtime/rules.def"
#undef THALWEG_RULE
};

// Whether all tests pass in a child process, without rule `off` (none when negative).
bool tests_pass(int off, bool quiet) {
  std::fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    if (quiet && (!std::freopen("/dev/null", "w", stdout) || !std::freopen("/dev/null", "w", stderr))) _exit(3);
    alarm(120);  // a rule that is off may also hang
    if (off >= 0) rules_off[static_cast<size_t>(off)] = true;
    testing::GTEST_FLAG(fail_fast) = off >= 0;
    int status = RUN_ALL_TESTS();
    std::fflush(stdout);
    _exit(status);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

int main(int count, char** words) {
  testing::InitGoogleTest(&count, words);
  if (count == 2 && !std::strcmp(words[1], "--plain")) return RUN_ALL_TESTS();
  if (!tests_pass(-1, false)) {
    std::printf("the tests fail with every rule in force\n");
    return 1;
  }
  int survived = 0;
  for (size_t i = 0; i < std::size(kNames); ++i) {
    bool passed = tests_pass(static_cast<int>(i), true);
    std::printf("%-24s %s\n", kNames[i], passed ? "SURVIVED: no test fails without it" : "killed");
    survived += passed;
  }
  std::printf("%zu rules switched off, %d survived\n", std::size(kNames), survived);
  return survived == 0 ? 0 : 1;
}
