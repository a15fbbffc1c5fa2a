// Why a program was compiled: the difference to the most similar earlier one, in words.
#include <algorithm>
#include <sstream>

#include "lazy/lines.h"
#include "lazy/program.h"

namespace thalweg::lazy {
namespace {

std::string shape_text(const View& view) {
  std::ostringstream out;
  out << ir::name(view.dtype) << "[";
  for (int i = 0; i < view.rank; ++i) out << (i ? "," : "") << view.sizes[i];
  out << "]";
  return out.str();
}

std::string step_text(const ProgramSketch::Step& step) {
  std::string text = step.row->name;
  if (step.line) text += " at " + line_text(step.line);
  return text;
}

// Operations in common from the start.
size_t common_prefix(const ProgramSketch& a, const ProgramSketch& b, bool exact) {
  size_t i = 0;
  while (i < a.steps.size() && i < b.steps.size() && a.steps[i].row == b.steps[i].row && (!exact || a.steps[i].hash == b.steps[i].hash)) ++i;
  return i;
}

std::string describe(const ProgramSketch& now, const ProgramSketch& before) {
  const size_t same = common_prefix(now, before, false);
  if (same == now.steps.size() && same == before.steps.size()) {
    for (size_t i = 0; i < std::min(now.leaves.size(), before.leaves.size()); ++i)
      if (!now.leaves[i].same_as(before.leaves[i]))
        return "input " + std::to_string(i) + " changed from " + shape_text(before.leaves[i]) + " to " + shape_text(now.leaves[i]);
    const size_t exact = common_prefix(now, before, true);
    if (exact < now.steps.size()) return "an argument or shape changed in " + step_text(now.steps[exact]);
    if (now.outputs != before.outputs)
      return "the results that are still alive changed from " + std::to_string(before.outputs) + " to " + std::to_string(now.outputs);
    if (now.leaves.size() != before.leaves.size())
      return "tensors that were one are now several, or the reverse: " + std::to_string(before.leaves.size()) + " inputs became " +
             std::to_string(now.leaves.size());
    return "the same operations are connected differently, or a setting changed";
  }
  std::string text = "operation " + std::to_string(same) + " is ";
  text += same < now.steps.size() ? step_text(now.steps[same]) : "missing";
  text += same < before.steps.size() ? ", before it was " + step_text(before.steps[same]) : ", before there was none";
  return text + " (" + std::to_string(before.steps.size()) + " operations then, " + std::to_string(now.steps.size()) + " now)";
}

}  // namespace

ProgramSketch sketch(const PendingGraph& graph) {
  ProgramSketch out;
  for (const Node* node : graph.order) out.steps.push_back({node->row, node->hash, node->line});
  for (const Value* leaf : graph.leaves) out.leaves.push_back(leaf->layout);
  out.outputs = graph.outputs.size();
  return out;
}

std::string explain_difference(const ProgramSketch& now, std::span<const ProgramSketch* const> earlier) {
  const ProgramSketch* best = nullptr;
  double best_share = 0;
  for (const ProgramSketch* before : earlier) {
    const double longest = static_cast<double>(std::max({now.steps.size(), before->steps.size(), size_t{1}}));
    const double share = static_cast<double>(common_prefix(now, *before, false)) / longest;
    if (share > best_share) {
      best = before;
      best_share = share;
    }
  }
  if (!best || best_share < 0.3) return "first time";
  return describe(now, *best);
}

}  // namespace thalweg::lazy
