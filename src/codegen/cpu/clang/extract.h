// One kernel out of a module of several.
#pragma once

#include <llvm/IR/Module.h>

#include <memory>
#include <string>

namespace thalweg::codegen::cpu::clang_backend {

// A copy of the function `symbol` of `module` with all that it refers to, in the same context; null with the reason in `log` when there is no such function.
std::unique_ptr<llvm::Module> extract(const llvm::Module& module, const std::string& symbol, std::string& log);

}  // namespace thalweg::codegen::cpu::clang_backend
