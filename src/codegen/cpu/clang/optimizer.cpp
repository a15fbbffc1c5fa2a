// LLVM's O3 pipeline and its x86 code generator.
#include "codegen/cpu/clang/optimizer.h"

#include <llvm/Analysis/AliasAnalysis.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Transforms/IPO/AlwaysInliner.h>

#include "codegen/cpu/clang/target.h"

namespace thalweg::codegen::cpu::clang_backend {
namespace {

// LLVM's remarks and warnings (loops that a pragma could not vectorise) are not for users; errors go to the log.
class QuietHandler : public llvm::DiagnosticHandler {
 public:
  explicit QuietHandler(std::string& log) : log_(log) {}
  bool handleDiagnostics(const llvm::DiagnosticInfo& info) override {
    if (info.getSeverity() == llvm::DS_Error) {
      llvm::raw_string_ostream stream(log_);
      llvm::DiagnosticPrinterRawOStream printer(stream);
      info.print(printer);
    }
    return true;
  }

 private:
  std::string& log_;
};

// Scalar functions must end up inside the loop, or it does not vectorise; inlined at the start, they are not optimised one by one before.
void inline_scalar_functions(llvm::Module& module) {
  for (llvm::Function& function : module) {
    if (function.isDeclaration() || !function.hasLinkOnceLinkage() || function.hasFnAttribute(llvm::Attribute::NoInline)) continue;
    function.setComdat(nullptr);
    function.setLinkage(llvm::GlobalValue::InternalLinkage);
    function.addFnAttr(llvm::Attribute::AlwaysInline);
  }
}

void optimize(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = tuning.LoopUnrolling = tuning.LoopInterleaving = true;
  tuning.SLPVectorization = false;  // a tenth of the time, for nothing where loops do the work
  llvm::PassBuilder builder(&machine, tuning);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  functions.registerPass([&] { return builder.buildDefaultAAPipeline(); });
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  llvm::ModulePassManager passes;
  passes.addPass(llvm::AlwaysInlinerPass());
  passes.addPass(builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3));
  passes.run(module, modules);
}

}  // namespace

bool emit_object(llvm::Module& module, llvm::SmallVectorImpl<char>& object, std::string& log) {
  auto machine = make_target_machine();
  if (!machine) {
    log = "LLVM has no code generator for " + host_target().triple;
    return false;
  }
  module.getContext().setDiagnosticHandler(std::make_unique<QuietHandler>(log));
  module.setDataLayout(machine->createDataLayout());
  inline_scalar_functions(module);
  optimize(module, *machine);
  llvm::raw_svector_ostream out(object);
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, out, nullptr, llvm::CodeGenFileType::ObjectFile, /*DisableVerify=*/true)) {
    log = "LLVM's code generator cannot write object files";
    return false;
  }
  passes.run(module);
  return log.empty();
}

}  // namespace thalweg::codegen::cpu::clang_backend
