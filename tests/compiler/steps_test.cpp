// The order of steps after bundling: whatever is moved, a step stays behind what it waits for.
#include "compiler/steps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace thalweg::compiler {
namespace {

StepArg scratch(int number, bool write) { return {{nullptr, number}, 64, write, false}; }

// A kernel or a call, named by `name`, over temporaries.
Step step(const std::string& name, std::vector<StepArg> args, bool kernel) {
  Step made;
  if (!kernel) {
    made.name = name, made.args = std::move(args);
    made.call = [](void* const*) {};
    return made;
  }
  KernelPart part;
  part.body = name, part.args = std::move(args), part.units = 1;
  made.parts.push_back(std::move(part));
  return made;
}

// Where each of the steps went: index of its command, and within a kernel of its part.
std::pair<size_t, size_t> place(const std::vector<Step>& steps, const std::string& name) {
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].name == name && !name.empty()) return {i, 0};
    for (size_t p = 0; p < steps[i].parts.size(); ++p)
      if (steps[i].parts[p].body == name) return {i, p + 1};
  }
  ADD_FAILURE() << name << " is lost";
  return {0, 0};
}

TEST(Steps, KernelsOfOneOpKeepTheirOrderThroughScratchMemory) {
  // The first kernel's writes are read by nobody else's reads: all of its op's kernels count the scratch memory as written.
  std::vector<Step> steps;
  steps.push_back(step("prepare", {scratch(0, true)}, true));
  steps.push_back(step("main", {scratch(0, true), scratch(1, true)}, true));
  steps.push_back(step("use", {scratch(1, false), scratch(2, true)}, true));
  bundle(steps);
  EXPECT_LT(place(steps, "prepare").first, place(steps, "main").first);
  EXPECT_LT(place(steps, "main").first, place(steps, "use").first);
}

TEST(Steps, RandomStepsStayBehindWhatTheyWaitFor) {
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    std::vector<Step> steps;
    std::vector<std::vector<StepArg>> args;
    const int count = 2 + static_cast<int>(random() % 12);
    for (int i = 0; i < count; ++i) {
      std::vector<StepArg> mine;
      for (int number = 0; number < 6; ++number)
        if (random() % 4 == 0) mine.push_back(scratch(number, random() % 2 == 0));
      args.push_back(mine);
      steps.push_back(step("s" + std::to_string(i), mine, random() % 4 != 0));
    }
    bundle(steps);
    for (int a = 0; a < count; ++a)
      for (int b = a + 1; b < count; ++b) {
        const bool meet = std::any_of(args[a].begin(), args[a].end(), [&](const StepArg& x) {
          return std::any_of(args[b].begin(), args[b].end(), [&](const StepArg& y) { return x.buffer == y.buffer && (x.write || y.write); });
        });
        if (meet) ASSERT_LT(place(steps, "s" + std::to_string(a)).first, place(steps, "s" + std::to_string(b)).first) << "seed " << seed << ", round " << round;
      }
  }
}

}  // namespace
}  // namespace thalweg::compiler
