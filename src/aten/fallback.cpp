// Everything that is not traced runs on PyTorch's own kernels, over the same memory: on its CUDA where the device is a GPU, else on the CPU.
#include "aten/fallback.h"

#include <mutex>
#include <unordered_set>

#include "aten/backend_key.h"
#include "aten/cuda_window.h"
#include "aten/generator.h"
#include "aten/host_access.h"
#include "aten/python_lines.h"
#include "aten/registration.h"
#include "lazy/session.h"

namespace thalweg::aten {
namespace {

struct Counts {
  std::mutex mutex;
  std::map<std::string, std::map<std::string, int64_t>> by_name;
};
Counts& counts() {
  static Counts* counts = new Counts();
  return *counts;
}

void count(const c10::OperatorHandle& op) {
  const std::string name = op.schema().name();
  const std::string line = python_line();
  {
    std::lock_guard lock(counts().mutex);
    ++counts().by_name[name][line];
  }
  auto& session = lazy::Session::get();
  std::lock_guard lock(session.counters_lock());
  ++session.counters().counts[name];
}

// Operations that take CPU tensors beside device tensors by their nature.
bool takes_mixed_devices(const c10::OperatorName& name) {
  static const std::unordered_set<std::string> names = {"aten::index",
                                                        "aten::index_put",
                                                        "aten::index_put_",
                                                        "aten::_index_put_impl_",
                                                        "aten::_unsafe_index",
                                                        "aten::_unsafe_index_put",
                                                        "aten::_pack_padded_sequence",
                                                        "aten::tensor_split",
                                                        "aten::_copy_from",
                                                        "aten::_copy_from_and_resize",
                                                        "aten::repeat_interleave"};
  return name.name.rfind("aten::", 0) != 0 || names.contains(name.name);
}

// Where PyTorch's kernels run.
struct OnHost {
  HostWindow window{"fallback"};
  c10::Device device{c10::kCPU};
  at::Generator generator(const std::optional<at::Generator>& of) const { return derived_cpu_generator(of); }
  void begin() {}
  void end() {}
};

struct OnGpu {
  OnComputeStream current;
  CudaWindow window{"fallback", shared_compute_stream()};
  c10::Device device = cuda_device();
  at::Generator generator(const std::optional<at::Generator>& of) const { return derived_cuda_generator(of, device); }
  void begin() { window.begin(); }
  void end() { window.end(); }
};

// The stack of one call while its device tensors are exchanged for tensors of the place.
template <class Place>
class Call {
 public:
  Call(const c10::OperatorHandle& op, torch::jit::Stack* stack)
      : op_(op), schema_(op.schema()), stack_(*stack), begin_(stack->size() - schema_.arguments().size()) {}

  void run() {
    for (size_t i = 0; i < arguments().size(); ++i) visit_tensors(stack_[begin_ + i], [&](const at::Tensor& t) { announce(t, is_written(i)); });
    check_devices();
    for (size_t i = 0; i < arguments().size(); ++i) exchange(i);
    const c10::SmallVector<c10::IValue, 4> written_there = exchanges_of_written();
    place_.begin();
    {
      BelowAutograd guard;
      op_.callBoxed(&stack_);
    }
    for (size_t i = 0; i < written_.size(); ++i) collect(written_[i], written_there[i]);
    for (size_t i = stack_.size() - schema_.returns().size(); i < stack_.size(); ++i) to_device(stack_[i]);
    place_.end();
  }

 private:
  const std::vector<c10::Argument>& arguments() const { return schema_.arguments(); }
  bool is_written(size_t argument) const {
    const auto* alias = arguments()[argument].alias_info();
    return alias && alias->isWrite();
  }

  template <class F>
  static void visit_tensors(const c10::IValue& value, F&& f) {
    if (value.isTensor()) {
      if (value.toTensor().defined()) f(value.toTensor());
    } else if (value.isList()) {
      for (const c10::IValue& item : value.toListRef()) visit_tensors(item, f);
    }
  }

  void announce(const at::Tensor& tensor, bool written) {
    if (!is_ours(tensor)) {
      if (tensor.dim() > 0 || !tensor.is_cpu()) foreign_ = &tensor;
      return;
    }
    any_ours_ = true;
    if (written) place_.window.will_write(tensor);
  }

  void check_devices() const {
    if (any_ours_ && foreign_ && !takes_mixed_devices(schema_.operator_name())) raise_mixed_devices(*foreign_);
  }

  at::Tensor stand_in(const at::Tensor& tensor) {
    if (!is_ours(tensor)) return tensor;
    at::Tensor result = place_.window.stand_in(tensor);
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) result.unsafeGetTensorImpl()->set_wrapped_number(true);
    pairs_.push_back({tensor, result});
    return result;
  }

