// Copies between device xla and PyTorch's CUDA on the same GPU: on the device, or none at all until somebody writes.
#pragma once

#include "aten/torch_headers.h"

namespace thalweg::aten {

// All of this only where has_torch_cuda(). No call waits on the host.

// `self`, a device tensor whose elements are all of its storage, gets the values of a CUDA tensor of the same sizes. With ZERO_COPY_ENABLED=1, and where types
// and strides are the same, it shares PyTorch's memory until either side writes; else the values are copied.
void copy_from_cuda(const at::Tensor& self, const at::Tensor& cuda);
// A CUDA tensor gets the values of a device tensor of the same sizes, in the order of PyTorch's current stream.
void copy_to_cuda(const at::Tensor& cuda, const at::Tensor& from);
// A CUDA tensor with the values of `tensor`, which shares its memory until either side writes. Undefined where that cannot be: copy then.
at::Tensor share_with_cuda(const at::Tensor& tensor);

// A device tensor over a CUDA tensor's memory, which it keeps alive. Writes to either are seen by the other: the storage counts as exposed.
at::Tensor wrap_cuda_tensor(const at::Tensor& cuda);

}  // namespace thalweg::aten
