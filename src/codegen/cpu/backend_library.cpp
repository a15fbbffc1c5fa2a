// dlopen of the Clang backend, its symbols kept to itself so that other copies of LLVM in the process are not disturbed.
#include "codegen/cpu/backend_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "support/package_files.h"

namespace thalweg::codegen::cpu {
namespace {

constexpr char kFileName[] = "libthalweg_clang.so";

std::vector<std::string> candidates() {
  if (const char* path = std::getenv("THALWEG_CLANG_LIBRARY")) return {path};
  const void* here = reinterpret_cast<const void*>(&candidates);
  std::vector<std::string> found;
  Dl_info module;
  std::error_code error;
  if (dladdr(here, &module) && module.dli_fname) {  // beside the module, or in the build folder above it
    auto file = std::filesystem::canonical(module.dli_fname, error);
    if (error) file = std::filesystem::absolute(module.dli_fname, error);
    for (const auto& folder : {file.parent_path(), std::filesystem::absolute(module.dli_fname, error).parent_path(), file.parent_path().parent_path()})
      if (std::filesystem::exists(folder / kFileName, error)) found.push_back(folder / kFileName);
  }
  for (std::string& path : package_files(here, std::string("thalweg/") + kFileName)) found.push_back(std::move(path));
  return found;
}

struct Loaded {
  const ThalwegClangApi* api = nullptr;
  std::string why;
};

Loaded load() {
  std::string tried;
  for (const std::string& path : candidates()) {
    void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
      tried += std::string("\n  ") + dlerror();
      continue;
    }
    auto entry = reinterpret_cast<decltype(&thalweg_clang_api)>(dlsym(handle, kThalwegClangEntry));
    const ThalwegClangApi* api = entry ? entry(kThalwegClangInterface) : nullptr;
    if (api) return {api, {}};
    tried += "\n  " + path + ": built for another version of Thalweg";
  }
  if (tried.empty()) tried = "\n  no " + std::string(kFileName) + " beside Thalweg's module";
  return {nullptr,
          "The CPU compiler could not be loaded. It needs LLVM and Clang 19: apt install libllvm19 libclang-cpp19, or set THALWEG_CLANG_LIBRARY to "
          "libthalweg_clang.so. Tried:" +
              tried};
}

}  // namespace

const ThalwegClangApi* backend(std::string* why) {
  static const auto* loaded = new Loaded(load());
  if (!loaded->api && why) *why = loaded->why;
  return loaded->api;
}

}  // namespace thalweg::codegen::cpu
