// Builds ops at the end of a block, inferring result types and checking operands; every throw is Error(Verify) with the op, the rule and the values.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>

#include "ir/dimension_numbers.h"
#include "ir/graph.h"

namespace thalweg::ir {

// compare's attribute `comparison_direction`.
enum class Comparison : uint8_t { EQ, NE, GE, GT, LE, LT };

// Attributes carry StableHLO's own names (`broadcast_dimensions`, `permutation`, `slice_sizes`, `comparison_direction`, `value` …); structured ones are read
// through ir/dimension_numbers.h. custom_call: `call_target_name`, `backend_config`; composite: `name`, `composite_attributes`; call: `callee` (Symbol).

// Appends to one block. Values returned are owned by the block. Elementwise calls need equal operand types: broadcast first.
class Builder {
 public:
  explicit Builder(Block& block) : block_(&block) {}
  Block& block() const { return *block_; }

  Location location;  // given to every op made from here on
  uint8_t group = 0;  // likewise

  // The general form: any op, with the result types inferred where `types` is empty (ops whose types cannot be inferred need them).
  Op* make(OpCode code, std::vector<Value*> operands, Attributes attrs = {}, std::vector<Type> types = {}, std::vector<std::unique_ptr<Block>> regions = {});

  Value* unary(OpCode code, Value* a);
  Value* binary(OpCode code, Value* a, Value* b);
  Value* compare(Comparison direction, Value* a, Value* b);  // floats: IEEE, integers by their signedness
  Value* select(Value* predicate, Value* on_true, Value* on_false);
  Value* convert(Value* a, DType dtype);  // identity when equal
  Value* bitcast(Value* a, const Type& type);

  Value* constant(LiteralPtr literal);
  Value* splat(const Type& type, double value);  // one value everywhere
  Value* iota(const Type& type, int64_t dim);

  // broadcast_in_dim: result dim dims[i] comes from operand dim i (equal, or 1 and repeated).
  Value* broadcast(Value* a, Dims shape, Dims dims);
  // NumPy broadcasting of `a` to `shape` (trailing dims aligned).
  Value* broadcast_to(Value* a, const Dims& shape);
  Value* reshape(Value* a, Dims shape);          // identity when equal
  Value* transpose(Value* a, Dims permutation);  // result dim i is operand dim permutation[i]; identity when sorted
  Value* slice(Value* a, Dims start, Dims limit, Dims stride);
  Value* reverse(Value* a, Dims dims);
  Value* concatenate(std::vector<Value*> parts, int64_t dim);
  Value* pad(Value* a, Value* padding, Dims low, Dims high, Dims interior);
  Value* dynamic_slice(Value* a, std::vector<Value*> starts, Dims sizes);
  Value* dynamic_update_slice(Value* a, Value* update, std::vector<Value*> starts);
  Value* gather(Value* operand, Value* indices, GatherDims dims, Dims slice_sizes);
  // `combine` builds the update computation: (old, new) → stored.
  Value* scatter(Value* operand, Value* indices, Value* updates, ScatterDims dims, const std::function<Value*(Builder&, Value*, Value*)>& combine,
                 bool unique_indices = false);

  // reduce of one operand by a binary op from its identity `init` (rank 0).
  Value* reduce(OpCode op, Value* a, Value* init, Dims dims);
  // Sum, max, min with the usual identities, accumulating 16-bit floats in f32.
  Value* sum(Value* a, Dims dims);
  Value* max(Value* a, Dims dims);
  // reduce of several operands: `body` gets accumulators then elements.
  std::vector<Value*> reduce(std::vector<Value*> operands, std::vector<Value*> inits, Dims dims,
                             const std::function<std::vector<Value*>(Builder&, std::vector<Value*>)>& body);
  Value* reduce_window(OpCode op, Value* a, Value* init, Dims window, Dims stride, Dims pad_low, Dims pad_high, Dims base_dilation = {},
                       Dims window_dilation = {});
  // sort along `dim`, `stable`; `less` compares (a0, b0, a1, b1, …).
  std::vector<Value*> sort(std::vector<Value*> operands, int64_t dim, bool stable, const std::function<Value*(Builder&, std::vector<Value*>)>& less);

  Value* dot(Value* lhs, Value* rhs, DotDims dims, std::optional<DType> result = {});
  Value* convolution(Value* input, Value* kernel, const ConvDims& dims);
  // `config` becomes the dict `backend_config`; an entry `has_side_effect` in it becomes the op's own attribute of that name.
  std::vector<Value*> custom_call(std::string target, std::vector<Value*> operands, std::vector<Type> results, Attributes config = {});
  // A named composite: backends may take the name, all others the decomposition of that name (passes/decompose).
  std::vector<Value*> composite(std::string name, std::vector<Value*> operands, std::vector<Type> results, Attributes attributes = {});
  void ret(std::vector<Value*> values);

 private:
  Block* block_;
};

// Checks an op's operands, attributes and regions by the rules of its row and gives its result types; throws Error(Verify). `declared`: the result types
// where they are known already, checked too. Empty optional: `declared` is needed and decides (reshape, convert, custom_call …).
std::optional<std::vector<Type>> infer_types(OpCode code, const std::vector<Value*>& operands, const Attributes& attrs,
                                             const std::vector<std::unique_ptr<Block>>& regions, const std::vector<Type>* declared = nullptr);

}  // namespace thalweg::ir
