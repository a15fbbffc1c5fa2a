// dlopen, with the copy in the process first.
#include "support/vendor_library.h"

#include <dlfcn.h>

#include <utility>

#include "support/package_files.h"

namespace thalweg {

void* open_vendor_library(const std::vector<std::string>& names, std::string& tried) {
  for (const std::string& name : names)
    if (void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) return library;
  for (const std::string& name : names) {
    if (void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    tried += std::string("\n  ") + dlerror();
  }
  return nullptr;
}

std::vector<std::string> toolkit_library_names(const void* symbol, const std::string& stem, const std::string& package_12) {
  const std::string newer = stem + ".13", older = stem + ".12";
  std::vector<std::string> names = {newer, older};
  for (const std::string& file : {"nvidia/cu13/lib/" + newer, "nvidia/" + package_12 + "/lib/" + older})
    for (std::string& path : package_files(symbol, file)) names.push_back(std::move(path));
  names.insert(names.end(), {"/usr/local/cuda/lib64/" + newer, "/usr/local/cuda/lib64/" + older});
  return names;
}

}  // namespace thalweg
