// The walk up from a module to the environment that holds it.
#include "support/package_files.h"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>

namespace thalweg {
namespace {

namespace fs = std::filesystem;

// Everything under `lib` that is named python3*, in order of name.
std::vector<fs::path> site_packages(const fs::path& lib) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const auto& python : fs::directory_iterator(lib, error))
    if (python.path().filename().string().starts_with("python3")) found.push_back(python.path() / "site-packages");
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

std::vector<std::string> package_files(const void* symbol, const std::string& file) {
  std::vector<std::string> found;
  std::error_code error;
  const auto try_path = [&](const fs::path& path) {
    if (fs::exists(path, error) && std::find(found.begin(), found.end(), path) == found.end()) found.push_back(path);
  };
  Dl_info module;
  if (!dladdr(const_cast<void*>(symbol), &module) || !module.dli_fname) return found;
  const fs::path given = fs::absolute(module.dli_fname, error), real = fs::canonical(given, error);
  for (fs::path folder : {given, real}) {
    while (folder.has_relative_path()) {
      folder = folder.parent_path();
      if (folder.filename() == "site-packages") try_path(folder / file);
      for (const fs::path& environment : {folder, folder / ".venv"}) {
        if (!fs::exists(environment / "pyvenv.cfg", error)) continue;
        for (const fs::path& packages : site_packages(environment / "lib")) try_path(packages / file);
      }
    }
  }
  return found;
}

}  // namespace thalweg
