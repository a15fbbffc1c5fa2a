// Bundling of kernels, and the text around nests.
#include "compiler/steps.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "support/error.h"

namespace thalweg::compiler {
namespace {

constexpr double kSlotCost = 32768;       // scalar operations in one slot of a kernel's range
constexpr double kSmallCost = 400'000;    // kernels below this are worth merging
constexpr int64_t kSinkBytes = 16 << 20;  // written by a step that waits for the end
constexpr size_t kBundleArgs = 600, kBundleParts = 96;

struct Uses {
  std::set<BufferKey> reads, writes;
};

Uses uses_of(const Step& step) {
  Uses uses;
  step.each_arg([&](const StepArg& arg, size_t) { (arg.write ? uses.writes : uses.reads).insert(arg.buffer); });
  return uses;
}

bool meet(const std::set<BufferKey>& a, const std::set<BufferKey>& b) {
  return std::any_of(a.begin(), a.end(), [&](const BufferKey& key) { return b.count(key) != 0; });
}

bool conflict(const Uses& a, const Uses& b) { return meet(a.writes, b.reads) || meet(a.reads, b.writes) || meet(a.writes, b.writes); }

int64_t written_bytes(const Step& step) {
  int64_t bytes = 0;
  step.each_arg([&](const StepArg& arg, size_t) { bytes += arg.write ? arg.bytes : 0; });
  return bytes;
}

size_t arg_count(const Step& step) {
  size_t n = 0;
  for (const KernelPart& part : step.parts) n += part.args.size();
  return n;
}

// Kernels that nothing but the program's end waits for go there, after all that can fail, so that they may update donated arguments in place; those of one
// height stand together to be merged.
void sink(std::vector<Step>& steps) {
  // What touches a buffer: scratch memory is written and read in turn by several kernels of one op.
  std::map<BufferKey, std::vector<size_t>> readers, writers;
  for (size_t i = 0; i < steps.size(); ++i) {
    const Uses uses = uses_of(steps[i]);
    for (const BufferKey& key : uses.reads) readers[key].push_back(i);
    for (const BufferKey& key : uses.writes) writers[key].push_back(i);
  }
  std::vector<int> height(steps.size(), -1);
  for (size_t i = steps.size(); i-- > 0;) {
    if (!steps[i].is_kernel()) continue;
    int h = 0;
    auto before = [&](const std::vector<size_t>& later) {
      for (size_t j : later)
        if (j > i) h = height[j] < 0 ? 1000 : std::max(h, height[j] + 1);
    };
    const Uses uses = uses_of(steps[i]);
    for (const BufferKey& key : uses.writes) before(readers[key]), before(writers[key]);
    for (const BufferKey& key : uses.reads) before(writers[key]);
    if (h == 0 || (h < 8 && steps[i].cost() < kSmallCost && written_bytes(steps[i]) <= kSinkBytes)) height[i] = h;
  }
  std::vector<size_t> order(steps.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return (height[a] < 0 ? 1000 : height[a]) > (height[b] < 0 ? 1000 : height[b]); });
  std::vector<Step> sorted;
  for (size_t i : order) sorted.push_back(std::move(steps[i]));
  steps = std::move(sorted);
}

}  // namespace

double Step::cost() const {
  double total = 0;
  for (const KernelPart& part : parts) total += part.cost();
  return total;
}

void Step::each_arg(const std::function<void(const StepArg&, size_t)>& fn) const {
  for (const StepArg& arg : args) fn(arg, 0);
  for (size_t p = 0; p < parts.size(); ++p)
    for (const StepArg& arg : parts[p].args) fn(arg, p);
}

void bundle(std::vector<Step>& steps) {
  sink(steps);
  std::vector<Step> out;
  std::vector<Uses> uses;
  for (Step& step : steps) {
    Uses mine = uses_of(step);
    bool merged = false;
    if (step.is_kernel() && step.cost() < kSmallCost * 8) {
      for (size_t back = 0; back < 12 && back < out.size() && !merged; ++back) {
        const size_t j = out.size() - 1 - back;
        if (conflict(uses[j], mine)) break;
        Step& target = out[j];
        const bool small = step.cost() < kSmallCost || back == 0;
        if (!target.is_kernel() || !small || arg_count(target) + arg_count(step) > kBundleArgs || target.parts.size() + step.parts.size() > kBundleParts)
          continue;
        if (target.cost() > kSmallCost * 8 && step.cost() > kSmallCost) continue;
        for (KernelPart& part : step.parts) target.parts.push_back(std::move(part));
        uses[j].reads.merge(mine.reads);
        uses[j].writes.merge(mine.writes);
        merged = true;
      }
    }
    if (!merged) {
      out.push_back(std::move(step));
      uses.push_back(std::move(mine));
    }
  }
  steps = std::move(out);
}

std::string summary(const std::vector<KernelPart>& parts) {
  std::vector<const KernelPart*> sorted;
  for (const KernelPart& part : parts) sorted.push_back(&part);
  std::stable_sort(sorted.begin(), sorted.end(), [](const KernelPart* a, const KernelPart* b) { return a->cost() > b->cost(); });
  std::string text;
  for (size_t i = 0; i < sorted.size() && i < 3; ++i) text += (i ? "; " : "") + sorted[i]->what;
  if (sorted.size() > 3) text += "; and " + std::to_string(sorted.size() - 3) + " more";
  return text;
}

KernelText kernel_text(const std::vector<KernelPart>& parts) {
  KernelText kernel;
  std::string functions, dispatch;
  std::map<std::string, std::string> names;
  int64_t arg = 0, slot = 0;
  auto num = [](int64_t n) { return std::to_string(n); };
  for (const KernelPart& part : parts) {
    auto [it, fresh] = names.try_emplace(part.body, "part" + num(static_cast<int64_t>(names.size())));
    if (fresh) functions += "static __attribute__((noinline)) void " + it->second + "(void* const* args, int64_t begin, int64_t end) {\n" + part.body + "}\n";
    int64_t slots = std::clamp<int64_t>(static_cast<int64_t>(std::llround(part.cost() / kSlotCost)), 1, std::max<int64_t>(1, part.units));
    const std::string first = num(slot), last = num(slot + slots), per = num(part.units) + " / " + num(slots);
    dispatch += "if (begin < " + last + " && end > " + first + ") {\nconst int64_t from = begin > " + first + " ? begin - " + first + " : 0, to = end < " +
                last + " ? end - " + first + " : " + num(slots) + ";\n" + it->second + "(args + " + num(arg) + ", from * " + per + ", to * " + per + ");\n}\n";
    arg += static_cast<int64_t>(part.args.size());
    slot += slots;
  }
  uint64_t hash = 1469598103934665603ull;
  for (const std::string* text : {&functions, &dispatch})
    for (char c : *text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  char name[32];
  std::snprintf(name, sizeof name, "k%016llx", static_cast<unsigned long long>(hash));
  kernel.name = name;
  kernel.text =
      "using namespace thalweg::scalar;\ntypedef signed char int8_t; typedef short int16_t; typedef int int32_t; typedef long int64_t;\n"
      "typedef unsigned char uint8_t; typedef unsigned short uint16_t; typedef unsigned int uint32_t; typedef unsigned long uint64_t;\n" +
      functions + "extern \"C\" void " + kernel.name + "(void* const* args, int64_t begin, int64_t end) {\n" + dispatch + "}\n";
  kernel.units = slot;
  return kernel;
}

}  // namespace thalweg::compiler
