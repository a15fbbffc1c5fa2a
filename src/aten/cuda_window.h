// Device tensors as CUDA tensors over the same memory, for kernels of PyTorch's that run on the GPU.
#pragma once

#include <vector>

#include "aten/torch_cuda.h"

namespace thalweg::aten {

// The CUDA storages that stand for device storages during one operation of PyTorch's on `stream`: the counterpart of HostWindow, without waiting on the host.
// Between the last stand_in() and the operation goes begin(); after the last device() and collect(), end(). One thread, one operation.
class CudaWindow {
 public:
  CudaWindow(const char* reason, runtime::Stream& stream) : reason_(reason), work_(stream) {}

  // Must be called for every tensor that will be written before the first stand_in() of its storage.
  void will_write(const at::Tensor& device);
  // The CUDA tensor with the same memory, sizes, strides and offset.
  at::Tensor stand_in(const at::Tensor& device);
  void begin() { work_.begin(); }
  // The device tensor for a result of the operation: a view of one of the storages when the result lies in one, else a new tensor that adopts PyTorch's memory
  // without a copy.
  at::Tensor device(const at::Tensor& cuda);
  // For a tensor that was written: takes over new sizes, strides and memory if the operation has resized it.
  void collect(const at::Tensor& device, const at::Tensor& cuda);
  void end();

 private:
  struct Entry {
    c10::Storage device, cuda;
    bool write = false;
    void* address = nullptr;
  };
  Entry& entry(const at::Tensor& device);
  void open(Entry& entry);
  // Makes `storage` hold the CUDA storage's memory, which then lives until nothing uses it.
  void adopt(const c10::Storage& storage, c10::Storage cuda, c10::ScalarType dtype, bool exclusive);

  std::vector<Entry> entries_;
  const char* reason_;
  TorchWork work_;
  std::vector<runtime::BufferPtr> exposed_;  // whose addresses somebody outside knows
};

}  // namespace thalweg::aten
