// A vendor's shared library, opened when it is first needed.
#pragma once

#include <string>
#include <vector>

namespace thalweg {

// Opens the first of `names` (sonames or paths, best first). A copy that is in the process already, such as PyTorch's, comes before all others. Null when none
// can be opened: then `tried` gets the loader's reasons, each on a line of its own. Never closed.
void* open_vendor_library(const std::vector<std::string>& names, std::string& tried);

// Where CUDA's toolkit libraries of versions 13 and 12 may lie, best first: the loader's own places, what pip installed above the module that holds the address
// `symbol`, /usr/local/cuda. `stem`: "libnvrtc.so"; `package_12`: the folder of the package for version 12 below site-packages/nvidia, "cuda_nvrtc".
std::vector<std::string> toolkit_library_names(const void* symbol, const std::string& stem, const std::string& package_12);

}  // namespace thalweg
