// torch.Generator on the device: a seed and a running offset of Philox.
#include "aten/generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/CUDAHooksInterface.h>

#include <cstring>

#include "aten/backend_key.h"
#include "lazy/session.h"
#include "support/hash.h"

namespace thalweg::aten {
namespace {

uint64_t derived_seed(const RandomState& state) { return mix(mix(0x7468616C776567, state.seed), state.offset); }

}  // namespace

DeviceGenerator::DeviceGenerator(bool is_default) : c10::GeneratorImpl(device_zero(), c10::DispatchKeySet(kKey)), is_default_(is_default) {}

c10::DeviceType DeviceGenerator::device_type() { return kDeviceType; }

void DeviceGenerator::set_current_seed(uint64_t seed) {
  seed_ = seed;
  offset_ = 0;
  if (is_default_) lazy::Session::get().set_rng(seed, 0);
}

void DeviceGenerator::set_offset(uint64_t offset) {
  offset_ = offset;
  if (is_default_) lazy::Session::get().set_rng(lazy::Session::get().seed(), offset);
}

uint64_t DeviceGenerator::get_offset() const { return is_default_ ? lazy::Session::get().take_offset(0) : offset_; }

uint64_t DeviceGenerator::current_seed() const { return is_default_ ? lazy::Session::get().seed() : seed_; }

uint64_t DeviceGenerator::seed() {
  const uint64_t fresh = c10::detail::getNonDeterministicRandom();
  set_current_seed(fresh);
  return fresh;
}

void DeviceGenerator::set_state(const c10::TensorImpl& state) {
  TORCH_CHECK_TYPE(state.device().is_cpu() && state.dtype() == caffe2::TypeMeta::Make<uint8_t>(),
                   "expected the generator's state as a uint8 tensor on the CPU");
  TORCH_CHECK(state.numel() == 16 && state.is_contiguous(), "expected 16 bytes of generator state, seed then offset, got a tensor of ", state.numel());
  uint64_t words[2];
  std::memcpy(words, state.data(), sizeof(words));
  set_current_seed(words[0]);
  set_offset(words[1]);
}

c10::intrusive_ptr<c10::TensorImpl> DeviceGenerator::get_state() const {
  const uint64_t words[2] = {current_seed(), get_offset()};
  at::Tensor state(at::detail::empty_cpu({16}, at::kByte));
  std::memcpy(state.mutable_data_ptr(), words, sizeof(words));
  return state.getIntrusivePtr();
}

c10::GeneratorImpl* DeviceGenerator::clone_impl() const {
  auto* copy = new DeviceGenerator(false);
  copy->seed_ = current_seed();
  copy->offset_ = get_offset();
  return copy;
}

RandomState DeviceGenerator::take(uint64_t counters) {
  if (is_default_) {
    auto& session = lazy::Session::get();
    const uint64_t offset = session.take_offset(counters);
    return {session.seed(), offset};
  }
  std::lock_guard lock(mutex_);
  const uint64_t offset = offset_;
  offset_ += counters;
  return {seed_, offset};
}

const at::Generator& default_generator() {
  static const at::Generator* generator = new at::Generator(at::make_generator<DeviceGenerator>(true));
  return *generator;
}

RandomState take_random(const std::optional<at::Generator>& generator, uint64_t counters) {
  if (!generator || !generator->defined()) return default_generator().get<DeviceGenerator>()->take(counters);
  TORCH_CHECK(generator->device().type() == kDeviceType, "Expected a '", device_zero().type(), "' device type for generator but found '",
              generator->device().type(), "'");
  return generator->get<DeviceGenerator>()->take(counters);
}

at::Generator derived_cpu_generator(const std::optional<at::Generator>& generator) {
  if (generator && generator->defined() && generator->device().is_cpu()) return *generator;
  return at::detail::createCPUGenerator(derived_seed(take_random(generator, 1)));
}

at::Generator derived_cuda_generator(const std::optional<at::Generator>& generator, c10::Device device) {
  if (generator && generator->defined() && generator->device() == device) return *generator;
  at::Generator derived = at::detail::getCUDAHooks().getNewGenerator(device.index());
  derived.set_current_seed(derived_seed(take_random(generator, 1)));
  return derived;
}

}  // namespace thalweg::aten
