// What the user has allowed about numbers, as PyTorch's global settings have it.
#pragma once

#include "lazy/session.h"

namespace thalweg::aten {

// torch.use_deterministic_algorithms, and torch.set_float32_matmul_precision ("high" and "medium" allow TF32). Any thread.
lazy::Numerics numerics();

}  // namespace thalweg::aten
