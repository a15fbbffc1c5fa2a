// The program: modules of functions of blocks of ops in SSA form, with StableHLO's op set and meaning.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/attributes.h"
#include "ir/type.h"

namespace thalweg::ir {

// Every op: one row of ops.def.
enum class OpCode : uint16_t {
#define THALWEG_OP(name, text, ...) name,
#include "ir/ops.def"
#undef THALWEG_OP
};

struct Op;
struct Block;

// One SSA value: the result of an op or the argument of a block. Owned by its op or block; addresses are stable.
struct Value {
  Type type;
  Op* def = nullptr;       // null for a block argument
  Block* block = nullptr;  // owner of a block argument, else null
  uint32_t index = 0;      // result or argument number
};

// Where an op came from: Python file and line for traced ops, text position for parsed ones. Empty when unknown.
struct Location {
  std::string file;
  int line = 0;
  std::string op;  // the PyTorch op that traced it, e.g. "aten::linear"
};

// A single-block region or function body: arguments, then ops in an order where operands come first; the last op is its terminator (Return).
struct Block {
  std::vector<std::unique_ptr<Value>> args;
  std::vector<std::unique_ptr<Op>> ops;
  Value* add_arg(Type type);
  const Op& terminator() const { return *ops.back(); }
};

struct Op {
  OpCode code;
  std::vector<Value*> operands;
  std::vector<std::unique_ptr<Value>> results;
  Attributes attrs;
  std::vector<std::unique_ptr<Block>> regions;
  Location location;
  // Ops of different groups are never merged (common subexpressions): 0 forward, 1 backward; keeps recomputation recomputed.
  uint8_t group = 0;

  Value* result(size_t i = 0) const { return results[i].get(); }
  Value* operand(size_t i) const { return operands[i]; }
};

struct Function {
  std::string name;
  Block body;
  std::vector<Attributes> arg_attrs, result_attrs;  // empty or one an argument / result
  Attributes attrs;
  bool is_public = true;
  std::vector<Type> result_types() const;
};

struct Module {
  std::string name;
  Attributes attrs;
  std::vector<std::unique_ptr<Function>> functions;
  std::vector<std::string> extra_ops;  // module-level ops that are only carried (sdy.mesh …), as written
  Function* find(std::string_view name) const;
  Function& main() const;  // @main, or the only public function; throws Error(Invalid) when there is none
};

// StableHLO's name without the dialect, e.g. "add"; func ops: "call", "return".
std::string_view name(OpCode code);
// The op with that name, or nothing.
std::optional<OpCode> parse_op(std::string_view name);

// Deep copies; values of `function` map to their copies in the same positions.
std::unique_ptr<Function> clone(const Function& function);
std::unique_ptr<Module> clone(const Module& module);
// A region's copy; values from outside the region stay as they are.
std::unique_ptr<Block> clone(const Block& block);

}  // namespace thalweg::ir
