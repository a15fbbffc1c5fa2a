// Heavy ops of a GPU's programs: products, checks, control flow.
#pragma once

#include "compiler/heavy.h"

namespace thalweg::compiler {

// The product by cuBLASLt: its first choice in deterministic programs, else the way that was measured fastest.
void add_cuda_product(const ProductPlan& plan, const ir::Op& op, const HeavyContext& context, std::vector<Step>& steps);
// A check of indices or of finite numbers: kernels report to the host, which raises when it sees the launch complete.
void add_cuda_check(const ir::Op& op, const std::string& message, const HeavyContext& context, std::vector<Step>& steps);
// if, case and while: the host waits for what decides, then puts the chosen program on the stream.
void add_cuda_branch(const ir::Op& op, const HeavyContext& context, std::vector<Step>& steps);
void add_cuda_while(const ir::Op& op, const HeavyContext& context, std::vector<Step>& steps);

}  // namespace thalweg::compiler
