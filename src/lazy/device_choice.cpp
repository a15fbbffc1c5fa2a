// The environment, and what there is.
#include "lazy/device_choice.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <mutex>

#include "compiler/compiler.h"
#include "runtime/cpu/cpu_device.h"
#include "runtime/cuda/cuda_device.h"
#include "support/error.h"

namespace thalweg::lazy {
namespace {

struct Choice {
  std::mutex mutex;
  std::string made;
};

Choice& choice() {
  static auto* instance = new Choice;
  return *instance;
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text == "GPU" ? "CUDA" : text;
}

bool has_gpu(std::string& why) { return runtime::cuda::device_count(&why) > 0 && compiler::can_compile_for_gpus(&why); }

std::string decide(const std::string& asked) {
  std::string why;
  if (asked == "CPU") return asked;
  if (asked.empty()) return has_gpu(why) ? "CUDA" : "CPU";
  THALWEG_CHECK(asked == "CUDA", Invalid, "PJRT_DEVICE names a device that there is not: ", asked, "; use CPU or CUDA");
  THALWEG_CHECK(has_gpu(why), Missing, "PJRT_DEVICE asks for a GPU, which cannot be used: ", why);
  return asked;
}

}  // namespace

const std::string& device_kind() {
  Choice& c = choice();
  std::scoped_lock lock(c.mutex);
  if (c.made.empty()) {
    const char* environment = std::getenv("PJRT_DEVICE");
    c.made = decide(upper(environment ? environment : ""));
  }
  return c.made;
}

void choose_device_kind(const std::string& kind) {
  Choice& c = choice();
  std::scoped_lock lock(c.mutex);
  const std::string name = upper(kind);
  THALWEG_CHECK(c.made.empty() || c.made == name, Device, "The device computes on ", c.made, " already, and cannot go over to ", name,
                "; choose before the first tensor, or set PJRT_DEVICE");
  if (c.made.empty()) c.made = decide(name);
}

runtime::Device& chosen_device() { return device_kind() == "CUDA" ? runtime::cuda::device(0) : runtime::cpu::device(); }

}  // namespace thalweg::lazy
