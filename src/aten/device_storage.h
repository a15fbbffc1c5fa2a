// Device tensors: plain TensorImpls whose storage's DataPtr owns a lazy::Storage.
//
// The lazy storage hangs in the DataPtr's context and not in a subclass of StorageImpl, so that storages which PyTorch makes through the registered
// allocator (torch.UntypedStorage, swapped or resized storages) are ours too.
#pragma once

#include "aten/torch_headers.h"
#include "lazy/storage.h"

namespace thalweg::aten {

// The allocator registered for the device: allocate() makes an uninitialised lazy storage. Reading the address raises RuntimeError: device tensors have
// no bytes until they are asked for with Python's data_ptr().
c10::Allocator* device_allocator();

// The lazy storage behind a device tensor or storage. Undefined behaviour for others. Never null for a tensor with storage.
lazy::Storage& storage_of(const c10::StorageImpl& storage);
inline lazy::Storage& storage_of(const at::TensorBase& tensor) { return storage_of(*tensor.storage().unsafeGetStorageImpl()); }

// A new tensor over a new uninitialised storage that just holds `sizes` at `strides` (both in elements).
at::Tensor make_tensor(c10::IntArrayRef sizes, c10::IntArrayRef strides, caffe2::TypeMeta dtype);
// A new tensor over `storage`, e.g. one that another tensor has.
at::Tensor make_tensor(c10::Storage storage, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset, caffe2::TypeMeta dtype);
// A new StorageImpl of `bytes`, uninitialised.
c10::Storage make_storage(size_t bytes);

// How `tensor` reads its storage. Its rank must be at most lazy::kMaxRank.
lazy::View view_of(const at::TensorBase& tensor);
// A flat dense view of the whole storage of `bytes` bytes as elements of `dtype`; of bytes when the size does not divide.
lazy::View flat_view(ir::DType dtype, size_t bytes);

// Changes the byte size of the tensor's storage to at least `bytes`; a tensor without one gets one.
void grow_storage(c10::TensorImpl& tensor, size_t bytes);
void resize_storage(c10::StorageImpl& storage, size_t bytes);

}  // namespace thalweg::aten
