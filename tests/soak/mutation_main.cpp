// The mutation suite, case 77: runs the runtime's tests once with every ordering rule in force, which must pass, and once without each rule, which must fail.
#include <gtest/gtest.h>
#include <sys/time.h>
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

// A rule that is off may make a test hang, asleep or busy. Only the latter can be told from a machine that is slow: by the processor's time.
void limit_time() {
  constexpr itimerval kBusy{{0, 0}, {60, 0}};
  setitimer(ITIMER_PROF, &kBusy, nullptr);
  alarm(300);
}

// Whether all tests pass in a child process, without rule `off` (none when negative, and then without a limit of time).
bool tests_pass(int off, bool quiet) {
  std::fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    if (quiet && (!std::freopen("/dev/null", "w", stdout) || !std::freopen("/dev/null", "w", stderr))) _exit(3);
    if (off >= 0) limit_time();
    if (off >= 0) rules_off[static_cast<size_t>(off)] = true;
    testing::GTEST_FLAG(fail_fast) = off >= 0;
    int status = RUN_ALL_TESTS();
    std::fflush(stdout);
    _exit(status);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status) && !quiet) std::printf("the tests were ended by signal %d\n", WTERMSIG(status));
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
