// One op on the reference interpreter.
#include "compiler/interpreted.h"

#include <cstring>

#include "compiler/rewrite.h"
#include "interp/interpreter.h"
#include "support/error.h"

namespace thalweg::compiler {

void add_interpreted(const ir::Op& op, const HeavyContext& context, std::vector<Step>& steps) {
  std::vector<const ir::Value*> sources;
  std::shared_ptr<const ir::Function> function = isolate(op, sources);
  auto module = std::make_shared<ir::Module>();
  if (context.module) module = ir::clone(*context.module);
  Step step;
  step.name = "interpreter:" + std::string(ir::name(op.code));
  step.opaque = true;
  step.fallible = true;
  std::vector<ir::Type> types;
  for (const ir::Value* value : sources) {
    step.args.push_back({{codegen::canonical(value), -1}, value->type.is_tensor() ? value->type.bytes() : 0, false, false});
    types.push_back(value->type);
  }
  for (const auto& result : op.results) step.args.push_back({{result.get(), -1}, result->type.is_tensor() ? result->type.bytes() : 0, true, false});
  step.call = [=](void* const* args) {
    std::vector<ir::Literal> inputs;
    for (size_t i = 0; i < types.size(); ++i) {
      inputs.emplace_back(types[i]);
      std::memcpy(inputs.back().data.data(), args[i], inputs.back().data.size());
    }
    std::vector<ir::Literal> results = interp::run(*module, *function, inputs);
    for (size_t i = 0; i < results.size(); ++i) {
      char* to = static_cast<char*>(args[types.size() + i]);
      const size_t bytes = static_cast<size_t>(results[i].type.bytes()), size = results[i].data.size();
      for (size_t at = 0; size > 0 && at < bytes; at += size) std::memcpy(to + at, results[i].data.data(), size);
    }
  };
  steps.push_back(std::move(step));
}

}  // namespace thalweg::compiler
