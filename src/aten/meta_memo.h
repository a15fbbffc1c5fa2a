// What PyTorch's own meta kernels say of an operation's results, remembered by the arguments' metadata.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "aten/torch_headers.h"
#include "lazy/view.h"

namespace thalweg::aten {

// One result: dtype, sizes, strides.
struct ResultSpec {
  bool defined = false;  // false: an undefined tensor (masked-out gradients)
  lazy::View view;
  caffe2::TypeMeta dtype;
  size_t bytes = 0;  // of a fresh storage
  c10::IntArrayRef sizes() const { return {view.sizes.data(), view.rank}; }
  c10::IntArrayRef strides() const { return {view.strides.data(), view.rank}; }
};

// All results of one operation. Immutable.
struct ResultSpecs {
  bool untraceable = false;      // the operation must take the fallback for these arguments
  std::vector<ResultSpec> flat;  // lists flattened
  std::vector<int> returns;      // by return value: -1 a tensor, else the length of a list
};

// A map from keys of words to result specs: lock-free lookups, entries that live as long as the process. Thread-safe.
class MetaMemo {
 public:
  MetaMemo();
  // The specs stored under the key, or null. `hash` must be hash_key(key).
  const ResultSpecs* find(std::span<const uint64_t> key, uint64_t hash) const;
  // Stores and returns them. Beyond a million entries nothing more is kept and the specs live until the thread's next call.
  const ResultSpecs* store(std::span<const uint64_t> key, uint64_t hash, ResultSpecs specs);
  static uint64_t hash_key(std::span<const uint64_t> key);

 private:
  struct Entry {
    uint64_t hash;
    std::vector<uint64_t> key;
    ResultSpecs specs;
  };
  struct Table {
    explicit Table(size_t size) : mask(size - 1), slots(size) {}
    size_t mask;
    std::vector<std::atomic<const Entry*>> slots;
  };
  static void insert(Table& table, const Entry* entry);
  std::atomic<Table*> table_;
  std::mutex writing_;
  size_t count_ = 0;
};

// The spec of a (meta) tensor as a fresh result; strides that are not dense become contiguous. Not for ranks above lazy::kMaxRank.
ResultSpec spec_of(const at::Tensor& tensor);
// The specs of the `count` return values on top of the stack; `untraceable` when one of them cannot be a traced result.
ResultSpecs specs_of_returns(const torch::jit::Stack& stack, size_t count);

}  // namespace thalweg::aten
