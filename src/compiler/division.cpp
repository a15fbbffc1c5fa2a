// Layouts, products, fusion.
#include "compiler/division.h"

#include "compiler/assembly.h"
#include "compiler/layouts.h"
#include "passes/convolutions.h"

namespace thalweg::compiler {

Division divide(ir::Function& function, const Options& options, const ir::Module* module, exec::ExecutableInfo& info) {
  passes::unfold_convolutions(function);
  settle_layouts(function);
  Division division;
  division.products = std::make_unique<ProductPlans>(plan_products(function, on_gpu(options)));
  division.context = {division.products.get(), &options, module, &info};
  codegen::FusionOptions fusion_options;
  fusion_options.heavy = [&](const ir::Op& op) { return heavy_operands(op, division.context); };
  fusion_options.urgent = is_check;
  division.fusion = codegen::fuse(function, fusion_options);
  return division;
}

}  // namespace thalweg::compiler
