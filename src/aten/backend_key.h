// The one place that names PyTorch's XLA keys and bridges the differences between PyTorch 2.11 and 2.15.
#pragma once

#include "aten/torch_headers.h"

namespace thalweg::aten {

// The device and the dispatch keys that Thalweg serves.
inline constexpr c10::DeviceType kDeviceType = c10::DeviceType::XLA;
inline constexpr c10::DispatchKey kKey = c10::DispatchKey::XLA;
inline constexpr c10::DispatchKey kAutogradKey = c10::DispatchKey::AutogradXLA;
inline constexpr c10::DispatchKey kAutocastKey = c10::DispatchKey::AutocastXLA;
inline constexpr c10::BackendComponent kBackend = c10::BackendComponent::XLABit;

// The only device for now: xla:0.
inline c10::Device device_zero() { return c10::Device(kDeviceType, 0); }
inline bool is_ours(const at::TensorBase& tensor) { return tensor.defined() && tensor.device().type() == kDeviceType; }

// torch.dtype's number for a TypeMeta.
inline c10::ScalarType scalar_type_of(caffe2::TypeMeta meta) { return c10::typeMetaToScalarType(meta); }

// Registers `make` as the maker of the hooks that PyTorch asks for generators, pinned memory and availability. The maker takes an argument in 2.11 only.
template <class Hooks, class Registry>
void register_hooks(Registry& registry) {
  const std::string name = "torch_xla::detail::XLAHooks";  // the key that PyTorch looks up
  if (registry.Has(name)) return;
  if constexpr (requires { registry.Create(name); }) {
    registry.Register(name, +[]() -> std::unique_ptr<at::XLAHooksInterface> { return std::make_unique<Hooks>(); });
  } else {
    registry.Register(name, +[](at::XLAHooksArgs) -> std::unique_ptr<at::XLAHooksInterface> { return std::make_unique<Hooks>(); });
  }
}

// True while the calling thread runs the autograd engine's backward.
inline bool in_backward() { return torch::autograd::get_current_graph_task_id() != -1; }

// The sequence number of the autograd node being evaluated on this thread, or nothing. The node is an intrusive pointer in 2.15, a shared one in 2.11.
inline std::optional<uint64_t> current_node_sequence() {
  auto node = torch::autograd::get_current_node();
  if (!node) return std::nullopt;
  return node->sequence_nr();
}

// While alive, dispatch on this thread skips autograd, views' bookkeeping and autocast: for calls from inside a kernel.
class BelowAutograd {
 private:
  at::AutoDispatchBelowADInplaceOrView below_;
  c10::impl::ExcludeDispatchKeyGuard no_autocast_{c10::autocast_dispatch_keyset};
};

}  // namespace thalweg::aten
