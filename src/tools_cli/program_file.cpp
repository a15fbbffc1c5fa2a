// Programs from files.
#include "tools_cli/program_file.h"

#include <fstream>
#include <iterator>

#include "ir/parser.h"
#include "ir/verifier.h"
#include "support/error.h"

namespace thalweg::tools_cli {

std::unique_ptr<ir::Module> load_program(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  THALWEG_CHECK(in, Invalid, "cannot open file: ", path);
  std::string text((std::istreambuf_iterator<char>(in)), {});
  THALWEG_CHECK(!in.bad(), Invalid, "cannot read file: ", path);
  auto module = ir::parse(text, path);
  ir::verify(*module);
  return module;
}

}  // namespace thalweg::tools_cli
