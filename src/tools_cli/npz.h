// NumPy's .npz files: named arrays, read stored or deflated, written stored.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ir/literal.h"

namespace thalweg::tools_cli {

// Every array of the file by name (without ".npy"). Arrays of void type, which is how 16- and 8-bit floats are saved, come as bf16 and f8E4M3FN.
// Throws Error(Invalid) naming the file for what cannot be read.
std::map<std::string, ir::Literal> read_npz(const std::string& path);
// bf16 and narrower floats are written as void; sub-byte integers as 8-bit ones.
void write_npz(const std::string& path, const std::vector<std::pair<std::string, ir::Literal>>& arrays);

}  // namespace thalweg::tools_cli
