// A function as steps whose buffers have places: what every target starts from.
#pragma once

#include <map>
#include <vector>

#include "compiler/compiler.h"
#include "compiler/steps.h"

namespace thalweg::compiler {

// True when programs are compiled for a GPU.
bool on_gpu(const Options& options);

struct Assembly {
  exec::Frame frame;
  std::vector<Step> steps;  // in the order in which they run
  std::map<BufferKey, exec::Ref> places;
  std::vector<runtime::BufferPtr> held;  // memory of the device that steps read besides

  // Places of a step's arguments.
  std::vector<exec::Ref> refs(const std::vector<StepArg>& args) const;
};

// Divides the function (which is changed) into steps, and gives each buffer a place.
Assembly assemble(ir::Function& function, const Options& options, const ir::Module* module);

// For looking at: with THALWEG_DUMP_KERNELS=FOLDER a kernel's text goes to a file there.
void dump_kernel(const std::string& file, const std::string& text);

}  // namespace thalweg::compiler
