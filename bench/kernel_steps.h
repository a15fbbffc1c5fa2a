// A function as the kernels for GPUs that compute it one after the other, without the rest of the compiler: for benchmarks and tests.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "codegen/cuda/kernel_text.h"
#include "codegen/cuda/nest.h"
#include "codegen/cuda/scan.h"
#include "codegen/cuda/scatter.h"
#include "codegen/cuda/sort.h"
#include "codegen/fusion.h"
#include "codegen/scalar_text.h"
#include "codegen/scanning.h"
#include "codegen/scatter.h"
#include "codegen/sorting.h"

namespace thalweg::bench {

// A value's buffer, or a temporary by number.
using KernelPlace = std::pair<const ir::Value*, int>;

// One kernel, or a copy of the first place's bytes to the second.
struct KernelStep {
  codegen::cuda::Part part;
  std::vector<KernelPlace> args;
  std::vector<int64_t> bytes;  // of each argument
  bool copy = false;
};

// The steps of one function.
class KernelSteps {
 public:
  KernelSteps(const ir::Function& function, int multiprocessors) : multiprocessors_(multiprocessors) {
    codegen::FusionOptions options;
    options.heavy = [](const ir::Op& op) -> std::optional<std::vector<const ir::Value*>> {
      if (!codegen::is_scan(op) && !codegen::is_small_update(op) && (codegen::is_pullable(op) || codegen::is_contraction(op))) return {};
      if (op.code == ir::OpCode::Reduce && codegen::has_scalar_type(op.result()->type.dtype)) return {};
      return std::vector<const ir::Value*>(op.operands.begin(), op.operands.end());
    };
    fusion_ = codegen::fuse(function, options);
    for (const codegen::Work& work : fusion_.works) work.is_nest() ? add(work.nest) : add(*work.op);
  }

  const std::vector<KernelStep>& steps() const { return steps_; }
  // False when an op is no kernel's.
  bool complete() const { return complete_; }

 private:
  // `partial`: the temporary that a combination reads, else -1.
  void add(const codegen::NestCode& code, std::map<size_t, int>& partials, int partial) {
    if (code.units == 0) return;
    KernelStep step;
    step.part = {code.body, code.units, code.args.size(), code.lanes, code.shared_bytes};
    for (size_t i = 0; i < code.args.size(); ++i) {
      const codegen::NestArg& a = code.args[i];
      step.bytes.push_back(a.bytes);
      if (a.role != codegen::NestArg::Role::Partial) {
        step.args.emplace_back(a.role == codegen::NestArg::Role::Read ? codegen::canonical(a.value) : a.value, -1);
      } else if (a.scratch >= 0) {
        const auto [it, fresh] = scratch_.try_emplace(a.scratch, temporaries_);
        temporaries_ += fresh ? 1 : 0;
        step.args.emplace_back(nullptr, it->second);
      } else {
        if (partial < 0) partials[i] = temporaries_++;
        step.args.emplace_back(nullptr, partial < 0 ? partials[i] : partial);
      }
    }
    steps_.push_back(std::move(step));
  }
  void add(const codegen::Nest& nest) {
    const auto is_buffer = [this](const ir::Value* value) { return fusion_.buffers.count(value) != 0; };
    for (const codegen::Nest& piece : codegen::cuda::pieces(nest, is_buffer, multiprocessors_)) {
      const codegen::NestCode code = codegen::cuda::write_nest(piece, is_buffer, multiprocessors_);
      std::map<size_t, int> partials, none;
      add(code, partials, -1);
      for (const codegen::NestPartial& partial : code.partials) {
        const ir::Op& op = *partial.result->def;
        add(codegen::cuda::write_combine(partial, codegen::canonical(op.operands[op.results.size() + partial.result->index])), none, partials.at(partial.arg));
      }
    }
  }
  void copy(const ir::Value* from, const ir::Value* to) {
    const int64_t bytes = to->type.bytes();
    if (bytes > 0) steps_.push_back({{}, {{codegen::canonical(from), -1}, {to, -1}}, {bytes, bytes}, true});
  }
  void add(const std::vector<codegen::NestCode>& codes) {
    std::map<size_t, int> partials;
    scratch_.clear();
    for (const codegen::NestCode& code : codes) add(code, partials, -1);
  }
  void add(const ir::Op& op) {
    std::map<size_t, int> partials;
    if (op.code == ir::OpCode::SelectAndScatter && codegen::is_scatter(op)) {
      add(codegen::cuda::write_select_and_scatter(op), partials, -1);
    } else if (codegen::is_scatter(op)) {
      for (size_t i = 0; i < op.results.size(); ++i) copy(op.operand(i), op.result(i));
      if (op.result()->type.size() > 0 && op.operand(op.results.size() + 1)->type.size() > 0) add(codegen::cuda::write_scatter(op));
    } else if (codegen::is_scan(op)) {
      add(codegen::cuda::write_scan(op, multiprocessors_), partials, -1);
    } else if (codegen::is_small_update(op)) {
      copy(op.operand(0), op.result());
      add(codegen::write_small_update(op), partials, -1);
    } else if (codegen::is_sort(op)) {
      add(codegen::cuda::write_sort(op));
    } else {
      complete_ = false;
    }
  }

  int multiprocessors_, temporaries_ = 0;
  bool complete_ = true;
  codegen::FusionResult fusion_;
  std::map<int, int> scratch_;  // temporaries of the op being added
  std::vector<KernelStep> steps_;
};

}  // namespace thalweg::bench
