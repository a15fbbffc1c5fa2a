// The CPU as a device: streams are threads, memory is host memory.
#pragma once

#include "runtime/device.h"

namespace thalweg::runtime::cpu {

// The process's CPU device; made on first use, never destroyed. After a fork in the child: a fresh one whose streams have no queued work.
Device& device();

}  // namespace thalweg::runtime::cpu
