// cuDNN's graph interface, found when it is first needed: descriptors, graphs of operations, and plans that run them.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "libs/cuda/cudnn_types.h"
#include "runtime/device.h"

namespace thalweg::libs::cuda {

// Whether cuDNN can be loaded and is new enough; `reason`, when given, says why not. Any thread; never throws.
bool has_cudnn(std::string* reason = nullptr);
// Its version, e.g. 91900 for 9.19.0. Throws Error(Missing) without cuDNN or with one older than 9.6.
int cudnn_version();

namespace cudnn {

using Dims = std::vector<int64_t>;

// A descriptor of the library; owned, movable. The setters throw Error(Unsupported) with the library's words when it refuses a value.
class Descriptor {
 public:
  explicit Descriptor(Kind kind);
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : pointer_(other.pointer_) { other.pointer_ = nullptr; }
  Descriptor& operator=(Descriptor&&) = delete;

  void* pointer() const { return pointer_; }
  void set(Attribute attribute, ValueType type, int64_t count, const void* values);
  void set(Attribute attribute, int64_t value) { set(attribute, ValueType::Int64, 1, &value); }
  void set(Attribute attribute, const Dims& values) { set(attribute, ValueType::Int64, static_cast<int64_t>(values.size()), values.data()); }
  void set(Attribute attribute, Type value) { set(attribute, ValueType::DataType, 1, &value); }
  void set(Attribute attribute, const Descriptor& value);
  // Throws Error(Unsupported) with the library's words when what was set makes no sense to it.
  void finalize();

 private:
  void* pointer_ = nullptr;
};

// What plans are made for: a GPU of this process, or one that is only described in the library's words, for which plans can be made but not run.
class Gpu {
 public:
  explicit Gpu(runtime::Device& device);
  static Gpu described(const std::string& json);

  runtime::Device* device() const { return device_; }  // null when only described
  void* handle() const { return handle_; }
  const Descriptor* description() const { return description_.get(); }

 private:
  Gpu() = default;
  runtime::Device* device_ = nullptr;
  void* handle_ = nullptr;
  std::shared_ptr<Descriptor> description_;
};

// A value in a graph.
struct Tensor {
  int64_t id = 0;
  Dims dims, strides;
  Type type = Type::F32;
  const Descriptor* descriptor = nullptr;  // the graph's
};

// Operations over tensors. Everything is described once and does not change; belongs to one thread while it is made.
class Graph {
 public:
  // Scratch memory of the caller's that a graph's own tensors lie in.
  struct Scratch {
    int64_t id = 0;
    size_t bytes = 0;
  };
  // A number that lies in the graph.
  struct Number {
    int64_t id = 0;
    float value = 0;
  };

  // A tensor of the caller's, which run() gets under `id` (1 or more); strides count elements. Addresses are multiples of 16 bytes.
  Tensor memory(int64_t id, Type type, Dims dims, Dims strides);
  // One that lies in the scratch memory, row-major.
  Tensor scratch(Type type, Dims dims);
  // One that never reaches memory.
  Tensor inner(Type type, Dims dims);
  Tensor inner(Type type, Dims dims, Dims strides);
  // A number for pointwise operations with tensors of `rank` dims.
  Tensor number(float value, size_t rank);

  // All compute in f32 unless said otherwise. `y` gets the result.
  void matmul(const Tensor& a, const Tensor& b, const Tensor& y);
  void pointwise(Pointwise mode, std::initializer_list<const Tensor*> inputs, const Tensor& y, Type precision = Type::F32, int64_t axis = -1);
  void reduce(Reduction mode, const Tensor& x, const Tensor& y);
  void reshape(const Tensor& x, const Tensor& y);
  // The same with a fresh inner f32 result of the first input's dims.
  Tensor pointwise(Pointwise mode, std::initializer_list<const Tensor*> inputs);
  // An operation made by somebody else, finalized.
  void add(Descriptor operation) { operations_.push_back(std::move(operation)); }
  // For descriptors that operations refer to.
  const Descriptor& keep(Descriptor descriptor);

  // What the graph does, for people and for caches: set by whoever makes it.
  std::string text;

  const std::vector<Descriptor>& operations() const { return operations_; }
  const std::vector<Scratch>& scratches() const { return scratches_; }
  const std::vector<Number>& numbers() const { return numbers_; }

 private:
  Tensor tensor(int64_t id, Type type, Dims dims, Dims strides, Attribute special, bool is_special);

  std::vector<std::unique_ptr<Descriptor>> kept_;
  std::vector<Descriptor> operations_;
  std::vector<Scratch> scratches_;
  std::vector<Number> numbers_;
  int64_t next_id_ = 1'000;
};

// What a plan may be made of.
struct PlanWishes {
  bool deterministic = true;  // only ways that give the same bits every time
  bool exact_f32 = false;     // no way that rounds f32 factors, or sums in less than f32
  size_t workspace_limit = size_t{1} << 30;
};

// One tensor's address for Plan::run().
struct Argument {
  int64_t id = 0;
  void* address = nullptr;
};

// A graph made ready for a GPU by the first way that the library proposes and that works. Any thread.
class Plan {
 public:
  // Throws Error(Missing) without cuDNN, Error(Unsupported) with the graph's text and the library's words when it has no way.
  Plan(const Gpu& gpu, std::shared_ptr<const Graph> graph, const PlanWishes& wishes);
  ~Plan();
  Plan(const Plan&) = delete;

  const std::string& text() const { return graph_->text; }
  // Scratch memory that run() needs, aligned to 256 bytes.
  size_t workspace_bytes() const { return workspace_bytes_; }
  // Tries the ways that the library proposes on memory of `stream`, takes the fastest, and keeps it on disk for later processes, which then try nothing.
  // `buffers`: bytes of each of the caller's tensors. Waits for the stream. Only while no other thread uses this. Not for deterministic runs.
  void measure(runtime::Stream& stream, const std::vector<std::pair<int64_t, size_t>>& buffers);

  // Called as work of a submission, with the stream that the work gets. `workspace` may be null when none is needed. Throws Error(Vendor) with the text.
  void run(std::span<const Argument> arguments, void* workspace, void* native) const;

 private:
  struct Way {
    std::unique_ptr<Descriptor> plan;
    size_t workspace_bytes = 0;
  };
  std::vector<Descriptor> configurations(std::string& refusal) const;
  bool is_allowed(const Descriptor& configuration) const;
  std::unique_ptr<Way> make_way(const Descriptor& configuration, std::string& refusal) const;
  std::vector<std::unique_ptr<Way>> ways(size_t most) const;
  void take(std::unique_ptr<Way> way);
  void run(const Way& way, std::span<const Argument> arguments, void* workspace, void* native) const;

  Gpu gpu_;
  std::shared_ptr<const Graph> graph_;
  PlanWishes wishes_;
  std::unique_ptr<Descriptor> operations_;
  std::unique_ptr<Way> way_;
  size_t workspace_bytes_ = 0, scratch_bytes_ = 0;
};

}  // namespace cudnn
}  // namespace thalweg::libs::cuda
