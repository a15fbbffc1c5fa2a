// What PyTorch's own meta kernels say of an operation's results, remembered by the arguments' metadata.
#include "aten/meta_memo.h"

#include <algorithm>

#include "aten/dtypes.h"
#include "support/hash.h"

namespace thalweg::aten {
namespace {

constexpr size_t kMostEntries = 1'000'000;

}  // namespace

MetaMemo::MetaMemo() : table_(new Table(1 << 12)) {}

uint64_t MetaMemo::hash_key(std::span<const uint64_t> key) {
  uint64_t h = key.size();
  for (uint64_t word : key) h = mix(h, word);
  return h;
}

const ResultSpecs* MetaMemo::find(std::span<const uint64_t> key, uint64_t hash) const {
  const Table& table = *table_.load(std::memory_order_acquire);
  for (size_t at = hash & table.mask;; at = (at + 1) & table.mask) {
    const Entry* entry = table.slots[at].load(std::memory_order_acquire);
    if (!entry) return nullptr;
    if (entry->hash == hash && std::ranges::equal(entry->key, key)) return &entry->specs;
  }
}

void MetaMemo::insert(Table& table, const Entry* entry) {
  size_t at = entry->hash & table.mask;
  while (table.slots[at].load(std::memory_order_relaxed)) at = (at + 1) & table.mask;
  table.slots[at].store(entry, std::memory_order_release);
}

const ResultSpecs* MetaMemo::store(std::span<const uint64_t> key, uint64_t hash, ResultSpecs specs) {
  std::lock_guard lock(writing_);
  if (const ResultSpecs* known = find(key, hash)) return known;
  if (count_ >= kMostEntries) {
    thread_local ResultSpecs last;
    last = std::move(specs);
    return &last;
  }
  Table* table = table_.load(std::memory_order_relaxed);
  if (++count_ * 2 > table->slots.size()) {
    auto* larger = new Table(table->slots.size() * 2);
    for (const auto& slot : table->slots) {
      if (const Entry* entry = slot.load(std::memory_order_relaxed)) insert(*larger, entry);
    }
    table_.store(larger, std::memory_order_release);  // the old one stays: another thread may be reading it
    table = larger;
  }
  const auto* entry = new Entry{hash, {key.begin(), key.end()}, std::move(specs)};
  insert(*table, entry);
  return &entry->specs;
}

ResultSpec spec_of(const at::Tensor& tensor) {
  ResultSpec spec;
  spec.defined = true;
  spec.dtype = tensor.dtype();
  const ir::DType dtype = require_ir_dtype(tensor.scalar_type());
  if (tensor.is_non_overlapping_and_dense()) {
    spec.view = lazy::View(dtype, tensor.sizes(), tensor.strides(), 0);
  } else {
    spec.view = lazy::View(dtype, tensor.sizes());
  }
  spec.bytes = static_cast<size_t>(tensor.numel()) * tensor.element_size();
  return spec;
}

ResultSpecs specs_of_returns(const torch::jit::Stack& stack, size_t count) {
  ResultSpecs specs;
  auto add = [&](const at::Tensor& tensor) {
    if (!tensor.defined()) {
      specs.flat.emplace_back();
    } else if (tensor.dim() > lazy::kMaxRank || !is_traced(tensor.scalar_type()) || tensor.layout() != c10::kStrided) {
      specs.untraceable = true;
    } else {
      specs.flat.push_back(spec_of(tensor));
    }
  };
  for (size_t i = stack.size() - count; i < stack.size(); ++i) {
    const c10::IValue& value = stack[i];
    if (value.isTensor()) {
      specs.returns.push_back(-1);
      add(value.toTensor());
    } else if (value.isNone()) {
      specs.returns.push_back(-1);
      specs.flat.emplace_back();
    } else if (value.isTensorList()) {
      const auto list = value.toListRef();
      specs.returns.push_back(static_cast<int>(list.size()));
      for (const c10::IValue& item : list) add(item.toTensor());
    } else {
      specs.untraceable = true;
    }
  }
  return specs;
}

}  // namespace thalweg::aten
