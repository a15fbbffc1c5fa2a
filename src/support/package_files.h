// Files that come in Python packages, found from native code.
#pragma once

#include <string>
#include <vector>

namespace thalweg {

// Existing paths of `file` (such as "thalweg/libthalweg_clang.so"), best first. Looked for in the folder of the module or program that holds the address
// `symbol` and in every folder above it: itself, its lib/python3*/site-packages (a program in an environment's bin), and those of its .venv (a build tree).
std::vector<std::string> package_files(const void* symbol, const std::string& file);

}  // namespace thalweg
