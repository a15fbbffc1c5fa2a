// Groups a function's ops into nests and single heavy ops; decides which values get buffers.
#pragma once

#include <functional>
#include <unordered_set>
#include <vector>

#include "codegen/nest.h"
#include "ir/graph.h"

namespace thalweg::codegen {

// One piece of work: a nest, or one op that something else than a nest computes.
struct Work {
  Nest nest;                   // members empty for a heavy op
  const ir::Op* op = nullptr;  // the heavy op
  bool is_nest() const { return op == nullptr; }
};

struct FusionOptions {
  // The values (canonical) that a heavy op reads from buffers, or nothing when the op is not heavy: then it must be pullable, a reduce or a contraction.
  std::function<std::optional<std::vector<const ir::Value*>>(const ir::Op&)> heavy;
  // Scalar operations up to which recomputing a value that several read is cheaper than a buffer, when it reads one large value itself.
  int duplicate_cost = 6;
  // Heavy ops that run as soon as their operands are there; may be empty.
  std::function<bool(const ir::Op&)> urgent;
};

struct FusionResult {
  std::vector<Work> works;  // in an order where producers come first
  // Canonical values in buffers: arguments, large constants, results of works.
  std::unordered_set<const ir::Value*> buffers;
};

// Divides the function into nests and into works that are not nests; the function must stay as it is while the result is in use.
FusionResult fuse(const ir::Function& function, const FusionOptions& options);

// True for a constant that lies in a buffer instead of in the text.
bool is_large_constant(const ir::Op& op);

}  // namespace thalweg::codegen
