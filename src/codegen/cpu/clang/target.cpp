// Asks LLVM what CPU this is.
#include "codegen/cpu/clang/target.h"

#include <llvm/ADT/StringMap.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/TargetParser/Host.h>

#include <algorithm>

namespace thalweg::codegen::cpu::clang_backend {
namespace {

// 512-bit vectors cost clock speed on the first CPUs that had them.
bool wide_vectors_pay(const std::string& cpu) { return cpu != "skylake-avx512" && cpu != "cascadelake" && cpu != "cooperlake" && cpu != "cannonlake"; }

HostTarget find_host() {
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86AsmPrinter();
  HostTarget host;
  host.triple = llvm::sys::getProcessTriple();
  host.cpu = llvm::sys::getHostCPUName().str();
  for (const auto& feature : llvm::sys::getHostCPUFeatures()) host.feature_list.push_back((feature.getValue() ? "+" : "-") + feature.getKey().str());
  std::sort(host.feature_list.begin(), host.feature_list.end());
  for (const auto& feature : host.feature_list) {
    host.features += (host.features.empty() ? "" : ",") + feature;
    if (feature == "+avx512f" && wide_vectors_pay(host.cpu)) host.vector_bits = 512;
  }
  return host;
}

}  // namespace

const HostTarget& host_target() {
  static const auto* host = new HostTarget(find_host());
  return *host;
}

std::unique_ptr<llvm::TargetMachine> make_target_machine() {
  const HostTarget& host = host_target();
  std::string error;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(host.triple, error);
  if (!target) return nullptr;
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(host.triple, host.cpu, host.features, options, llvm::Reloc::PIC_,
                                                                          llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default, /*JIT=*/true));
}

}  // namespace thalweg::codegen::cpu::clang_backend
