// What a pass is, and the runner of pipelines.
#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "ir/graph.h"

namespace thalweg::passes {

// Changes a function without changing what it computes; true when it changed something. `module` resolves calls and may be null.
using PassFn = bool (*)(ir::Function& function, const ir::Module* module);

// A pass and what reports call it.
struct Pass {
  std::string_view name;
  PassFn run;
};

// Called after each pass that changed something, e.g. with the verifier.
using Observer = std::function<void(const Pass& pass, const ir::Function& function)>;

// Runs the passes in order, once each; true when any changed something.
bool run(ir::Function& function, std::span<const Pass> pipeline, const ir::Module* module = nullptr, const Observer& observer = {});

// The pipeline before fusion, and what every compile calls: plain ops, no calls, canonical forms, no dead or common subexpressions. Repeats the simplifying
// part while it finds something, a few times at most.
bool simplify(ir::Function& function, const ir::Module* module = nullptr, const Observer& observer = {});

}  // namespace thalweg::passes
