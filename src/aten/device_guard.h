// What PyTorch asks about the device outside of operations: guards, streams, events, hooks.
#pragma once

namespace thalweg::aten {

// Registers the device guard, the allocator and the hooks. Once.
void register_device();

}  // namespace thalweg::aten
