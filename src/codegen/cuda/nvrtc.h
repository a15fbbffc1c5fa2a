// NVRTC, CUDA's compiler as a library, found when it is first needed.
#pragma once

#include <span>
#include <string>

namespace thalweg::codegen::cuda {

// Version of the NVRTC of this machine as major * 1000 + minor * 10, e.g. 13000. Any thread.
// Throws Error(Missing), with what to install, when there is none or it is older than 12.0.
int nvrtc_version();
// True when there is one; `why`, when given, gets the reason when not. Never throws.
bool has_nvrtc(std::string* why = nullptr);

// Machine code (a cubin) of `text`, CUDA C++, for GPUs of that architecture, e.g. 90 for compute capability 9.0. Products and sums are never contracted.
// Any thread. Throws Error(Missing) as above, Error(Vendor) with the compiler's log when it rejects the text or does not know the architecture.
std::string compile_cubin(const std::string& text, int architecture);

}  // namespace thalweg::codegen::cuda
