// Records the operations of lazy::rows() instead of running them.
#include "aten/tracer.h"

#include <bit>
#include <set>
#include <string>

#include "aten/backend_key.h"
#include "aten/device_storage.h"
#include "aten/dtypes.h"
#include "aten/errors.h"
#include "aten/fallback.h"
#include "aten/generator.h"
#include "aten/meta_memo.h"
#include "aten/meta_run.h"
#include "aten/python_lines.h"
#include "aten/registration.h"
#include "aten/trace_plan.h"
#include "lazy/session.h"

namespace thalweg::aten {
namespace {

using lazy::ArgKind;
using torch::jit::Stack;

uint64_t header(ArgKind kind, uint64_t count) { return static_cast<uint64_t>(kind) | count << 8; }

// PyTorch's rule for two dense windows of one storage, which it applies to addresses: some memory in common, but not all in the same order.
bool overlaps_partly(const at::Tensor& a, const at::Tensor& b) {
  if (&storage_of(a) != &storage_of(b) || a.numel() == 0 || b.numel() == 0) return false;
  if (!a.is_non_overlapping_and_dense() || !b.is_non_overlapping_and_dense()) return false;
  const auto a_size = static_cast<int64_t>(a.element_size()), b_size = static_cast<int64_t>(b.element_size());
  const int64_t a_begin = a.storage_offset() * a_size, a_end = a_begin + a.numel() * a_size;
  const int64_t b_begin = b.storage_offset() * b_size, b_end = b_begin + b.numel() * b_size;
  if (a_begin == b_begin && a_end == b_end) return a.strides() != b.strides();
  return a_begin < b_end && b_begin < a_end;
}

[[noreturn]] void raise_partial_overlap() {
  TORCH_CHECK(false,
              "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory location. Please clone() the tensor "
              "before performing the operation.");
}

// One call on its way from the dispatcher's stack into the session.
class Tracing {
 public:
  Tracing(const Plan& plan, Stack& stack) : plan_(plan), stack_(stack), frame_(stack.data() + stack.size() - static_cast<size_t>(plan.arguments)) {}

  // Records the call and leaves its results on the stack; false when it must take the fallback (the stack is untouched then).
  bool run() {
    if (!decode() || !decode_written()) return false;
    if (plan_.mode != ResultMode::kFresh && !(plan_.row->flags & lazy::kOverlapAllowed)) check_overlap();
    const ResultSpecs* specs = find_specs();
    if (specs && specs->untraceable) return false;
    make_results(specs);
    record();
    return_results(specs);
    return true;
  }

 private:
  const c10::IValue& value(const PlanArg& arg) const { return frame_[arg.position]; }

  bool decode() {
    key_.push_back(plan_.id);
    key_.push_back(static_cast<uint64_t>(c10::get_default_dtype_as_scalartype()));
    for (const PlanArg& arg : plan_.args) {
      if (arg.position < 0 || arg.take == Take::kNothing || value(arg).isNone()) {
        words_.push_back(header(ArgKind::None, 0));
      } else if (!decode_argument(arg, value(arg))) {
        return false;
      }
    }
    return true;
  }

  bool decode_argument(const PlanArg& arg, const c10::IValue& v) {
    switch (arg.take) {
      case Take::kTensor:
        return decode_tensor(arg, v.toTensor());
      case Take::kTensors:
        return decode_tensors(arg, v);
      case Take::kScalar:
        return decode_scalar(arg, v);
      case Take::kScalars:
        return decode_scalars(v);
      case Take::kInt:
        return decode_int(v);
      case Take::kInts:
      case Take::kBools:
        return decode_ints(v);
      case Take::kDouble:
        return decode_double(arg, v);
      case Take::kDoubles:
        return decode_scalars(v);
      case Take::kBool:
        words_.append({header(ArgKind::Bool, 1), v.toBool() ? 1ull : 0ull});
        return true;
      case Take::kString:
        decode_string(v.toStringRef());
        return true;
      case Take::kNothing:
        break;
    }
    return true;
  }

