// Reads PyTorch's global settings.
#include "aten/numerics.h"

#include "aten/torch_headers.h"

namespace thalweg::aten {

lazy::Numerics numerics() {
  const auto& context = at::globalContext();
  return {context.deterministicAlgorithms(), context.float32MatmulPrecision() != at::Float32MatmulPrecision::HIGHEST};
}

}  // namespace thalweg::aten
