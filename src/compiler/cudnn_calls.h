// Attention and convolutions for cuDNN: which ops it takes, where their operands lie, and their steps.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "compiler/compiler.h"
#include "compiler/steps.h"
#include "libs/cuda/cudnn.h"

namespace thalweg::compiler {

// A custom call that a plan of cuDNN computes.
struct CudnnCall {
  // A tensor of the plan in the buffer of a value that is read.
  struct Read {
    int64_t id = 0;
    const ir::Value* base = nullptr;
    int64_t offset = 0;  // bytes
  };
  std::shared_ptr<const libs::cuda::cudnn::Plan> plan;
  std::vector<Read> reads;
  std::vector<int64_t> writes;  // the results' ids in the plan, in order
};
using CudnnCalls = std::unordered_map<const ir::Op*, CudnnCall>;

// The calls of a function whose layouts are not settled yet: how to plan each of them when they are.
using CudnnDrafts = std::unordered_map<const ir::Op*, std::function<CudnnCall(const ir::Op&)>>;

// What calls are planned for.
struct CudnnTarget {
  libs::cuda::cudnn::Gpu gpu;
  bool deterministic = true;  // nothing is chosen by measuring it
  bool tf32 = false;
};

// Replaces the attention composites that cuDNN may have kernels for (16-bit floats, narrow heads) by calls, before anything decomposes them. The sums of the
// forward pass reach the gradient in f32 where both stand in `function`.
void take_attention(ir::Function& function);

// Rewrites attention calls and convolutions of a simplified function that have a plan so that operands are read and results written where they lie: a result
// gets the order of dims that the operand has in memory. Attention without a plan is decomposed; convolutions without one stay.
CudnnDrafts draft_cudnn_calls(ir::Function& function, const CudnnTarget& target);
// The plans, once nothing that the calls read will be replaced any more. Throws Error(Unsupported) with the call when there is none after all.
CudnnCalls plan_cudnn_calls(const CudnnDrafts& drafts);

// Whether programs of `options` may call cuDNN: not on CPUs, without cuDNN, and on GPUs before compute capability 8.0. Starts nothing.
bool may_use_cudnn(const Options& options);
// Whether a simplified function holds anything that cuDNN might compute.
bool has_cudnn_work(const ir::Function& function);
// What calls of programs of `options` are planned for; starts cuDNN, and throws Error(Vendor) when it does not start.
CudnnTarget cudnn_target(const Options& options);

// For a call of a GPU's program that the host computes: where that is for want of a cuDNN, says so once a process on the standard error output. Any thread.
void note_host_call(const ir::Op& op);

// The step of a call that has a plan.
void add_cudnn_step(const CudnnCall& call, const ir::Op& op, int* temporaries, std::vector<Step>& steps);

}  // namespace thalweg::compiler
