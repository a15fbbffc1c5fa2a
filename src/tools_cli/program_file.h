// Programs from files.
#pragma once

#include <memory>
#include <string>

#include "ir/graph.h"

namespace thalweg::tools_cli {

// Reads, parses and verifies; throws Error(Invalid) when the file cannot be read, Error(Parse) and Error(Verify) for what stands in it.
std::unique_ptr<ir::Module> load_program(const std::string& path);

}  // namespace thalweg::tools_cli