  bool decode_tensor(const PlanArg& arg, const at::Tensor& tensor) {
    if (!tensor.defined()) {
      words_.push_back(header(ArgKind::Tensor, 0));
      return true;
    }
    if (!is_ours(tensor) && tensor.unsafeGetTensorImpl()->is_wrapped_number()) return decode_wrapped(tensor);
    words_.push_back(header(ArgKind::Tensor, 1));
    return add_tensor(arg, tensor);
  }

  bool decode_tensors(const PlanArg& arg, const c10::IValue& v) {
    const auto list = v.toListRef();
    words_.push_back(header(ArgKind::Tensors, list.size()));
    for (const c10::IValue& item : list) {
      if (!item.isTensor() || !item.toTensor().defined()) {
        tensors_.emplace_back();
        key_.push_back(0);
      } else if (is_refused_mask(item.toTensor()) || !add_tensor(arg, item.toTensor())) {
        return false;
      }
    }
    return true;
  }

  bool is_refused_mask(const at::Tensor& tensor) const {
    return (plan_.row->flags & lazy::kNoMaskLists) && (tensor.scalar_type() == at::kBool || tensor.scalar_type() == at::kByte);
  }

  bool add_tensor(const PlanArg& arg, const at::Tensor& tensor) {
    if (!is_ours(tensor)) {
      if (!tensor.is_cpu() || (tensor.dim() > 0 && !arg.takes_any_device)) raise_mixed_devices(tensor);
      uploads_.push_back(tensor.to(device_zero()));
      return add_ours(uploads_.back());
    }
    return add_ours(tensor);
  }

  bool add_ours(const at::Tensor& tensor) {
    const c10::ScalarType type = tensor.scalar_type();
    const auto sizes = tensor.sizes();
    if (sizes.size() > lazy::kMaxRank || !is_traced(type) || tensor.is_neg()) return false;
    const auto strides = tensor.strides();
    key_.push_back(1 | static_cast<uint64_t>(type) << 8 | sizes.size() << 16 | static_cast<uint64_t>(tensor.unsafeGetTensorImpl()->is_wrapped_number()) << 32);
    key_.append(sizes.begin(), sizes.end());
    key_.append(strides.begin(), strides.end());
    tensors_.push_back({&storage_of(tensor), lazy::View(*ir_dtype(type), sizes, strides, tensor.storage_offset())});
    return true;
  }

  // A Python number where the schema has a tensor: a run-time number.
  bool decode_wrapped(const at::Tensor& tensor) {
    if (c10::isComplexType(tensor.scalar_type())) return false;
    key_.push_back(2 | static_cast<uint64_t>(tensor.scalar_type()) << 8);
    words_.push_back(header(ArgKind::Scalar, 1));
    add_number(at::native::_local_scalar_dense_cpu(tensor));
    return true;
  }

  void add_number(const c10::Scalar& number) {
    if (number.isFloatingPoint()) {
      scalars_.push_back({true, std::bit_cast<uint64_t>(number.toDouble())});
    } else {
      scalars_.push_back({false, static_cast<uint64_t>(number.toLong())});
    }
  }

  // The number's class, as far as result dtypes depend on it.
  static uint64_t class_of(const c10::IValue& v) { return v.isBool() ? 3 : v.isInt() ? 4 : 5; }
  static bool is_plain_number(const c10::IValue& v) { return v.isBool() || v.isInt() || v.isDouble(); }

  bool decode_scalar(const PlanArg& arg, const c10::IValue& v) {
    if (!is_plain_number(v)) return false;
    if (!arg.is_static) {
      key_.push_back(class_of(v));
      words_.push_back(header(ArgKind::Scalar, 1));
      add_number(v.toScalar());
      if (plan_.shape_needs_numbers) key_.push_back(scalars_.back().bits);
    } else if (v.isDouble()) {
      words_.append({header(ArgKind::Double, 1), std::bit_cast<uint64_t>(v.toDouble())});
    } else if (v.isInt()) {
      words_.append({header(ArgKind::Int, 1), static_cast<uint64_t>(v.toInt())});
    } else {
      words_.append({header(ArgKind::Bool, 1), static_cast<uint64_t>(v.toBool())});
    }
    return true;
  }

