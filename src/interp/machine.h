// The interpreter's inside: what an op's function gets, and the machine that calls it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "interp/interpreter.h"
#include "support/error.h"

namespace thalweg::interp {

class Devices;

// A value at run time: a tensor, or a tuple's parts. Tokens are empty tensors.
struct Datum {
  ir::LiteralPtr tensor;
  std::vector<Datum> parts;
};

// Runs one device's program. Values of a region that runs again overwrite those of the last time.
class Machine {
 public:
  Machine(const ir::Module* module, const Options& options, Devices* devices = nullptr, int64_t device = 0)
      : module_(module), options_(options), devices_(devices), device_(device) {}

  std::vector<Datum> run(const ir::Block& block, const std::vector<Datum>& args);
  // A region over tensors, e.g. a reducer: its arguments are rank-0 literals.
  std::vector<ir::Literal> run(const ir::Block& block, std::vector<ir::Literal> args);
  std::vector<Datum> call(const std::string& function, const std::vector<Datum>& args, const ir::Op& caller);

  const Options& options() const { return options_; }
  Devices* devices() const { return devices_; }
  int64_t device() const { return device_; }
  // A new number for each rng op that runs.
  uint64_t next_random_stream() { return ++random_streams_; }

 private:
  void run(const ir::Op& op);
  const ir::Module* module_;
  const Options& options_;
  Devices* devices_;
  int64_t device_;
  uint64_t random_streams_ = 0;
  std::unordered_map<const ir::Value*, Datum> values_;
};

// One op at work: the operands are expanded (never splats).
struct Call {
  Machine& machine;
  const ir::Op& op;
  const std::vector<ir::LiteralPtr>& operands;

  const ir::Literal& in(size_t i) const { return *operands[i]; }
  const ir::Type& type(size_t i = 0) const { return op.results[i]->type; }
  const ir::Attributes& attrs() const { return op.attrs; }
  const ir::Block& region(size_t i = 0) const { return *op.regions[i]; }
};

// What an op does with tensors; gives one literal a result.
using OpFn = std::vector<ir::Literal> (*)(const Call&);

// The functions of one family; null for an op of another family.
OpFn elementwise_function(ir::OpCode code);
OpFn movement_function(ir::OpCode code);
OpFn reduction_function(ir::OpCode code);
OpFn product_function(ir::OpCode code);
OpFn linear_algebra_function(ir::OpCode code);
OpFn random_function(ir::OpCode code);
OpFn collective_function(ir::OpCode code);
// custom_call, and composites without a decomposition.
std::vector<ir::Literal> custom_call(const Call& call);
std::vector<ir::Literal> composite(const Call& call);

// Applies a region of two rank-0 operands: straight through its scalar function when the region is one binary op, else by running it.
class Reducer {
 public:
  Reducer(Machine& machine, const ir::Block& block);
  // accumulator = region(accumulator, element), both of the region's types.
  void apply(ir::Literal& accumulator, const std::byte* element) const;

 private:
  Machine& machine_;
  const ir::Block& block_;
  void (*function_)(const std::byte*, const std::byte*, std::byte*) = nullptr;
  bool swapped_ = false;
};

// Throws Error(Unsupported) naming the op.
[[noreturn]] inline void unsupported(const ir::Op& op) {
  raise(ErrorKind::Unsupported, "op is parsed but cannot be run: stablehlo.", ir::name(op.code), "; rewrite it with static shapes and plain types");
}

// A list of one literal.
inline std::vector<ir::Literal> one(ir::Literal literal) {
  std::vector<ir::Literal> list;
  list.push_back(std::move(literal));
  return list;
}

}  // namespace thalweg::interp
