// Text of kernels: blocks are dealt out to parts, groups of threads to units.
#include "codegen/cuda/kernel_text.h"

#include <algorithm>
#include <bit>
#include <map>

#include "codegen/cuda/group_text.h"
#include "support/error.h"
#include "support/object_cache.h"

namespace thalweg::codegen::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kWaves = 32;  // blocks a multiprocessor gets at most of each part

std::string num(int64_t n) { return std::to_string(n); }

}  // namespace

KernelText kernel_text(std::span<const Part> parts, int multiprocessors) {
  KernelText kernel;
  int64_t threads = 32, shared = 0;
  for (const Part& part : parts) threads = std::max<int64_t>({threads, part.lanes, std::min<int64_t>(kThreads, (part.units * part.lanes + 31) / 32 * 32)});
  threads = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(threads)));  // a multiple of each part's lanes
  std::string functions, dispatch;
  std::map<std::string, std::string> names;
  int64_t first = 0;
  for (const Part& part : parts) {
    auto [it, fresh] = names.try_emplace(part.body, "part" + num(static_cast<int64_t>(names.size())));
    if (fresh)
      functions += "static inline void " + it->second + "(void* const* args, const int64_t begin, const int64_t end, const int lane, char* const shared) {\n" +
                   part.body + "}\n";
    const int64_t groups = threads / part.lanes, room = (part.shared_bytes + 15) / 16 * 16;
    const int64_t blocks = std::min((part.units + groups - 1) / groups, multiprocessors * kWaves);
    shared = std::max(shared, groups * room);
    const std::string lanes = num(part.lanes), own = first == 0 ? "blockIdx.x" : "(blockIdx.x - " + num(first) + ")";
    const std::string loop = "for (int64_t unit = (int64_t)" + own + " * " + num(groups) + " + threadIdx.x / " + lanes + "; unit < " + num(part.units) +
                             "; unit += " + num(blocks * groups) + ") " + it->second + "(all.args + " + num(static_cast<int64_t>(kernel.args)) +
                             ", unit, unit + 1, threadIdx.x % " + lanes + ", " + (room ? "shared + threadIdx.x / " + lanes + " * " + num(room) : "nullptr") +
                             ");\n";
    dispatch += parts.size() == 1 ? loop : "if (blockIdx.x < " + num(first + blocks) + ") {\n" + loop + "return;\n}\n";
    kernel.args += part.args;
    first += blocks;
  }
  THALWEG_ASSERT(first > 0 && kernel.args <= kMostArgs, "blocks ", first, ", arguments ", kernel.args);
  kernel.threads = static_cast<unsigned>(threads);
  kernel.blocks = static_cast<unsigned>(first);
  const std::string type = "struct Args { void* args[" + num(static_cast<int64_t>(std::max<size_t>(kernel.args, 1))) + "]; };\n";
  const std::string memory = shared ? "__shared__ __align__(16) char shared[" + num(shared) + "];\n" : "";
  const std::string body = type + functions + memory + dispatch;
  kernel.source.name = "k" + digest(body + num(threads));
  kernel.source.text = kGroupText + type + functions + "extern \"C\" __global__ void __launch_bounds__(" + num(threads) + ") " + kernel.source.name +
                       "(const __grid_constant__ Args all) {\n" + memory + dispatch + "}\n";
  return kernel;
}

}  // namespace thalweg::codegen::cuda