  bool decode_scalars(const c10::IValue& v) {
    const auto list = v.toListRef();
    words_.push_back(header(ArgKind::Scalars, list.size()));
    for (const c10::IValue& item : list) {
      if (!is_plain_number(item)) return false;
      key_.push_back(class_of(item));
      add_number(item.toScalar());
    }
    return true;
  }

  bool decode_int(const c10::IValue& v) {
    if (!v.isInt()) return false;  // a symbolic size
    words_.append({header(ArgKind::Int, 1), static_cast<uint64_t>(v.toInt())});
    return true;
  }

  bool decode_ints(const c10::IValue& v) {
    if (v.isInt()) return decode_int(v);
    const auto list = v.toListRef();
    words_.push_back(header(ArgKind::Ints, list.size()));
    for (const c10::IValue& item : list) {
      if (!item.isInt() && !item.isBool()) return false;
      words_.push_back(item.isInt() ? static_cast<uint64_t>(item.toInt()) : static_cast<uint64_t>(item.toBool()));
    }
    return true;
  }

  bool decode_double(const PlanArg& arg, const c10::IValue& v) {
    const double number = v.isDouble() ? v.toDouble() : v.toScalar().toDouble();
    if (arg.is_static) {
      words_.append({header(ArgKind::Double, 1), std::bit_cast<uint64_t>(number)});
    } else {
      key_.push_back(5);
      words_.push_back(header(ArgKind::Scalar, 1));
      scalars_.push_back({true, std::bit_cast<uint64_t>(number)});
    }
    return true;
  }

  void decode_string(const std::string& text) {
    words_.push_back(header(ArgKind::String, text.size()));
    const size_t at = words_.size();
    words_.resize(at + (text.size() + 7) / 8, 0);
    std::memcpy(words_.data() + at, text.data(), text.size());
  }

  // The tensors that in-place and out= calls write.
  bool decode_written() {
    for (int position : plan_.written) {
      const c10::IValue& v = frame_[position];
      if (v.isTensor()) {
        if (!add_target(v.toTensor())) return false;
      } else if (v.isTensorList()) {
        for (const c10::IValue& item : v.toListRef()) {
          if (!add_target(item.toTensor())) return false;
        }
      } else if (!v.isNone()) {
        return false;
      }
    }
    for (int position : plan_.also_written) {
      const c10::IValue& v = frame_[position];
      if (v.isTensor() && v.toTensor().defined() && !add_target(v.toTensor())) return false;
    }
    return true;
  }

  // As PyTorch's own kernels: no element is written twice, and none is written under a window of another shape that is read.
  void check_overlap() const {
    for (const at::Tensor* target : targets_) {
      if (!target->is_non_overlapping_and_dense()) at::assert_no_internal_overlap(*target);
    }
    if (targets_.size() != 1) return;
    const at::Tensor& target = *targets_[0];
    for (int i = 0; i < plan_.arguments; ++i) {
      if (!frame_[i].isTensor()) continue;
      const at::Tensor& other = frame_[i].toTensor();
      if (other.defined() && is_ours(other) && !other.is_same(target) && overlaps_partly(target, other)) raise_partial_overlap();
    }
  }

  bool add_target(const at::Tensor& tensor) {
    if (!is_ours(tensor)) raise_mixed_devices(tensor);
    if (tensor.dim() > lazy::kMaxRank || !is_traced(tensor.scalar_type()) || tensor.is_neg()) return false;
    targets_.push_back(&tensor);
    if (plan_.mode == ResultMode::kOut) {
      key_.push_back(6 | static_cast<uint64_t>(tensor.scalar_type()) << 8 | static_cast<uint64_t>(tensor.dim()) << 16);
      key_.append(tensor.sizes().begin(), tensor.sizes().end());
      key_.append(tensor.strides().begin(), tensor.strides().end());
    }
    return true;
  }

