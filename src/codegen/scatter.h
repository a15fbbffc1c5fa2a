// Kernels of scatter, select_and_scatter and small updates of large tensors: updates in the order of the indices, so results never depend on threads.
#pragma once

#include <string>
#include <vector>

#include "codegen/nest.h"

namespace thalweg::codegen {

// True for the ops of this file with element types that kernels take.
bool is_scatter(const ir::Op& op);
// Where a scatter's updates go, as text: element `place` of the results gets element `source` of the updates, for the window variables w0, w1, … and the
// scatter variables s0, s1, …
struct ScatterPlan {
  ir::Dims window, scatter;   // extents of the updates' window dims and of the others, in order
  std::vector<NestArg> args;  // indices, updates, results
  std::string pointers;       // p0, p1, …, in their order
  std::string start;          // statements that depend on the scatter variables
  std::string inside;         // the condition under which an element lies in the results; empty when always
  bool whole = true;          // windows of different places never overlap
  IndexSpace space;
  std::vector<int> window_vars;  // their atoms
  Index place, source;
};
ScatterPlan plan_scatter(const ir::Op& op);
// Text that gives the variables `prefix`0, `prefix`1, … of a row-major number over `dims`.
std::string decode_text(const std::string& from, const std::string& prefix, const ir::Dims& dims);
// The kernel of a scatter whose results already hold the operands' elements. Args: indices, updates, results.
NestCode write_scatter(const ir::Op& op);
// True for a dynamic_update_slice that is small beside its operand, an argument: worth writing into a copy, which a donated argument makes needless.
bool is_small_update(const ir::Op& op);
// Its kernel, whose result already holds the operand's elements. Args: update, starts, result.
NestCode write_small_update(const ir::Op& op);
// The kernel of a select_and_scatter. Args: operand, source, result; and the initial value unless it is a constant.
NestCode write_select_and_scatter(const ir::Op& op);

}  // namespace thalweg::codegen
