// What the compiler makes of a function's ops, for people to look at: which ops share a kernel, which are library calls.
#pragma once

#include <vector>

#include "ir/graph.h"

namespace thalweg::compiler {

// Ops that run as one kernel, one product, or one call; in an order in which they may run.
struct OutlineGroup {
  enum class Kind : uint8_t { Kernel, Product, Call } kind = Kind::Kernel;
  std::vector<const ir::Op*> ops;
};

// Divides `function` (simplified; changed further as a compile does) into groups. Ops in no group cost nothing of their own: they are constants, or movements
// that the kernels reading them carry out while reading. Compiles nothing. The pointers name ops of `function`.
std::vector<OutlineGroup> outline(ir::Function& function, const ir::Module* module = nullptr);

}  // namespace thalweg::compiler
