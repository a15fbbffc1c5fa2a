// An LLVM module to the bytes of an object file.
#pragma once

#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/Module.h>

#include <string>

namespace thalweg::codegen::cpu::clang_backend {

// Optimises `module` for this machine and writes its object file to `object`; false with the reason in `log`. Thread-safe, one module a call.
bool emit_object(llvm::Module& module, llvm::SmallVectorImpl<char>& object, std::string& log);

}  // namespace thalweg::codegen::cpu::clang_backend