  const ResultSpecs* find_specs() {
    if ((plan_.row->flags & lazy::kShapeOfFirst) && plan_.mode == ResultMode::kInPlace) return nullptr;
    static MetaMemo* memo = new MetaMemo();
    key_.append(words_.begin(), words_.end());
    const std::span<const uint64_t> key(key_.data(), key_.size());
    const uint64_t hash = MetaMemo::hash_key(key);
    if (const ResultSpecs* known = memo->find(key, hash)) return known;
    return memo->store(key, hash, run_on_meta(plan_, frame_));
  }

  void make_results(const ResultSpecs* specs) {
    if (plan_.mode == ResultMode::kFresh) {
      for (const ResultSpec& spec : specs->flat) {
        if (!spec.defined) {
          fresh_.emplace_back();
        } else {
          fresh_.push_back(make_tensor(make_storage(spec.bytes), spec.sizes(), spec.strides(), 0, spec.dtype));
          results_.push_back({&storage_of(fresh_.back()), spec.view});
        }
      }
      for (const at::Tensor* target : targets_) results_.push_back({&storage_of(*target), view_of(*target)});
      return;
    }
    for (size_t i = 0; i < targets_.size(); ++i) {
      const at::Tensor& target = *targets_[i];
      if (plan_.mode == ResultMode::kOut && target.sizes() != specs->flat[i].sizes()) {
        auto* impl = target.unsafeGetTensorImpl();
        impl->set_sizes_and_strides(specs->flat[i].sizes(), specs->flat[i].strides());
        grow_storage(*impl, at::detail::computeStorageNbytes(impl->sizes(), impl->strides(), impl->dtype().itemsize(), impl->storage_offset()));
      }
      results_.push_back({&storage_of(target), view_of(target)});
    }
  }

  void take_numbers_of_own_generator() {
    if (!(plan_.row->flags & lazy::kRandom) || plan_.generator < 0 || !frame_[plan_.generator].isGenerator()) return;
    const at::Generator generator = frame_[plan_.generator].toGenerator();
    if (!generator.defined()) return;
    int64_t most = 0;
    for (const auto& result : results_) most = std::max(most, result.view.count());
    const RandomState state = take_random(generator, static_cast<uint64_t>(most + 3) / 4);
    scalars_.push_back({false, state.seed});
    scalars_.push_back({false, state.offset});
  }

  void record() {
    take_numbers_of_own_generator();
    lazy::Record record;
    record.row = plan_.row;
    record.tensors = {tensors_.data(), tensors_.size()};
    record.words = {words_.data(), words_.size()};
    record.scalars = {scalars_.data(), scalars_.size()};
    record.results = {results_.data(), results_.size()};
    record.backward = in_backward();
    record.line = is_recording_lines() ? traced_line(record.backward) : 0;
    translated([&] { lazy::Session::get().record(record); });
  }

  void return_results(const ResultSpecs* specs) {
    if (plan_.mode == ResultMode::kFresh) {
      torch::jit::drop(stack_, static_cast<size_t>(plan_.arguments));
      size_t next = 0;
      for (int length : specs->returns) {
        if (length < 0) {
          stack_.emplace_back(std::move(fresh_[next++]));
        } else {
          c10::List<at::Tensor> list;
          list.reserve(static_cast<size_t>(length));
          for (int i = 0; i < length; ++i) list.push_back(std::move(fresh_[next++]));
          stack_.emplace_back(std::move(list));
        }
      }
      return;
    }
    c10::SmallVector<c10::IValue, 2> out;
    for (int i = 0; i < plan_.returns; ++i) out.push_back(frame_[plan_.written[static_cast<size_t>(i)]]);
    torch::jit::drop(stack_, static_cast<size_t>(plan_.arguments));
    for (auto& item : out) stack_.push_back(std::move(item));
  }

