// Exchange of buffers with other libraries through DLPack, without copies.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/device.h"
#include "runtime/dlpack_abi.h"

namespace thalweg::runtime::dlpack {

// A strided array over a buffer, as exchanged. Strides count elements.
struct Array {
  BufferPtr buffer;
  uint64_t byte_offset = 0;  // of element 0 within the buffer
  DataType dtype;
  std::vector<int64_t> shape, strides;
  bool read_only = false;
  bool is_copied = false;        // the consumer owns the memory alone
  bool sub_byte_padded = false;  // elements below 8 bits take a byte each
};

// The same, borrowed for a call.
struct ArrayRef {
  const BufferPtr* buffer;
  uint64_t byte_offset = 0;
  DataType dtype;
  std::span<const int64_t> shape, strides;
  bool read_only = false, is_copied = false, sub_byte_padded = false;
};

// Bits that one element takes in memory.
uint64_t element_bits(const DataType& dtype, bool sub_byte_padded);

// Hands `array` out on `device`. The caller (in the end the consumer) calls the deleter once, on any thread; until then the memory stays. All submissions
// that write the buffer have to be ordered before the consumer's use by the caller (on a CPU: Buffer::wait_written()).
// `consumers`: the streams that the consumer may have queued work on. The deleter says nothing about such work, so what is queued there when it is called
// counts as a use of the memory.
// The legacy form cannot say "read only": Error(Invalid) for such an array.
ManagedTensorVersioned* export_versioned(const Array& array, DeviceId device, std::span<Stream* const> consumers = {});
ManagedTensor* export_legacy(const Array& array, DeviceId device, std::span<Stream* const> consumers = {});
ManagedTensorVersioned* lend_versioned(const ArrayRef& array, DeviceId device, std::span<Stream* const> consumers = {});
ManagedTensor* lend_legacy(const ArrayRef& array, DeviceId device, std::span<Stream* const> consumers = {});

// Takes an array of somebody else, over its memory. Its deleter is called exactly once: when the last reference to the buffer is gone and all submitted
// work with it has completed, by a thread of the device's own, since it may wait for locks of others; or before an error is thrown. `expected`: the device
// that `device` is to others; a CPU takes pinned host memory too.
// Throws Error(Invalid): strange major version, memory of another device, negative or overlapping strides, vectors (lanes other than 1), misaligned data,
// a null pointer with elements; nothing but the deleter is touched of an array of a strange major version.
Array import_versioned(Device& device, DeviceId expected, ManagedTensorVersioned* managed);
Array import_legacy(Device& device, DeviceId expected, ManagedTensor* managed);

// Asked before a deleter is called: false leaks the memory instead, for producers whose interpreter is gone. Null: always yes. Any thread.
void set_release_guard(bool (*may_release)());
// Deleters that were left uncalled.
uint64_t leaked_releases();

}  // namespace thalweg::runtime::dlpack
