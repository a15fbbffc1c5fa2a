// The machine that code is made for: this one.
#pragma once

#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <string>
#include <vector>

namespace thalweg::codegen::cpu::clang_backend {

// Triple, CPU and features of the running machine; initialises LLVM's x86 back end on first use.
struct HostTarget {
  std::string triple, cpu, features;
  std::vector<std::string> feature_list;  // "+avx2", "-sse4a", …
  int vector_bits = 256;                  // the widest vectors that pay on this CPU
};
const HostTarget& host_target();
// A fresh code generator for it; one serves one thread at a time.
std::unique_ptr<llvm::TargetMachine> make_target_machine();

}  // namespace thalweg::codegen::cpu::clang_backend
