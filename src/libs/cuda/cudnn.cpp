// Loading cuDNN, and its descriptors.
#include "libs/cuda/cudnn.h"

#include <dlfcn.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <type_traits>

#include "libs/cuda/cudnn_functions.h"
#include "runtime/cuda/cuda_device.h"
#include "support/error.h"
#include "support/package_files.h"
#include "support/vendor_library.h"

namespace thalweg::libs::cuda {
namespace {

using runtime::cuda::ContextScope;

constexpr size_t kOldest = 90600;

struct Loaded {
  cudnn::Functions functions{};
  std::string failure;
};

std::vector<std::string> library_names() {
  if (const char* path = std::getenv("THALWEG_CUDNN_LIBRARY")) return {path};
  const std::string name = "libcudnn.so.9";
  std::vector<std::string> names{name};
  for (std::string& path : package_files(reinterpret_cast<const void*>(&library_names), "nvidia/cudnn/lib/" + name)) names.push_back(std::move(path));
  names.push_back("/usr/local/cuda/lib64/" + name);
  return names;
}

Loaded load() {
  Loaded made;
  const std::string cure = "pip install nvidia-cudnn-cu13, put it on LD_LIBRARY_PATH, or set THALWEG_CUDNN_LIBRARY to libcudnn.so.9";
  std::string tried;
  // cuDNN opens these by their names when it first needs them; what is in the process already is found wherever it lies.
  std::string unused;
  open_vendor_library(toolkit_library_names(reinterpret_cast<const void*>(&load), "libcublasLt.so", "cublas"), unused);
  open_vendor_library(toolkit_library_names(reinterpret_cast<const void*>(&load), "libnvrtc.so", "cuda_nvrtc"), unused);
  void* library = open_vendor_library(library_names(), tried);
  if (!library) {
    made.failure = "Attention and convolutions on the GPU need cuDNN 9.6 or later, which was not found: " + cure + ". Tried:";
    made.failure += tried;
    return made;
  }
  bool complete = true;
  auto find = [&](auto& function, const char* symbol) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, symbol));
    complete = complete && function != nullptr;
  };
#define THALWEG_CUDNN(name, symbol, ...) find(made.functions.name, symbol);
#include "libs/cuda/cudnn.def"
#undef THALWEG_CUDNN
  find(made.functions.version, "cudnnGetVersion");
  find(made.functions.status_text, "cudnnGetErrorString");
  find(made.functions.last_error, "cudnnGetLastErrorString");
  if (!complete) {
    made.failure = "The library that was found is no cuDNN 9: " + cure;
  } else if (const size_t version = made.functions.version(); version < kOldest) {
    made.failure = "The cuDNN that was found is too old: " + std::to_string(version) + ", needed 90600 (9.6) or later: " + cure;
  }
  return made;
}

const Loaded& loaded() {
  static const auto* instance = new Loaded(load());
  return *instance;
}

}  // namespace

bool has_cudnn(std::string* reason) {
  if (reason) *reason = loaded().failure;
  return loaded().failure.empty();
}

int cudnn_version() { return static_cast<int>(cudnn::functions().version()); }

namespace cudnn {

const Functions& functions() {
  THALWEG_CHECK(loaded().failure.empty(), Missing, loaded().failure);
  return loaded().functions;
}

std::string failure_text(int status) {
  char words[1024] = {};
  functions().last_error(words, sizeof words);
  return std::string(functions().status_text(status)) + (words[0] ? ": " : "") + words;
}

Descriptor::Descriptor(Kind kind) {
  const int status = functions().make_descriptor(static_cast<int>(kind), &pointer_);
  THALWEG_CHECK(status == 0, Unsupported, "cuDNN has no such descriptor: ", failure_text(status), "; kind ", static_cast<int>(kind));
}

Descriptor::~Descriptor() {
  if (pointer_) functions().destroy_descriptor(pointer_);
}

void Descriptor::set(Attribute attribute, ValueType type, int64_t count, const void* values) {
  const int status = functions().set_attribute(pointer_, static_cast<int>(attribute), static_cast<int>(type), count, values);
  THALWEG_CHECK(status == 0, Unsupported, "cuDNN refuses an attribute: ", failure_text(status), "; attribute ", static_cast<int>(attribute));
}

void Descriptor::set(Attribute attribute, const Descriptor& value) {
  void* const pointer = value.pointer();
  set(attribute, ValueType::Descriptor, 1, &pointer);
}

void Descriptor::finalize() {
  const int status = functions().finalize(pointer_);
  THALWEG_CHECK(status == 0, Unsupported, "cuDNN refuses a description: ", failure_text(status));
}

namespace {

// The library's state of one GPU, made on first use and kept. Any thread.
void* handle_of(const runtime::Device& device) {
  static auto* mutex = new std::mutex;
  static auto* handles = new std::map<int, void*>;
  std::scoped_lock lock(*mutex);
  void*& handle = (*handles)[device.ordinal()];
  if (!handle) {
    ContextScope scope(runtime::cuda::context(device));
    const int status = functions().create(&handle);
    THALWEG_CHECK(status == 0, Vendor, "cuDNN failed to start: ", failure_text(status));
  }
  return handle;
}

}  // namespace

Gpu::Gpu(runtime::Device& device) : device_(&device), handle_(handle_of(device)) {}

Gpu Gpu::described(const std::string& json) {
  Gpu gpu;
  gpu.description_ = std::make_shared<Descriptor>(Kind::Gpu);
  gpu.description_->set(Attribute::GpuJson, ValueType::Char, static_cast<int64_t>(json.size()), json.data());
  gpu.description_->finalize();
  return gpu;
}

}  // namespace cudnn
}  // namespace thalweg::libs::cuda
