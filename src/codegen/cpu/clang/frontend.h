// C++ text to an LLVM module, by Clang in this process.
#pragma once

#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>

#include <memory>
#include <string>
#include <string_view>

namespace thalweg::codegen::cpu::clang_backend {

// The module of `text`, unoptimised, or null with Clang's messages in `log`. `prelude` is parsed once a process and then read from memory in Clang's own
// precompiled form: the first call's prelude counts. Thread-safe, one context a call.
std::unique_ptr<llvm::Module> parse(llvm::LLVMContext& context, std::string_view prelude, std::string_view text, std::string& log);

}  // namespace thalweg::codegen::cpu::clang_backend
