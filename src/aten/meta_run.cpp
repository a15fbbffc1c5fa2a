// The results' dtype and shape of one call, from PyTorch's meta kernels or a rule of ours where it has none.
#include "aten/meta_run.h"

#include "aten/backend_key.h"

namespace thalweg::aten {
namespace {

using torch::jit::Stack;

at::Tensor meta_like(const at::Tensor& tensor) {
  // A wrapped number stays on the CPU: meta kernels take it there, and those written in Python assert that it is.
  if (!tensor.defined() || tensor.unsafeGetTensorImpl()->is_wrapped_number()) return tensor;
  return at::detail::empty_strided_meta(tensor.sizes(), tensor.strides(), tensor.scalar_type());
}

// The argument with each of its tensors replaced by what `replace` makes of it, and devices by `device`.
template <class Replace>
c10::IValue replaced(const c10::IValue& value, c10::Device device, Replace replace) {
  if (value.isTensor()) return replace(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const c10::IValue& item : value.toListRef()) list.push_back(replace(item.toTensor()));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const c10::IValue& item : value.toListRef()) {
      list.push_back(item.isTensor() && item.toTensor().defined() ? std::optional<at::Tensor>(replace(item.toTensor())) : std::nullopt);
    }
    return list;
  }
  if (value.isDevice()) return device;
  if (value.isGenerator()) return c10::IValue();
  return value;
}

at::Tensor zeros_like_host(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.is_cpu()) return tensor;
  return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kCPU)).zero_();
}

// Throws what PyTorch's CPU kernel says of arguments of these shapes and dtypes, if it objects: its words are the ones that users know, where meta kernels
// have others. The values are zeros: only for calls that failed already.
void raise_as_host(const Plan& plan, const c10::IValue* frame) {
  constexpr int64_t kMostElements = int64_t{1} << 26;
  Stack stack;
  for (int i = 0; i < plan.arguments; ++i) {
    if (frame[i].isTensor() && frame[i].toTensor().defined() && frame[i].toTensor().numel() > kMostElements) return;
    stack.push_back(replaced(frame[i], c10::kCPU, zeros_like_host));
  }
  BelowAutograd guard;
  plan.op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
}

bool share_dtype(const Plan& plan, const c10::IValue* frame) {
  std::optional<at::ScalarType> first;
  for (const PlanArg& arg : plan.args) {
    if (arg.take != Take::kTensor || arg.position < 0 || !frame[arg.position].isTensor() || !frame[arg.position].toTensor().defined()) continue;
    const at::ScalarType type = frame[arg.position].toTensor().scalar_type();
    if (first && *first != type) return false;
    first = type;
  }
  return true;
}

ResultSpecs untraceable() {
  ResultSpecs specs;
  specs.untraceable = true;
  return specs;
}

ResultSpecs specs_of_first(const Plan& plan, const c10::IValue* frame) {
  ResultSpecs specs;
  for (const PlanArg& arg : plan.args) {
    if (arg.take != Take::kTensor) continue;
    specs.returns.assign(static_cast<size_t>(plan.returns), -1);
    specs.flat.assign(static_cast<size_t>(plan.returns), spec_of(meta_like(frame[arg.position].toTensor())));
    return specs;
  }
  return untraceable();
}

}  // namespace

ResultSpecs run_on_meta(const Plan& plan, const c10::IValue* frame) {
  if (const ShapeRule rule = plan.mode == ResultMode::kFresh ? find_shape_rule(plan.row->name) : nullptr) return rule(frame);
  if ((plan.row->flags & lazy::kShapeOfFirst) && plan.mode != ResultMode::kInPlace) return specs_of_first(plan, frame);
  if (!plan.op.hasComputedKernelForDispatchKey(c10::DispatchKey::Meta)) return untraceable();
  Stack stack;
  for (int i = 0; i < plan.arguments; ++i) stack.push_back(replaced(frame[i], c10::kMeta, meta_like));
  if (plan.device >= 0) stack[static_cast<size_t>(plan.device)] = c10::Device(c10::kMeta);
  std::vector<c10::IValue> written;
  for (int position : plan.written) written.push_back(stack[static_cast<size_t>(position)]);
  try {
    BelowAutograd guard;
    plan.op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Meta), &stack);
  } catch (const c10::NotImplementedError&) {
    return untraceable();
  } catch (const std::exception&) {
    raise_as_host(plan, frame);
    throw;
  }
  // Index tensors: not every PyTorch's meta kernels look at their dtype.
  for (const PlanArg& arg : plan.args) {
    if (!arg.takes_any_device || arg.take != Take::kTensor || arg.position < 0 || !frame[arg.position].isTensor()) continue;
    if (!at::isIntegralType(frame[arg.position].toTensor().scalar_type(), false)) raise_as_host(plan, frame);
  }
  if ((plan.row->flags & lazy::kSameDtype) && !share_dtype(plan, frame)) {
    raise_as_host(plan, frame);
    TORCH_CHECK(false, plan.row->name, ": expected tensors of one dtype; convert them with .to(dtype)");
  }
  if (plan.mode == ResultMode::kFresh) return specs_of_returns(stack, static_cast<size_t>(plan.returns));
  stack.assign(written.begin(), written.end());
  return specs_of_returns(stack, stack.size());
}

}  // namespace thalweg::aten
