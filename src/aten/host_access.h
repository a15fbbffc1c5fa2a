// Device tensors as host tensors over the same bytes, for kernels that run on the CPU.
#pragma once

#include <vector>

#include "aten/torch_headers.h"

namespace thalweg::aten {

// What host tensors are wanted for.
enum class Access { kRead, kWrite };

// The host storages that stand for device storages during one host operation: tensors that share a storage there share one here. Reading flushes what is
// pending under `reason` and waits. After the operation, collect() brings what it did to written storages back. One thread, one operation.
class HostWindow {
 public:
  explicit HostWindow(const char* reason) : reason_(reason) {}

  // Must be called for every tensor that will be written before the first stand_in() of its storage.
  void will_write(const at::Tensor& device);
  // The CPU tensor with the same bytes, sizes, strides and offset.
  at::Tensor stand_in(const at::Tensor& device);
  // The device tensor for a result of the host operation: a view of one of the storages when the result lies in one, else a new tensor that adopts the host
  // memory without a copy, or copies it to a device that has other memory.
  at::Tensor device(const at::Tensor& host);
  // For a tensor that was written: takes over new sizes, strides and memory if the host operation has resized it.
  void collect(const at::Tensor& device, const at::Tensor& host);

 private:
  struct Entry {
    c10::Storage device, host;
    bool write = false;
    void* address = nullptr;
    std::shared_ptr<void> memory;  // keeps the address
  };
  Entry& entry(const at::Tensor& device);
  void open(Entry& entry);
  std::vector<Entry> entries_;
  const char* reason_;
};

// A new device storage that adopts a CPU storage's memory, which then lives until nothing uses it; or copies it to a device that has other memory.
c10::Storage adopt_host_storage(const c10::Storage& host, c10::ScalarType dtype);

// A device tensor over a CPU tensor's memory, which it keeps alive. Writes to either are seen by the other: the storage counts as exposed. Raises where the
// device has other memory.
at::Tensor wrap_host_tensor(const at::Tensor& host);

}  // namespace thalweg::aten
