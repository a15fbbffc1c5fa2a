// Walks two programs side by side.
#include "ir/compare.h"

#include <unordered_map>

#include "ir/printer.h"

namespace thalweg::ir {
namespace {

class Comparison {
 public:
  std::string blocks(const Block& a, const Block& b) {
    if (a.args.size() != b.args.size()) return "number of arguments";
    if (a.ops.size() != b.ops.size()) return "number of ops: " + std::to_string(a.ops.size()) + " and " + std::to_string(b.ops.size());
    for (size_t i = 0; i < a.args.size(); ++i) {
      if (a.args[i]->type != b.args[i]->type) return "argument type: " + to_string(a.args[i]->type) + " and " + to_string(b.args[i]->type);
      map_[a.args[i].get()] = b.args[i].get();
    }
    for (size_t i = 0; i < a.ops.size(); ++i) {
      const std::string found = ops(*a.ops[i], *b.ops[i]);
      if (!found.empty()) return found;
    }
    return {};
  }

 private:
  std::string ops(const Op& a, const Op& b) {
    const auto shown = [&](const char* what) { return std::string(what) + ": " + print(a) + " and " + print(b); };
    if (a.code != b.code) return shown("op");
    if (a.operands.size() != b.operands.size() || a.results.size() != b.results.size() || a.regions.size() != b.regions.size())
      return shown("operands, results or regions");
    for (size_t i = 0; i < a.operands.size(); ++i)
      if (map_[a.operands[i]] != b.operands[i]) return shown("operand");
    if (!(a.attrs == b.attrs)) return shown("attributes");
    for (size_t i = 0; i < a.results.size(); ++i) {
      if (a.results[i]->type != b.results[i]->type) return shown("result type");
      map_[a.results[i].get()] = b.results[i].get();
    }
    for (size_t i = 0; i < a.regions.size(); ++i) {
      const std::string found = blocks(*a.regions[i], *b.regions[i]);
      if (!found.empty()) return found;
    }
    return {};
  }

  std::unordered_map<const Value*, const Value*> map_;
};

}  // namespace

std::string difference(const Function& a, const Function& b) {
  if (a.name != b.name || a.is_public != b.is_public) return "function: @" + a.name + " and @" + b.name;
  if (!(a.attrs == b.attrs) || a.arg_attrs != b.arg_attrs || a.result_attrs != b.result_attrs) return "attributes of function @" + a.name;
  const std::string found = Comparison().blocks(a.body, b.body);
  return found.empty() ? found : "in @" + a.name + ": " + found;
}

std::string difference(const Module& a, const Module& b) {
  if (a.name != b.name || !(a.attrs == b.attrs) || a.extra_ops != b.extra_ops) return "name, attributes or carried ops of the module";
  if (a.functions.size() != b.functions.size()) return "number of functions";
  for (size_t i = 0; i < a.functions.size(); ++i) {
    const std::string found = difference(*a.functions[i], *b.functions[i]);
    if (!found.empty()) return found;
  }
  return {};
}

}  // namespace thalweg::ir
