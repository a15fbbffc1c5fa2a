// Loading NVRTC and calling it.
#include "codegen/cuda/nvrtc.h"

#include <dlfcn.h>

#include <cstdlib>
#include <type_traits>
#include <vector>

#include "support/error.h"
#include "support/vendor_library.h"

namespace thalweg::codegen::cuda {
namespace {

constexpr int kOldest = 12000;

struct Functions {
#define THALWEG_NVRTC(name, symbol, ...) int (*name)(__VA_ARGS__);
#include "codegen/cuda/nvrtc.def"
#undef THALWEG_NVRTC
  const char* (*error_string)(int);
};

struct Loaded {
  Functions functions{};
  int version = 0;
  std::string failure;
};

std::vector<std::string> library_names() {
  if (const char* path = std::getenv("THALWEG_NVRTC_LIBRARY")) return {path};
  return toolkit_library_names(reinterpret_cast<const void*>(&library_names), "libnvrtc.so", "cuda_nvrtc");
}

Loaded load() {
  Loaded made;
  const std::string cure = "pip install nvidia-cuda-nvrtc, or set THALWEG_NVRTC_LIBRARY to libnvrtc.so.13";
  std::string tried;
  void* library = open_vendor_library(library_names(), tried);
  if (!library) {
    made.failure = "The GPU compiler could not be loaded. It needs NVRTC 12.0 or later: " + cure + ". Tried:" + tried;
    return made;
  }
  bool complete = true;
  auto find = [&](auto& function, const char* symbol) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, symbol));
    complete = complete && function != nullptr;
  };
#define THALWEG_NVRTC(name, symbol, ...) find(made.functions.name, symbol);
#include "codegen/cuda/nvrtc.def"
#undef THALWEG_NVRTC
  find(made.functions.error_string, "nvrtcGetErrorString");
  int major = 0, minor = 0;
  if (complete && made.functions.version(&major, &minor) == 0) made.version = major * 1000 + minor * 10;
  if (made.version < kOldest)
    made.failure = "The NVRTC that was found is too old: " + std::to_string(major) + "." + std::to_string(minor) + ", needed 12.0 or later; " + cure;
  return made;
}

const Loaded& loaded() {
  static const auto* instance = new Loaded(load());
  return *instance;
}

const Functions& nvrtc() {
  THALWEG_CHECK(loaded().failure.empty(), Missing, loaded().failure);
  return loaded().functions;
}

void check(int result, const char* call) { THALWEG_CHECK(result == 0, Vendor, "NVRTC failed to ", call, ": ", nvrtc().error_string(result)); }

// A program of NVRTC's while it lives.
class Unit {
 public:
  explicit Unit(const std::string& text) { check(nvrtc().create(&program_, text.c_str(), "kernel.cu", 0, nullptr, nullptr), "take a text"); }
  ~Unit() { nvrtc().destroy(&program_); }
  Unit(const Unit&) = delete;

  std::string log() const {
    size_t size = 0;
    if (nvrtc().log_size(program_, &size) != 0 || size == 0) return {};
    std::string text(size, '\0');
    nvrtc().log(program_, text.data());
    text.resize(size - 1);
    return text;
  }
  std::string cubin(std::span<const char* const> options) const {
    const int result = nvrtc().compile(program_, static_cast<int>(options.size()), options.data());
    THALWEG_CHECK(result == 0, Vendor, "NVRTC rejected a kernel: ", nvrtc().error_string(result), "\n", log());
    size_t size = 0;
    check(nvrtc().cubin_size(program_, &size), "give machine code");
    std::string image(size, '\0');
    check(nvrtc().cubin(program_, image.data()), "give machine code");
    return image;
  }

 private:
  void* program_ = nullptr;
};

}  // namespace

int nvrtc_version() {
  nvrtc();
  return loaded().version;
}

bool has_nvrtc(std::string* why) {
  if (why) *why = loaded().failure;
  return loaded().failure.empty();
}

std::string compile_cubin(const std::string& text, int architecture) {
  const std::string arch = "-arch=sm_" + std::to_string(architecture);
  const char* const options[] = {arch.c_str(), "-std=c++20", "-default-device", "--fmad=false", "-restrict", "--diag-suppress=161,177,550"};
  return Unit(text).cubin(options);
}

}  // namespace thalweg::codegen::cuda
