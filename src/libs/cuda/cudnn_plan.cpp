// Plans: which of the library's ways runs a graph, and running it.
#include <algorithm>
#include <mutex>

#include "libs/cuda/cudnn.h"
#include "libs/cuda/cudnn_functions.h"
#include "libs/cuda/measured_choice.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/stream.h"
#include "support/error.h"

namespace thalweg::libs::cuda::cudnn {
namespace {

using runtime::cuda::ContextScope;

constexpr size_t kAlignment = 256;
constexpr int64_t kProposals = 24;
constexpr size_t kTried = 8;

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// While it lives, the GPU's context is current, where there is a GPU.
class Scope {
 public:
  explicit Scope(const Gpu& gpu) {
    if (gpu.device()) scope_.emplace(runtime::cuda::context(*gpu.device()));
  }

 private:
  std::optional<ContextScope> scope_;
};

// Up to `most` descriptors that the attribute holds.
std::vector<Descriptor> descriptors(const Descriptor& from, Attribute attribute, Kind kind, int64_t most) {
  std::vector<Descriptor> made;
  std::vector<void*> pointers;
  for (int64_t i = 0; i < most; ++i) pointers.push_back(made.emplace_back(kind).pointer());
  int64_t count = 0;
  const int status =
      functions().get_attribute(from.pointer(), static_cast<int>(attribute), static_cast<int>(ValueType::Descriptor), most, &count, pointers.data());
  if (status != 0) count = 0;
  while (made.size() > static_cast<size_t>(std::min(count, most))) made.pop_back();
  return made;
}

}  // namespace

Plan::Plan(const Gpu& gpu, std::shared_ptr<const Graph> graph, const PlanWishes& wishes) : gpu_(gpu), graph_(std::move(graph)), wishes_(wishes) {
  Scope scope(gpu_);
  for (const Graph::Scratch& scratch : graph_->scratches()) scratch_bytes_ += aligned(scratch.bytes);
  try {
    operations_ = std::make_unique<Descriptor>(Kind::Graph);
    std::vector<void*> pointers;
    for (const Descriptor& operation : graph_->operations()) pointers.push_back(operation.pointer());
    if (void* const handle = gpu_.handle()) operations_->set(Attribute::GraphHandle, ValueType::Handle, 1, &handle);
    operations_->set(Attribute::GraphOps, ValueType::Descriptor, static_cast<int64_t>(pointers.size()), pointers.data());
    operations_->finalize();
  } catch (const Error& error) {
    raise(error.kind(), error.what(), "; ", text());
  }
  take(std::move(ways(1)[0]));
}

Plan::~Plan() = default;

// What the library proposes, best guess first, then what it falls back to.
std::vector<Descriptor> Plan::configurations(std::string& refusal) const {
  std::vector<Descriptor> all;
  for (const int mode : {kHeuristicsBest, kHeuristicsFallback}) {
    Descriptor heuristics(Kind::Heuristics);
    heuristics.set(Attribute::HeuristicsGraph, *operations_);
    heuristics.set(Attribute::HeuristicsMode, ValueType::HeuristicsMode, 1, &mode);
    if (gpu_.description()) heuristics.set(Attribute::HeuristicsGpu, *gpu_.description());
    if (const int status = functions().finalize(heuristics.pointer()); status != 0) {
      refusal = failure_text(status);  // nothing in this mode
      continue;
    }
    for (Descriptor& each : descriptors(heuristics, Attribute::HeuristicsResults, Kind::Configuration, kProposals)) all.push_back(std::move(each));
  }
  return all;
}

bool Plan::is_allowed(const Descriptor& configuration) const {
  const std::vector<Descriptor> engine = descriptors(configuration, Attribute::ConfigurationEngine, Kind::Engine, 1);
  if (engine.empty()) return false;
  int notes[kNotes] = {};
  int64_t count = 0;
  if (functions().get_attribute(engine[0].pointer(), static_cast<int>(Attribute::EngineNotes), static_cast<int>(ValueType::NumericalNote), kNotes, &count,
                                notes) != 0)
    return false;
  return std::none_of(notes, notes + std::min<int64_t>(count, kNotes), [&](int note) {
    const bool inexact = note == kNoteTensorCore || note == kNoteDownConverts;
    return (wishes_.deterministic && note == kNoteNondeterministic) || (wishes_.exact_f32 && inexact) || note == kNoteReducedSums || note == kNoteFourier ||
           note == kNoteWinograd;
  });
}

std::unique_ptr<Plan::Way> Plan::make_way(const Descriptor& configuration, std::string& refusal) const {
  auto way = std::make_unique<Way>();
  try {
    way->plan = std::make_unique<Descriptor>(Kind::Plan);
    if (void* const handle = gpu_.handle()) way->plan->set(Attribute::PlanHandle, ValueType::Handle, 1, &handle);
    if (gpu_.description()) way->plan->set(Attribute::PlanGpu, *gpu_.description());
    way->plan->set(Attribute::PlanConfiguration, configuration);
    way->plan->finalize();
  } catch (const Error& error) {
    refusal = error.what();
    return nullptr;
  }
  int64_t bytes = 0, count = 0;
  functions().get_attribute(way->plan->pointer(), static_cast<int>(Attribute::PlanWorkspaceBytes), static_cast<int>(ValueType::Int64), 1, &count, &bytes);
  if (static_cast<size_t>(bytes) > wishes_.workspace_limit) {
    refusal = "its ways need more scratch memory than is allowed";
    return nullptr;
  }
  way->workspace_bytes = static_cast<size_t>(bytes);
  return way;
}

// The first `most` that work, at least one.
std::vector<std::unique_ptr<Plan::Way>> Plan::ways(size_t most) const {
  Scope scope(gpu_);
  std::vector<std::unique_ptr<Way>> made;
  std::string refusal = "it proposes none";
  for (const Descriptor& configuration : configurations(refusal)) {
    if (made.size() == most) break;
    if (!is_allowed(configuration)) continue;
    if (auto way = make_way(configuration, refusal)) made.push_back(std::move(way));
  }
  THALWEG_CHECK(!made.empty(), Unsupported, "cuDNN has no way to compute this: ", refusal, "; ", text());
  return made;
}

void Plan::take(std::unique_ptr<Way> way) {
  way_ = std::move(way);
  workspace_bytes_ = scratch_bytes_ + way_->workspace_bytes;
}

void Plan::run(const Way& way, std::span<const Argument> arguments, void* workspace, void* native) const {
  std::vector<int64_t> ids;
  std::vector<void*> pointers;
  auto add = [&](int64_t id, void* pointer) {
    ids.push_back(id);
    pointers.push_back(pointer);
  };
  for (const Argument& argument : arguments) add(argument.id, argument.address);
  char* at = static_cast<char*>(workspace);
  for (const Graph::Scratch& scratch : graph_->scratches()) {
    add(scratch.id, at);
    at += aligned(scratch.bytes);
  }
  for (const Graph::Number& number : graph_->numbers()) add(number.id, const_cast<float*>(&number.value));
  void* const rest = at;
  Descriptor pack(Kind::Arguments);
  pack.set(Attribute::ArgumentIds, ids);
  pack.set(Attribute::ArgumentPointers, ValueType::Pointer, static_cast<int64_t>(pointers.size()), pointers.data());
  pack.set(Attribute::ArgumentWorkspace, ValueType::Pointer, 1, &rest);
  pack.finalize();
  // The stream belongs to the GPU's handle until the work is on it.
  static auto* mutex = new std::mutex;
  std::scoped_lock lock(*mutex);
  int status = functions().set_stream(gpu_.handle(), native);
  if (status == 0) status = functions().execute(gpu_.handle(), way.plan->pointer(), pack.pointer());
  THALWEG_CHECK(status == 0, Vendor, "cuDNN failed to start: ", failure_text(status), "; ", text());
}

void Plan::run(std::span<const Argument> arguments, void* workspace, void* native) const { run(*way_, arguments, workspace, native); }

void Plan::measure(runtime::Stream& stream, const std::vector<std::pair<int64_t, size_t>>& buffers) {
  const std::string key = "cudnn " + std::to_string(cudnn_version()) + ", " + runtime::cuda::properties(*gpu_.device()).name + ", " +
                          std::to_string(wishes_.deterministic) + std::to_string(wishes_.exact_f32) + std::to_string(wishes_.workspace_limit) + ": " + text();
  std::vector<std::unique_ptr<Way>> tried;
  if (auto kept = kept_choice(key); kept && kept->size() == 1) {
    const size_t best = static_cast<unsigned char>((*kept)[0]);
    if (best == 0) return;
    tried = ways(best + 1);
    if (best < tried.size()) return take(std::move(tried[best]));
  } else {
    tried = ways(kTried);
  }
  size_t workspace = 0;
  for (const auto& way : tried) workspace = std::max(workspace, way->workspace_bytes);
  std::vector<runtime::BufferPtr> memory;
  std::vector<Argument> arguments;
  for (const auto& [id, bytes] : buffers) arguments.push_back({id, memory.emplace_back(stream.allocate(bytes))->data()});
  void* const scratch = memory.emplace_back(stream.allocate(scratch_bytes_ + workspace))->data();
  size_t best = 0;
  double least = 0;
  for (size_t i = 0; i < tried.size(); ++i) {
    const double now = seconds_of(stream, memory, "cuDNN measured", [&](void* native) { run(*tried[i], arguments, scratch, native); });
    if (i == 0 || now < least) least = now, best = i;
  }
  if (stream.take_error()) best = 0;
  keep_choice(key, std::string(1, static_cast<char>(best)));
  take(std::move(tried[best]));
}

}  // namespace thalweg::libs::cuda::cudnn
