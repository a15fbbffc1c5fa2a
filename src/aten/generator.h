// torch.Generator on the device: a seed and a running offset of Philox.
#pragma once

#include "aten/torch_headers.h"

namespace thalweg::aten {

// Seed and offset that one random operation consumes.
struct RandomState {
  uint64_t seed = 0, offset = 0;
};

// A generator of the device. The default one stands for the session's own numbers; others keep theirs. State as a tensor: 16 uint8, seed then offset, both
// little endian. Guard uses of one generator by several threads with its mutex_, as everywhere in PyTorch.
class DeviceGenerator final : public c10::GeneratorImpl {
 public:
  // `is_default`: a face of the session's numbers.
  explicit DeviceGenerator(bool is_default);
  static c10::DeviceType device_type();

  void set_current_seed(uint64_t seed) override;
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override;
  uint64_t current_seed() const override;
  uint64_t seed() override;
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;

  // Takes `counters` Philox counters (4 numbers each).
  RandomState take(uint64_t counters);

 private:
  GeneratorImpl* clone_impl() const override;
  bool is_default_;
  uint64_t seed_ = c10::default_rng_seed_val, offset_ = 0;
};

// The default generator; made on first use.
const at::Generator& default_generator();
// Takes `counters` from `generator`, or from the default one when it is empty. Raises RuntimeError for a generator of another device.
RandomState take_random(const std::optional<at::Generator>& generator, uint64_t counters);
// A CPU generator seeded from `counters` taken of `generator`: for kernels that run on the CPU.
at::Generator derived_cpu_generator(const std::optional<at::Generator>& generator);
// The same on PyTorch's CUDA, for kernels that run there.
at::Generator derived_cuda_generator(const std::optional<at::Generator>& generator, c10::Device device);

}  // namespace thalweg::aten
