// The pipeline as a list, and its runner.
#include "passes/pass.h"

#include "passes/canonicalize.h"
#include "passes/convolutions.h"
#include "passes/cse.h"
#include "passes/dce.h"
#include "passes/decompose.h"
#include "passes/fold.h"
#include "passes/inline_calls.h"

namespace thalweg::passes {
namespace {

constexpr Pass kLowering[] = {{"inline_calls", inline_calls}, {"decompose", decompose}, {"disjoint_convolutions", disjoint_convolutions}, {"dce", dce}};
constexpr Pass kSimplifying[] = {{"canonicalize", canonicalize}, {"fold", fold}, {"cse", cse}, {"dce", dce}};
constexpr int kRounds = 4;

}  // namespace

bool run(ir::Function& function, std::span<const Pass> pipeline, const ir::Module* module, const Observer& observer) {
  bool changed = false;
  for (const Pass& pass : pipeline) {
    if (!pass.run(function, module)) continue;
    changed = true;
    if (observer) observer(pass, function);
  }
  return changed;
}

bool simplify(ir::Function& function, const ir::Module* module, const Observer& observer) {
  bool changed = run(function, kLowering, module, observer);
  for (int round = 0; round < kRounds; ++round) {
    if (!run(function, kSimplifying, module, observer)) break;
    changed = true;
  }
  return changed;
}

}  // namespace thalweg::passes
