// Outputs, donated arguments, scratch memory.
#include "exec/placing.h"

#include "support/error.h"

namespace thalweg::exec {

Placed place(const Frame& frame, runtime::Stream& stream, std::span<const Argument> arguments, runtime::Submission& submission, LaunchResult& result) {
  THALWEG_ASSERT(arguments.size() == frame.argument_bytes.size(), "arguments: ", arguments.size(), ", program takes ", frame.argument_bytes.size());
  Placed placed;
  placed.slots.resize(frame.slots());
  placed.scalars.resize(arguments.size());
  result.outputs.resize(frame.outputs.size());
  std::vector<bool> handed_on(arguments.size(), false);
  for (size_t i = 0; i < frame.outputs.size(); ++i) {
    const OutputPlan& plan = frame.outputs[i];
    const Argument* alias = plan.alias >= 0 ? &arguments[plan.alias] : nullptr;
    const bool reuse = alias && alias->donated && alias->buffer && !handed_on[plan.alias] && alias->buffer->size() >= plan.bytes;
    if (reuse) {
      result.outputs[i] = alias->buffer;
      handed_on[plan.alias] = true;
    } else {
      result.outputs[i] = stream.allocate(plan.bytes);
    }
    placed.slots[frame.output_slot(i)] = result.outputs[i]->data();
  }
  if (frame.arena_bytes > 0) {
    runtime::BufferPtr arena = stream.allocate(frame.arena_bytes);
    placed.slots[frame.arena_slot()] = arena->data();
    submission.write(std::move(arena));
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Argument& argument = arguments[i];
    if (!argument.buffer) {
      THALWEG_ASSERT(frame.argument_scalar[i], "argument ", i, " has no buffer");
      placed.scalars[i] = argument.scalar;
      continue;
    }
    THALWEG_ASSERT(argument.buffer->size() >= frame.argument_bytes[i], "argument ", i, " has ", argument.buffer->size(), " bytes, program takes ",
                   frame.argument_bytes[i]);
    placed.slots[i] = argument.buffer->data();
    submission.read(argument.buffer);  // also where it becomes an output: if what made it failed, this launch fails alike
  }
  for (size_t i = 0; i < frame.outputs.size(); ++i) {
    submission.write(result.outputs[i]);
    const OutputPlan& plan = frame.outputs[i];
    if (!plan.forward || plan.bytes == 0) continue;
    const int32_t to = frame.output_slot(i), from = frame.argument_slot(static_cast<size_t>(plan.alias));
    if (placed.slots[to] != placed.slots[from]) placed.copies.push_back({to, from, plan.bytes});
  }
  return placed;
}

}  // namespace thalweg::exec
