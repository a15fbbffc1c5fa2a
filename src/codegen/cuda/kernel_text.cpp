// Text of kernels, one thread a unit.
#include "codegen/cuda/kernel_text.h"

#include <algorithm>
#include <map>

#include "support/error.h"
#include "support/object_cache.h"

namespace thalweg::codegen::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr int64_t kWaves = 16;  // blocks a multiprocessor gets at most

std::string num(int64_t n) { return std::to_string(n); }

}  // namespace

KernelText kernel_text(std::span<const Part> parts, int multiprocessors) {
  KernelText kernel;
  std::string functions, dispatch;
  std::map<std::string, std::string> names;
  int64_t first = 0;
  for (const Part& part : parts) {
    auto [it, fresh] = names.try_emplace(part.body, "part" + num(static_cast<int64_t>(names.size())));
    if (fresh) functions += "static inline void " + it->second + "(void* const* args, const int64_t begin, const int64_t end) {\n" + part.body + "}\n";
    const std::string last = num(first + part.units), from = first == 0 ? "" : " - " + num(first);
    const std::string call = it->second + "(all.args + " + num(static_cast<int64_t>(kernel.args)) + ", unit" + from + ", unit" + from + " + 1);\n";
    dispatch += parts.size() == 1 ? call : "if (unit < " + last + ") {\n" + call + "continue;\n}\n";
    kernel.args += part.args;
    first += part.units;
  }
  THALWEG_ASSERT(first > 0 && kernel.args <= kMostArgs, "units ", first, ", arguments ", kernel.args);
  kernel.threads = static_cast<unsigned>(std::min<int64_t>(kThreads, (first + 31) / 32 * 32));
  kernel.blocks = static_cast<unsigned>(std::min<int64_t>((first + kernel.threads - 1) / kernel.threads, multiprocessors * kWaves));
  const std::string type = "struct Args { void* args[" + num(static_cast<int64_t>(std::max<size_t>(kernel.args, 1))) + "]; };\n";
  const std::string loop = "for (int64_t unit = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; unit < " + num(first) +
                           "; unit += (int64_t)gridDim.x * blockDim.x) {\n" + dispatch + "}\n";
  kernel.source.name = "k" + digest(type + functions + loop);
  kernel.source.text = type + functions + "extern \"C\" __global__ void __launch_bounds__(" + num(kThreads) + ") " + kernel.source.name +
                       "(const __grid_constant__ Args all) {\n" + loop + "}\n";
  return kernel;
}

}  // namespace thalweg::codegen::cuda
