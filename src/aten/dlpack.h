// Device tensors in DLPack's terms: lent to other libraries and made over their memory, without copies.
#pragma once

#include "aten/torch_headers.h"
#include "runtime/dlpack_abi.h"

namespace thalweg::aten {

// What a lent array says about itself.
struct LendFlags {
  bool read_only = false;  // the borrower must not write
  bool is_copied = false;  // the borrower is the only holder
};

// True for tensors of ours with memory: not for fake or wrapping ones that report our device.
bool has_device_memory(const at::Tensor& tensor);
// Where device xla's tensors lie in DLPack's terms: the CPU, or the GPU that it computes on.
runtime::dlpack::DeviceId dlpack_place();
// Raises BufferError for a tensor that an array cannot stand for: one that requires grad, or has the conjugate or negative bit.
void require_lendable(const at::Tensor& tensor);

// Hands the memory of a device tensor out: runs what is pending and waits, then the storage stays at its address, and what either side writes the other
// sees. Whoever gets the array calls its deleter once, on any thread. With Python's lock held it is given up while waiting.
runtime::dlpack::ManagedTensorVersioned* lend_versioned(const at::Tensor& tensor, LendFlags flags);
runtime::dlpack::ManagedTensor* lend_legacy(const at::Tensor& tensor, LendFlags flags);
// The same without ownership: `out` points into `tensor`, which must live as long.
void lend_borrowed(const at::Tensor& tensor, runtime::dlpack::Tensor* out);

// On a GPU: makes a stream of the borrower's (the driver's handle) wait for what the tensor's memory is still used for by us.
void order_stream_after_us(void* handle, const at::Tensor& tensor);

// A device tensor over an array of another library; its deleter is called exactly once, at last before an error is raised. Writes go to the same memory,
// except for a read-only array: a write to its tensor moves that tensor to memory of its own.
at::Tensor borrow_versioned(runtime::dlpack::ManagedTensorVersioned* managed);
at::Tensor borrow_legacy(runtime::dlpack::ManagedTensor* managed);

}  // namespace thalweg::aten
