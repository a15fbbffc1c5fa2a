// Inlining: a copy of the callee's ops with its arguments replaced.
#include "passes/inline_calls.h"

#include "passes/rewriter.h"
#include "support/error.h"

namespace thalweg::passes {
namespace {

using ir::Op;
using ir::OpCode;

// The attribute that names what `op` calls; null when it calls nothing that is to be inlined.
const char* callee_attribute(const Op& op) {
  if (op.code == OpCode::Call) return "callee";
  if (op.code == OpCode::Composite && op.attrs.has("decomposition") && !op.attrs.string("name", "").starts_with("thalweg.")) return "decomposition";
  return nullptr;
}

Replacement inline_call(ir::Builder& builder, const Op& op, const char* attribute, const ir::Module* module) {
  const std::string& callee = op.attrs.string(attribute);
  THALWEG_CHECK(module, Verify, "call of a function outside of a module: @", callee);
  const ir::Function* function = module->find(callee);
  THALWEG_CHECK(function, Verify, "call of a function that the module does not have: @", callee);
  auto body = ir::clone(*function);
  Mapping map;
  for (size_t i = 0; i < body->body.args.size(); ++i) map[body->body.args[i].get()] = op.operands.at(i);
  auto& ops = body->body.ops;
  for (auto& inner : ops) replace_operands(*inner, map);
  Replacement results = ops.back()->operands;
  for (size_t i = 0; i + 1 < ops.size(); ++i) {
    ops[i]->group = op.group;
    if (!op.location.file.empty()) ops[i]->location = op.location;
    builder.block().ops.push_back(std::move(ops[i]));
  }
  return results;
}

}  // namespace

bool inline_calls(ir::Function& function, const ir::Module* module) {
  bool changed = false;
  // A callee's own calls come to light one level at a time; a program whose functions call each other in a ring does not pass the verifier.
  while (rewrite(function.body, [&](ir::Builder& builder, Op& op) -> Replacement {
    const char* attribute = callee_attribute(op);
    if (!attribute || op.results.empty()) return {};
    return inline_call(builder, op, attribute, module);
  }))
    changed = true;
  return changed;
}

}  // namespace thalweg::passes