  c10::IValue value_there(const c10::IValue& value) {
    if (value.isTensor()) return value.toTensor().defined() ? c10::IValue(stand_in(value.toTensor())) : value;
    if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const c10::IValue& item : value.toListRef()) list.push_back(stand_in(item.toTensor()));
      return list;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const c10::IValue& item : value.toListRef()) {
        list.push_back(item.isTensor() && item.toTensor().defined() ? std::optional<at::Tensor>(stand_in(item.toTensor())) : std::nullopt);
      }
      return list;
    }
    if (value.isDevice()) return value.toDevice().type() == kDeviceType ? c10::IValue(place_.device) : value;
    if (value.isGenerator()) return place_.generator(value.toGenerator());
    return value;
  }

  void exchange(size_t argument) {
    c10::IValue& value = stack_[begin_ + argument];
    if (is_written(argument)) written_.push_back(value);
    const bool is_generator = arguments()[argument].type()->str().find("Generator") != std::string::npos;
    if (is_generator && value.isNone()) {
      value = place_.generator(std::nullopt);
    } else {
      value = value_there(value);
    }
    if (is_written(argument)) written_positions_.push_back(begin_ + argument);
  }

  c10::SmallVector<c10::IValue, 4> exchanges_of_written() const {
    c10::SmallVector<c10::IValue, 4> out;
    for (size_t position : written_positions_) out.push_back(stack_[position]);
    return out;
  }

  void collect(const c10::IValue& device, const c10::IValue& there) {
    if (device.isTensor()) {
      if (is_ours(device.toTensor())) place_.window.collect(device.toTensor(), there.toTensor());
    } else if (device.isList()) {
      const auto devices = device.toListRef();
      const auto others = there.toListRef();
      for (size_t i = 0; i < devices.size(); ++i) collect(devices[i], others[i]);
    }
  }

  at::Tensor device(const at::Tensor& there) {
    if (!there.defined() || there.device() != place_.device) return there;
    for (const auto& [device, paired] : pairs_) {
      if (paired.is_same(there)) return device;
    }
    if (there.layout() != c10::kStrided) {
      TORCH_CHECK_NOT_IMPLEMENTED(false, schema_.name(), " gives a ", there.layout(), " tensor, which device xla has not; run it on the CPU with .cpu()");
    }
    return place_.window.device(there);
  }

  void to_device(c10::IValue& value) {
    if (value.isTensor()) {
      value = device(value.toTensor());
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const c10::IValue& item : value.toListRef()) list.push_back(device(item.toTensor()));
      value = list;
    }
  }

  const c10::OperatorHandle& op_;
  const c10::FunctionSchema& schema_;
  torch::jit::Stack& stack_;
  size_t begin_;
  Place place_;
  std::vector<std::pair<at::Tensor, at::Tensor>> pairs_;
  std::vector<c10::IValue> written_;
  std::vector<size_t> written_positions_;
  const at::Tensor* foreign_ = nullptr;
  bool any_ours_ = false;
};

// Whether PyTorch's CUDA has a kernel for it, or a way in other operations that have.
bool runs_on_gpu(const c10::OperatorHandle& op) { return has_torch_cuda() && op.hasComputedKernelForDispatchKey(c10::DispatchKey::CUDA); }

// PyTorch's own name for an operation that PyTorch keeps for devices outside of its tree, with its arguments put in that one's order; nothing for others.
std::optional<c10::OperatorHandle> inner_equivalent(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  const std::string& name = op.schema().name();
  auto& dispatcher = c10::Dispatcher::singleton();
  if (name == "aten::convolution_overrideable") return dispatcher.findSchemaOrThrow("aten::convolution", "");
  if (name != "aten::convolution_backward_overrideable") return std::nullopt;
  const auto frame = stack.end() - static_cast<int64_t>(op.schema().arguments().size());
  const std::vector<int64_t> bias_sizes = {frame[0].toTensor().size(1)};
  stack.insert(frame + 3, c10::IValue(bias_sizes));
  return dispatcher.findSchemaOrThrow("aten::convolution_backward", "");
}

void boxed_fallback(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) { run_fallback(op, stack); }

}  // namespace

void raise_mixed_devices(const at::Tensor& other) {
  TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, ", device_zero(), " and ", other.device(), "!");
}

void run_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  count(op);
  const auto equivalent = inner_equivalent(op, *stack);
  const c10::OperatorHandle& callee = equivalent ? *equivalent : op;
  runs_on_gpu(callee) ? Call<OnGpu>(callee, stack).run() : Call<OnHost>(callee, stack).run();
}

std::map<std::string, std::map<std::string, int64_t>> fallback_counts() {
  std::lock_guard lock(counts().mutex);
  return counts().by_name;
}

void clear_fallback_counts() {
  std::lock_guard lock(counts().mutex);
  counts().by_name.clear();
}

void register_fallback() {
  new_library(torch::Library::IMPL, "_", kKey).fallback(torch::CppFunction::makeFromBoxedFunction<&boxed_fallback>());
  if (is_tracing_enabled()) return;
  auto& m = new_library(torch::Library::IMPL, "aten", kKey);  // PyTorch's own kernels of these only raise
  for (const char* name : {"convolution_overrideable", "convolution_backward_overrideable"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&boxed_fallback>());
  }
}

}  // namespace thalweg::aten
