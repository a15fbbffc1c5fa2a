// Names of ops, lookups in modules, and deep copies.
#include "ir/graph.h"

#include <array>
#include <unordered_map>

#include "support/error.h"

namespace thalweg::ir {
namespace {

constexpr std::string_view kNames[] = {
#define THALWEG_OP(name, text, ...) text,
#include "ir/ops.def"
#undef THALWEG_OP
};

const std::unordered_map<std::string_view, OpCode>& codes() {
  static const auto* map = [] {
    auto* m = new std::unordered_map<std::string_view, OpCode>;
    for (size_t i = 0; i < std::size(kNames); ++i) m->emplace(kNames[i], static_cast<OpCode>(i));
    return m;
  }();
  return *map;
}

using ValueMap = std::unordered_map<const Value*, Value*>;

void clone_block(const Block& from, Block& to, ValueMap& map);

std::unique_ptr<Op> clone_op(const Op& from, ValueMap& map) {
  auto op = std::make_unique<Op>();
  op->code = from.code;
  op->attrs = from.attrs;
  op->location = from.location;
  op->group = from.group;
  op->operands.reserve(from.operands.size());
  for (const Value* operand : from.operands) {
    auto found = map.find(operand);
    op->operands.push_back(found == map.end() ? const_cast<Value*>(operand) : found->second);  // not found: a value from outside what is copied
  }
  for (const auto& region : from.regions) {
    op->regions.push_back(std::make_unique<Block>());
    clone_block(*region, *op->regions.back(), map);
  }
  for (const auto& result : from.results) {
    auto value = std::make_unique<Value>();
    value->type = result->type;
    value->def = op.get();
    value->index = result->index;
    map.emplace(result.get(), value.get());
    op->results.push_back(std::move(value));
  }
  return op;
}

void clone_block(const Block& from, Block& to, ValueMap& map) {
  for (const auto& arg : from.args) map.emplace(arg.get(), to.add_arg(arg->type));
  to.ops.reserve(from.ops.size());
  for (const auto& op : from.ops) to.ops.push_back(clone_op(*op, map));
}

}  // namespace

Value* Block::add_arg(Type type) {
  auto value = std::make_unique<Value>();
  value->type = std::move(type);
  value->block = this;
  value->index = static_cast<uint32_t>(args.size());
  args.push_back(std::move(value));
  return args.back().get();
}

std::vector<Type> Function::result_types() const {
  std::vector<Type> types;
  if (body.ops.empty()) return types;
  for (const Value* value : body.terminator().operands) types.push_back(value->type);
  return types;
}

Function* Module::find(std::string_view function_name) const {
  for (const auto& function : functions)
    if (function->name == function_name) return function.get();
  return nullptr;
}

Function& Module::main() const {
  if (Function* found = find("main")) return *found;
  Function* only = nullptr;
  for (const auto& function : functions) {
    if (!function->is_public) continue;
    THALWEG_CHECK(!only, Invalid, "the module has several public functions and none called main: @", only->name, ", @", function->name,
                  "; name one of them main");
    only = function.get();
  }
  THALWEG_CHECK(only, Invalid, "the module has no public function to run; add one called main");
  return *only;
}

std::string_view name(OpCode code) { return kNames[static_cast<size_t>(code)]; }

std::optional<OpCode> parse_op(std::string_view op_name) {
  auto found = codes().find(op_name);
  if (found == codes().end()) return std::nullopt;
  return found->second;
}

std::unique_ptr<Block> clone(const Block& block) {
  auto copy = std::make_unique<Block>();
  ValueMap map;
  clone_block(block, *copy, map);
  return copy;
}

std::unique_ptr<Function> clone(const Function& function) {
  auto copy = std::make_unique<Function>();
  copy->name = function.name;
  copy->arg_attrs = function.arg_attrs;
  copy->result_attrs = function.result_attrs;
  copy->attrs = function.attrs;
  copy->is_public = function.is_public;
  ValueMap map;
  clone_block(function.body, copy->body, map);
  return copy;
}

std::unique_ptr<Module> clone(const Module& module) {
  auto copy = std::make_unique<Module>();
  copy->name = module.name;
  copy->attrs = module.attrs;
  copy->extra_ops = module.extra_ops;
  for (const auto& function : module.functions) copy->functions.push_back(clone(*function));
  return copy;
}

}  // namespace thalweg::ir
