// Follows references from the kernel and clones what they reach.
#include "codegen/cpu/clang/extract.h"

#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/Transforms/Utils/Cloning.h>

#include <vector>

namespace thalweg::codegen::cpu::clang_backend {
namespace {

// Globals that `root` reaches through operands, initialisers included.
class Reach {
 public:
  explicit Reach(const llvm::Function& root) {
    add(root);
    while (!todo_.empty()) {
      const llvm::GlobalValue* global = todo_.back();
      todo_.pop_back();
      if (auto* function = llvm::dyn_cast<llvm::Function>(global)) {
        for (const llvm::Instruction& instruction : llvm::instructions(function))
          for (const llvm::Use& operand : instruction.operands()) look(operand.get());
      } else {
        for (const llvm::Use& operand : global->operands()) look(operand.get());
      }
    }
  }
  bool has(const llvm::GlobalValue* global) const { return reached_.contains(global); }

 private:
  void add(const llvm::GlobalValue& global) {
    if (reached_.insert(&global).second) todo_.push_back(&global);
  }
  void look(const llvm::Value* value) {
    if (auto* global = llvm::dyn_cast<llvm::GlobalValue>(value)) return add(*global);
    auto* constant = llvm::dyn_cast<llvm::Constant>(value);
    if (!constant || !constants_.insert(constant).second) return;
    for (const llvm::Use& operand : constant->operands()) look(operand.get());
  }

  llvm::SmallPtrSet<const llvm::GlobalValue*, 32> reached_;
  llvm::SmallPtrSet<const llvm::Constant*, 32> constants_;
  std::vector<const llvm::GlobalValue*> todo_;
};

}  // namespace

std::unique_ptr<llvm::Module> extract(const llvm::Module& module, const std::string& symbol, std::string& log) {
  const llvm::Function* root = module.getFunction(symbol);
  if (!root || root->isDeclaration()) {
    log = "the kernel's text does not define " + symbol;
    return nullptr;
  }
  Reach reach(*root);
  llvm::ValueToValueMapTy map;
  auto copy = llvm::CloneModule(module, map, [&](const llvm::GlobalValue* global) { return reach.has(global); });
  std::vector<llvm::GlobalValue*> unused;
  for (llvm::GlobalValue& global : copy->global_values())
    if (global.isDeclaration() && global.use_empty()) unused.push_back(&global);
  for (llvm::GlobalValue* global : unused) global->eraseFromParent();
  return copy;
}

}  // namespace thalweg::codegen::cpu::clang_backend
