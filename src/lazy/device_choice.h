// Which device the session computes on.
#pragma once

#include <string>

#include "runtime/device.h"

namespace thalweg::lazy {

// "CPU" or "CUDA", without making anything: the environment variable PJRT_DEVICE (CPU, CUDA or GPU), else CUDA where this process sees a GPU and the libraries
// that programs for it need, else CPU. Throws Error(Missing) when PJRT_DEVICE wants a GPU and there is none, with the reason, and Error(Invalid) when it names
// something else. Looked up once.
const std::string& device_kind();
// Chooses a kind whatever the environment says. Throws as device_kind() does, and Error(Device) when another one has been looked up already.
void choose_device_kind(const std::string& kind);
// That device, made on first use: on CUDA the first GPU of CUDA_VISIBLE_DEVICES.
runtime::Device& chosen_device();

}  // namespace thalweg::lazy
