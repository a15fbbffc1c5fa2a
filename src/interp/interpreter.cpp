// The machine: blocks, control flow, calls, tuples; everything else through the table of op functions.
#include "interp/interpreter.h"

#include <array>

#include "interp/machine.h"
#include "interp/scalar_functions.h"
#include "ir/printer.h"

namespace thalweg::interp {
namespace {

using ir::Literal;
using ir::LiteralPtr;
using ir::Op;
using ir::OpCode;

constexpr size_t kOpCount = 0
#define THALWEG_OP(name, text, ...) +1
#include "ir/ops.def"
#undef THALWEG_OP
    ;

OpFn find_function(OpCode code) {
  if (code == OpCode::CustomCall) return custom_call;
  for (auto family :
       {elementwise_function, movement_function, reduction_function, product_function, linear_algebra_function, random_function, collective_function})
    if (OpFn function = family(code)) return function;
  return nullptr;
}

OpFn function_of(OpCode code) {
  static const auto table = [] {
    std::array<OpFn, kOpCount> t{};
    for (size_t i = 0; i < kOpCount; ++i) t[i] = find_function(static_cast<OpCode>(i));
    return t;
  }();
  return table[static_cast<size_t>(code)];
}

Datum tensor_datum(Literal literal) { return {std::make_shared<const Literal>(std::move(literal)), {}}; }

Datum token_datum() {
  Literal token;
  token.type = ir::token();
  return tensor_datum(std::move(token));
}

bool is_true(const Datum& datum) { return to_int(*datum.tensor, 0) != 0; }

std::vector<Datum> while_loop(Machine& machine, const Op& op, std::vector<Datum> values) {
  while (is_true(machine.run(*op.regions[0], values)[0])) values = machine.run(*op.regions[1], values);
  return values;
}

// Branch 0 of `if` is taken when true; `case` takes its last branch for every index out of range.
std::vector<Datum> branch(Machine& machine, const Op& op, const Datum& selector) {
  const auto last = static_cast<int64_t>(op.regions.size()) - 1;
  int64_t index = to_int(*selector.tensor, 0);
  if (op.code == OpCode::If)
    index = index != 0 ? 0 : 1;
  else if (index < 0 || index > last)
    index = last;
  return machine.run(*op.regions[static_cast<size_t>(index)], std::vector<Datum>{});
}

std::vector<Datum> tensors(Machine& machine, const Op& op, const std::vector<Datum>& operands) {
  OpFn function = function_of(op.code);
  if (op.code == OpCode::Composite) function = composite;
  if (!function) unsupported(op);
  std::vector<LiteralPtr> in;
  for (const Datum& datum : operands) {
    THALWEG_CHECK(datum.tensor, Unsupported, "op takes no tuples: stablehlo.", ir::name(op.code));
    in.push_back(datum.tensor->splat ? std::make_shared<const Literal>(expand(*datum.tensor)) : datum.tensor);
  }
  std::vector<Datum> results;
  for (Literal& literal : function(Call{machine, op, in})) results.push_back(tensor_datum(std::move(literal)));
  return results;
}

std::vector<Datum> evaluate(Machine& machine, const Op& op, std::vector<Datum> operands) {
  switch (op.code) {
    case OpCode::While:
      return while_loop(machine, op, std::move(operands));
    case OpCode::If:
    case OpCode::Case:
      return branch(machine, op, operands[0]);
    case OpCode::Call:
      return machine.call(op.attrs.string("callee"), operands, op);
    case OpCode::Composite:
      if (op.attrs.has("decomposition")) return machine.call(op.attrs.string("decomposition"), operands, op);
      break;
    case OpCode::OptimizationBarrier:
      return operands;
    case OpCode::Tuple:
      return {Datum{nullptr, std::move(operands)}};
    case OpCode::GetTupleElement:
      return {operands[0].parts[static_cast<size_t>(op.attrs.integer("index"))]};
    case OpCode::AfterAll:
    case OpCode::CreateToken:
      return {token_datum()};
    default:
      break;
  }
  return tensors(machine, op, operands);
}

std::vector<Datum> data_of(std::span<const Literal> literals) {
  std::vector<Datum> data;
  for (const Literal& literal : literals) data.push_back(tensor_datum(literal));
  return data;
}

void flatten(const Datum& datum, std::vector<Literal>& out) {
  if (datum.tensor) out.push_back(expand(*datum.tensor));
  for (const Datum& part : datum.parts) flatten(part, out);
}

std::vector<Literal> literals_of(const std::vector<Datum>& data) {
  std::vector<Literal> out;
  for (const Datum& datum : data) flatten(datum, out);
  return out;
}

void check_inputs(const ir::Function& function, std::span<const Literal> inputs) {
  THALWEG_CHECK(inputs.size() == function.body.args.size(), Invalid, "wrong number of inputs: ", inputs.size(), ", @", function.name, " takes ",
                function.body.args.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    THALWEG_CHECK(inputs[i].type == function.body.args[i]->type, Invalid, "input ", i, " has the wrong type: ", to_string(inputs[i].type), ", @", function.name,
                  " takes ", to_string(function.body.args[i]->type));
}

}  // namespace

std::vector<Datum> Machine::run(const ir::Block& block, const std::vector<Datum>& args) {
  for (size_t i = 0; i < block.args.size(); ++i) values_[block.args[i].get()] = args[i];
  for (const auto& op : block.ops)
    if (op->code != OpCode::Return) run(*op);
  std::vector<Datum> results;
  for (const ir::Value* value : block.terminator().operands) results.push_back(values_.at(value));
  return results;
}

std::vector<Literal> Machine::run(const ir::Block& block, std::vector<Literal> args) {
  std::vector<Datum> data;
  for (Literal& literal : args) data.push_back(tensor_datum(std::move(literal)));
  return literals_of(run(block, data));
}

std::vector<Datum> Machine::call(const std::string& function, const std::vector<Datum>& args, const Op& caller) {
  const ir::Function* callee = module_ ? module_->find(function) : nullptr;
  THALWEG_CHECK(callee, Invalid, "no such function to call: @", function, ", called by stablehlo.", ir::name(caller.code));
  return run(callee->body, args);
}

void Machine::run(const Op& op) {
  std::vector<Datum> operands;
  operands.reserve(op.operands.size());
  for (const ir::Value* value : op.operands) operands.push_back(values_.at(value));
  std::vector<Datum> results = evaluate(*this, op, std::move(operands));
  THALWEG_ASSERT(results.size() >= op.results.size(), ir::name(op.code));
  for (size_t i = 0; i < op.results.size(); ++i) values_[op.results[i].get()] = std::move(results[i]);
}

Reducer::Reducer(Machine& machine, const ir::Block& block) : machine_(machine), block_(block) {
  if (block.ops.size() != 2 || block.args.size() != 2 || block.terminator().operands.size() != 1) return;
  const Op& op = *block.ops[0];
  if (op.operands.size() != 2 || block.terminator().operands[0] != op.results[0].get()) return;
  const ir::Value *a = block.args[0].get(), *b = block.args[1].get();
  swapped_ = op.operands[0] == b && op.operands[1] == a;
  if (!swapped_ && (op.operands[0] != a || op.operands[1] != b)) return;
  function_ = binary_function(op.code, a->type.dtype);
}

void Reducer::apply(Literal& accumulator, const std::byte* element) const {
  if (function_) {
    const std::byte* a = accumulator.data.data();
    return swapped_ ? function_(element, a, accumulator.data.data()) : function_(a, element, accumulator.data.data());
  }
  Literal value(ir::tensor(block_.args[1]->type.dtype));
  std::memcpy(value.data.data(), element, value.data.size());
  std::vector<Literal> args;
  args.push_back(std::move(accumulator));
  args.push_back(std::move(value));
  accumulator = std::move(machine_.run(block_, std::move(args))[0]);
}

std::vector<Literal> run(const ir::Module& module, const ir::Function& function, std::span<const Literal> inputs, const Options& options) {
  check_inputs(function, inputs);
  return literals_of(Machine(&module, options).run(function.body, data_of(inputs)));
}

std::vector<Literal> run(const ir::Function& function, std::span<const Literal> inputs, const Options& options) {
  check_inputs(function, inputs);
  return literals_of(Machine(nullptr, options).run(function.body, data_of(inputs)));
}

}  // namespace thalweg::interp
