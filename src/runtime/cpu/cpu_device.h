// The CPU as a device: streams are threads, memory is host memory.
#pragma once

#include <memory>

#include "runtime/debug_modes.h"
#include "runtime/device.h"

namespace thalweg::runtime::cpu {

// The process's CPU device; made on first use, never destroyed. After a fork in the child: a fresh one whose streams have no queued work.
Device& device();

// Another CPU device, with memory and streams of its own: for tests and tools. All its buffers must be gone before it ends.
std::shared_ptr<Device> make_device(int ordinal);
// The same with debug modes other than those of the environment.
std::shared_ptr<Device> make_device(int ordinal, const DebugModes& modes);

}  // namespace thalweg::runtime::cpu
