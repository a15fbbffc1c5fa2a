// Loading NCCL and calling it.
#include "libs/cuda/nccl.h"

#include <dlfcn.h>

#include "runtime/cuda/cuda_device.h"
#include "support/error.h"
#include "support/vendor_library.h"

namespace thalweg::libs::cuda {
namespace {

struct Functions {
#define THALWEG_NCCL(name, symbol, ...) int (*name)(__VA_ARGS__);
#include "libs/cuda/nccl.def"
#undef THALWEG_NCCL
  const char* (*error_string)(int);
};

struct Loaded {
  Functions functions{};
  std::string failure;
};

const Loaded& loaded() {
  static const Loaded& instance = *[] {
    auto* made = new Loaded;
    std::string tried;
    void* library = open_vendor_library({"libnccl.so.2"}, tried);
    if (library == nullptr) {
      made->failure = "NCCL was not found (libnccl.so.2 cannot be loaded); pip install nvidia-nccl-cu13, or put it on LD_LIBRARY_PATH";
      return made;
    }
    Functions& all = made->functions;
    bool complete = true;
    auto find = [&](auto& function, const char* symbol) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, symbol));
      complete = complete && function != nullptr;
    };
#define THALWEG_NCCL(name, symbol, ...) find(all.name, symbol);
#include "libs/cuda/nccl.def"
#undef THALWEG_NCCL
    find(all.error_string, "ncclGetErrorString");
    if (!complete) made->failure = "the NCCL that was found lacks functions; install version 2.20 or later";
    return made;
  }();
  return instance;
}

const Functions& nccl() {
  THALWEG_CHECK(loaded().failure.empty(), Missing, loaded().failure);
  return loaded().functions;
}

void check(int result, const char* call) { THALWEG_CHECK(result == 0, Vendor, "NCCL failed to ", call, ": ", nccl().error_string(result)); }

}  // namespace

bool has_nccl(std::string* reason) {
  if (reason) *reason = loaded().failure;
  return loaded().failure.empty();
}

int nccl_version() {
  int version = 0;
  check(nccl().get_version(&version), "tell its version");
  return version;
}

std::vector<std::unique_ptr<Communicator>> make_communicators(const std::vector<runtime::Device*>& devices) {
  std::vector<int> ordinals;
  for (runtime::Device* device : devices) {
    runtime::cuda::context(*device);  // throws for what is not a GPU
    ordinals.push_back(device->ordinal());
  }
  std::vector<void*> handles(devices.size());
  check(nccl().init_all(handles.data(), static_cast<int>(handles.size()), ordinals.data()), "make communicators");
  std::vector<std::unique_ptr<Communicator>> all;
  for (size_t i = 0; i < handles.size(); ++i) {
    all.emplace_back(new Communicator(handles[i], static_cast<int>(i), static_cast<int>(handles.size())));
  }
  return all;
}

Communicator::~Communicator() { nccl().destroy(handle_); }

void Communicator::all_reduce(const void* from, void* to, size_t count, NcclType type, NcclReduction reduction, void* native) {
  check(nccl().all_reduce(from, to, count, static_cast<int>(type), static_cast<int>(reduction), handle_, native), "start an all-reduce");
}

void Communicator::all_gather(const void* from, void* to, size_t count_each, NcclType type, void* native) {
  check(nccl().all_gather(from, to, count_each, static_cast<int>(type), handle_, native), "start an all-gather");
}

void Communicator::reduce_scatter(const void* from, void* to, size_t count_each, NcclType type, NcclReduction reduction, void* native) {
  check(nccl().reduce_scatter(from, to, count_each, static_cast<int>(type), static_cast<int>(reduction), handle_, native), "start a reduce-scatter");
}

}  // namespace thalweg::libs::cuda
