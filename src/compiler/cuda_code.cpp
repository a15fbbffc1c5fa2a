// From texts to kernels.
#include "compiler/cuda_code.h"

#include <map>
#include <memory>
#include <mutex>

#include "runtime/cuda/cuda_device.h"

namespace thalweg::compiler {
namespace {

// Loaded code by machine code, which the text's cache keeps for the life of the process. Never destroyed: work may be queued when the process ends.
struct Modules {
  std::mutex mutex;
  std::map<std::pair<const runtime::Device*, const std::string*>, std::unique_ptr<runtime::cuda::Module>> loaded;
};

Modules& modules() {
  static auto* instance = new Modules;
  return *instance;
}

}  // namespace

std::vector<runtime::cuda::Kernel> load_kernels(runtime::Device& device, std::span<const codegen::cuda::KernelSource> sources) {
  const runtime::cuda::Properties& properties = runtime::cuda::properties(device);
  const std::vector<codegen::cuda::Image> images = codegen::cuda::compile(sources, properties.major * 10 + properties.minor);
  std::vector<runtime::cuda::Kernel> kernels;
  Modules& all = modules();
  std::scoped_lock lock(all.mutex);
  for (size_t i = 0; i < sources.size(); ++i) {
    std::unique_ptr<runtime::cuda::Module>& module = all.loaded[{&device, images[i].get()}];
    if (!module) module = std::make_unique<runtime::cuda::Module>(device, std::span<const char>(images[i]->data(), images[i]->size()));
    kernels.push_back(module->kernel(sources[i].name.c_str()));
  }
  return kernels;
}

}  // namespace thalweg::compiler
