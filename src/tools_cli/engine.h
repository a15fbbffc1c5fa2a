// What programs run on: the interpreter, or the compiler and a device.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace thalweg::tools_cli {

// One program made ready to run.
class Engine {
 public:
  virtual ~Engine() = default;
  // One literal an argument of main; gives one a result.
  virtual std::vector<ir::Literal> run(const std::vector<ir::Literal>& inputs) = 0;
  // Seconds of each of `count` runs. On a device the inputs lie there before, and the results stay there: what is timed is the program.
  virtual std::vector<double> time(const std::vector<ir::Literal>& inputs, int64_t count) = 0;
  // What was made of the program, for people; may be empty.
  virtual std::string report() const { return {}; }
};

// Prepares (on a device: compiles) the module's main. `device`: "interpreter", "cpu" or "cuda" (the first GPU); else Error(Invalid). The module must outlive
// the engine.
std::unique_ptr<Engine> make_engine(const ir::Module& module, const std::string& device);

}  // namespace thalweg::tools_cli
