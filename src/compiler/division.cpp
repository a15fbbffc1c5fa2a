// Layouts, products, fusion.
#include "compiler/division.h"

#include "compiler/assembly.h"
#include "compiler/layouts.h"
#include "passes/convolutions.h"

namespace thalweg::compiler {
namespace {

// A multiprocessor has time for about this many operations on an element while memory delivers the next one.
constexpr int kGpuDuplicateCost = 48;

}  // namespace

Division divide(ir::Function& function, const Options& options, const ir::Module* module, exec::ExecutableInfo& info) {
  CudnnDrafts drafts;
  if (may_use_cudnn(options) && has_cudnn_work(function)) drafts = draft_cudnn_calls(function, cudnn_target(options));
  passes::unfold_convolutions(function);
  settle_layouts(function);
  Division division;
  division.products = std::make_unique<ProductPlans>(plan_products(function, on_gpu(options)));
  division.cudnn_calls = std::make_unique<CudnnCalls>(plan_cudnn_calls(drafts));
  division.context = {division.products.get(), &options, module, &info};
  division.context.cudnn_calls = division.cudnn_calls.get();
  codegen::FusionOptions fusion_options;
  fusion_options.heavy = [&](const ir::Op& op) { return heavy_operands(op, division.context); };
  fusion_options.urgent = is_check;
  if (on_gpu(options)) fusion_options.duplicate_cost = kGpuDuplicateCost;
  division.fusion = codegen::fuse(function, fusion_options);
  return division;
}

}  // namespace thalweg::compiler