  const Plan& plan_;
  Stack& stack_;
  c10::IValue* frame_;
  c10::SmallVector<uint64_t, 64> key_;
  c10::SmallVector<uint64_t, 32> words_;
  c10::SmallVector<lazy::Scalar, 8> scalars_;
  c10::SmallVector<lazy::TensorArg, 6> tensors_;
  c10::SmallVector<lazy::ResultArg, 4> results_;
  c10::SmallVector<at::Tensor, 4> fresh_;
  c10::SmallVector<at::Tensor, 2> uploads_;
  c10::SmallVector<const at::Tensor*, 4> targets_;
};

// The dispatcher's kernel of one overload.
class TracerKernel final : public c10::OperatorKernel {
 public:
  explicit TracerKernel(const Plan& plan) : plan_(plan) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
    if (plan_.device >= 0 && wants_other_device(*stack)) {
      BelowAutograd guard;
      return op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);  // PyTorch's composite of it
    }
    plan_.calls.fetch_add(1, std::memory_order_relaxed);
    if (!Tracing(plan_, *stack).run()) {
      plan_.calls.fetch_sub(1, std::memory_order_relaxed);
      run_fallback(op, stack);
    }
  }

 private:
  bool wants_other_device(const Stack& stack) const {
    const c10::IValue& device = stack[stack.size() - static_cast<size_t>(plan_.arguments - plan_.device)];
    return device.isDevice() && device.toDevice().type() != kDeviceType;
  }
  const Plan& plan_;
};

std::vector<std::unique_ptr<Plan>>& all_plans() {
  static auto* plans = new std::vector<std::unique_ptr<Plan>>();
  return *plans;
}

// Rows that copies.cpp calls with its own arguments; copies of whole storages cost nothing there.
bool is_served_elsewhere(const std::string& name) { return name == "aten::copy" || name == "aten::clone" || name == "aten::_to_copy"; }

void register_plan(std::map<std::string, torch::Library*>& libraries, const Plan& plan) {
  const std::string name = toString(plan.op.operator_name());
  const size_t colons = name.find("::");
  const std::string ns = name.substr(0, colons);
  auto& library = libraries[ns];
  if (!library) library = &new_library(torch::Library::IMPL, ns.c_str(), kKey);
  library->impl(name.substr(colons + 2).c_str(), torch::CppFunction::makeFromBoxedFunctor(std::make_unique<TracerKernel>(plan)));
}

}  // namespace

bool trace_copy(const at::Tensor& self, const at::Tensor& source) {
  static const lazy::Row* row = is_tracing_enabled() ? lazy::find_row("aten::copy") : nullptr;
  if (!row || self.dim() > lazy::kMaxRank || !is_traced(self.scalar_type()) || !is_traced(source.scalar_type())) return false;
  if (!self.is_non_overlapping_and_dense()) at::assert_no_internal_overlap(self);
  if (overlaps_partly(self, source)) raise_partial_overlap();
  const uint64_t words[] = {header(ArgKind::Tensor, 0), header(ArgKind::Tensor, 1), header(ArgKind::Bool, 1), 0};
  const lazy::TensorArg input{&storage_of(source), view_of(source)};
  const lazy::ResultArg result{&storage_of(self), view_of(self)};
  lazy::Record record;
  record.row = row;
  record.tensors = {&input, 1};
  record.words = words;
  record.results = {&result, 1};
  record.backward = in_backward();
  record.line = is_recording_lines() ? traced_line(record.backward) : 0;
  translated([&] { lazy::Session::get().record(record); });
  return true;
}

std::map<std::string, int64_t> traced_counts() {
  std::map<std::string, int64_t> counts;
  for (const auto& plan : all_plans()) {
    if (const int64_t calls = plan->calls.load()) counts[plan->op.schema().name()] += calls;
  }
  return counts;
}

void clear_traced_counts() {
  for (const auto& plan : all_plans()) plan->calls = 0;
}

void register_tracer() {
  std::map<std::string, torch::Library*> libraries;
  std::set<std::string> taken;
  for (const lazy::Row& row : lazy::rows()) {
    if (is_served_elsewhere(row.name)) continue;
    for (auto& plan : plans_of(row)) {
      if (!taken.insert(toString(plan->op.operator_name())).second) continue;
      register_plan(libraries, *plan);
      all_plans().push_back(std::move(plan));
    }
  }
}

}  // namespace thalweg::aten
