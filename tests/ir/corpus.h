// Finds programs to test with: a folder of .mlir files named by THALWEG_TEST_PROGRAMS, and the training steps beside the repository.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace thalweg::tests {

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// Unpacks an archive of programs once a process into a temporary folder; empty when there is none.
inline std::filesystem::path unpacked_programs() {
  static const std::filesystem::path folder = [] {
    namespace fs = std::filesystem;
    if (const char* given = std::getenv("THALWEG_TEST_PROGRAMS")) return fs::path(given);
    for (fs::path up = fs::path(__FILE__).parent_path(); up.has_relative_path(); up = up.parent_path()) {
      const fs::path archive = up / "shared/data/stablehlo/testdata.tar.xz";
      if (!fs::exists(archive)) continue;
      const fs::path to = fs::temp_directory_path() / "thalweg_test_programs";
      fs::create_directories(to);
      if (std::system(("tar -xf '" + archive.string() + "' -C '" + to.string() + "'").c_str()) == 0) return to;
    }
    return fs::path();
  }();
  return folder;
}

inline std::vector<std::filesystem::path> all_programs() {
  namespace fs = std::filesystem;
  std::vector<fs::path> paths;
  if (!unpacked_programs().empty())
    for (const auto& entry : fs::recursive_directory_iterator(unpacked_programs()))
      if (entry.path().extension() == ".mlir") paths.push_back(entry.path());
  for (fs::path up = fs::path(__FILE__).parent_path(); up.has_relative_path(); up = up.parent_path())
    for (const char* name : {"vit.mlir", "bert.mlir"})
      if (fs::exists(up / "shared/data/train_steps" / name)) paths.push_back(up / "shared/data/train_steps" / name);
  return paths;
}

}  // namespace thalweg::tests
