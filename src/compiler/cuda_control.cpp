// if, case and while on GPUs.
#include <cstring>

#include "codegen/expression.h"
#include "compiler/cuda_steps.h"
#include "compiler/rewrite.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/staging.h"
#include "support/error.h"

namespace thalweg::compiler {
namespace {

using exec::CudaProgram;
using ir::OpCode;

int64_t bytes_of(const ir::Value* value) { return value->type.is_tensor() ? value->type.bytes() : 0; }

// A program inside another one; its scratch memory is an argument of the step.
struct Inner {
  std::shared_ptr<const CudaProgram> program;
  size_t arena = 0;  // index among the step's arguments

  void operator()(void* const* arguments, void* const* outputs, void* arena_address, void* native) const {
    const CudaProgram& p = *program;
    std::vector<void*> slots(p.slots());
    std::copy(arguments, arguments + p.argument_bytes.size(), slots.begin());
    std::copy(outputs, outputs + p.outputs.size(), slots.begin() + p.output_slot(0));
    slots[static_cast<size_t>(p.arena_slot())] = arena_address;
    for (size_t i = 0; i < p.outputs.size(); ++i) {
      if (!p.outputs[i].forward) continue;
      void* const ends[] = {arguments[p.outputs[i].alias], outputs[i]};
      exec::device_copy(p.outputs[i].bytes)(ends, native);
    }
    exec::run(p, std::move(slots), native);
  }
};

Inner compile_inner(const ir::Block& region, const std::vector<ir::Value*>& captured, const HeavyContext& context, Step& step) {
  CudaProgram program = compile_cuda_program(region_function(region, captured), *context.options, context.module);
  if (program.constant_buffer) context.held->push_back(program.constant_buffer);
  context.held->insert(context.held->end(), program.held.begin(), program.held.end());
  context.info->opaque_names.insert(context.info->opaque_names.end(), program.info.opaque_names.begin(), program.info.opaque_names.end());
  context.info->opaque_calls += program.info.opaque_calls;
  Inner inner{nullptr, step.args.size()};
  step.args.push_back({{nullptr, (*context.temporaries)++}, static_cast<int64_t>(std::max<size_t>(program.arena_bytes, 1)), true, false});
  inner.program = std::make_shared<const CudaProgram>(std::move(program));
  return inner;
}

Step step_of(const ir::Op& op, const std::vector<ir::Value*>& captured) {
  Step step;
  step.name = std::string(ir::name(op.code));
  step.fallible = true;  // programs inside may hold calls that fail
  for (const ir::Value* value : op.operands) step.args.push_back({{codegen::canonical(value), -1}, bytes_of(value), false, false});
  for (const ir::Value* value : captured) step.args.push_back({{codegen::canonical(value), -1}, bytes_of(value), false, false});
  for (const auto& result : op.results) step.args.push_back({{result.get(), -1}, bytes_of(result.get()), true, false});
  return step;
}

// The first `bytes` (at most 8) of device memory, once everything before on the stream has run.
int64_t read_now(runtime::Device& device, const void* address, size_t bytes, void* native) {
  using namespace runtime::cuda;
  std::shared_ptr<char> memory = pinned_memory(device, sizeof(int64_t));
  std::memset(memory.get(), 0, sizeof(int64_t));
  check(driver().copy_to_host(memory.get(), reinterpret_cast<DevicePtr>(address), bytes, static_cast<StreamHandle>(native)), "copy to the host");
  check(driver().stream_synchronize(static_cast<StreamHandle>(native)), "wait for a stream");
  int64_t value = 0;
  std::memcpy(&value, memory.get(), sizeof value);
  return value;
}

}  // namespace

void add_cuda_branch(const ir::Op& op, const HeavyContext& context, std::vector<Step>& steps) {
  const auto captured = captured_values(op);
  Step step = step_of(op, captured);
  std::vector<Inner> branches;
  for (const auto& region : op.regions) branches.push_back(compile_inner(*region, captured, context, step));
  step.device_call = [branches, is_if = op.code == OpCode::If, inputs = captured.size(), device = context.options->device](void* const* args, void* native) {
    const int64_t read = read_now(*device, args[0], is_if ? 1 : 4, native), count = static_cast<int64_t>(branches.size());
    int64_t branch = is_if ? (read ? 0 : 1) : static_cast<int32_t>(read);
    if (branch < 0 || branch >= count) branch = count - 1;
    const Inner& chosen = branches[static_cast<size_t>(branch)];
    chosen(args + 1, args + 1 + inputs, args[chosen.arena], native);
  };
  steps.push_back(std::move(step));
}

void add_cuda_while(const ir::Op& op, const HeavyContext& context, std::vector<Step>& steps) {
  const auto captured = captured_values(op);
  Step step = step_of(op, captured);
  const size_t states = op.operands.size(), extra = captured.size(), results = states + extra;
  const Inner condition = compile_inner(*op.regions[0], captured, context, step), body = compile_inner(*op.regions[1], captured, context, step);
  const size_t go = step.args.size();
  step.args.push_back({{nullptr, (*context.temporaries)++}, 1, true, false});
  // A state that the body computes in the place of its own argument stays in the result's buffer; others go back and forth between it and a second one.
  std::vector<size_t> second(states, 0), bytes(states);
  for (size_t i = 0; i < states; ++i) {
    bytes[i] = static_cast<size_t>(bytes_of(op.result(i)));
    if (body.program->outputs[i].alias == static_cast<int>(i) || bytes[i] == 0) continue;
    second[i] = step.args.size();
    step.args.push_back({{nullptr, (*context.temporaries)++}, bytes_of(op.result(i)), true, false});
  }
  step.device_call = [=, device = context.options->device](void* const* args, void* native) {
    auto copy = [&](void* from, void* to, size_t i) {
      void* const ends[] = {from, to};
      exec::device_copy(bytes[i])(ends, native);
    };
    std::vector<void*> now(states + extra), next(states);
    for (size_t i = 0; i < states; ++i) {
      now[i] = next[i] = args[results + i];
      if (second[i]) next[i] = args[second[i]];
      copy(args[i], now[i], i);
    }
    for (size_t i = 0; i < extra; ++i) now[states + i] = args[states + i];
    while (condition(now.data(), &args[go], args[condition.arena], native), read_now(*device, args[go], 1, native)) {
      body(now.data(), next.data(), args[body.arena], native);
      for (size_t i = 0; i < states; ++i) std::swap(now[i], next[i]);
    }
    for (size_t i = 0; i < states; ++i) copy(now[i], args[results + i], i);
  };
  steps.push_back(std::move(step));
}

}  // namespace thalweg::compiler
