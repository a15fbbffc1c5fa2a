// Files that come in Python packages, found from native code.
#pragma once

#include <string>
#include <vector>

namespace thalweg {

// Existing paths of `file` (such as "thalweg/libthalweg_clang.so"), best first. Looked for above the module or program that holds the address `symbol`: in the
// site-packages that it lies in, in those of a virtual environment that it lies in (a program in bin), and in those of a .venv beside it or above it (a build
// tree). No other folder is looked into: what lies in a folder that anybody may write is not loaded.
std::vector<std::string> package_files(const void* symbol, const std::string& file);

}  // namespace thalweg
