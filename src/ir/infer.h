// Shape rules: one small function an op, found through a table; each checks its op and gives the result types.
#pragma once

#include <limits>
#include <optional>
#include <string>

#include "ir/builder.h"
#include "support/error.h"

namespace thalweg::ir {

// What a shape rule sees. `declared` holds the result types when the op has them already, else null.
struct OpView {
  OpCode code;
  const std::vector<Value*>& operands;
  const Attributes& attrs;
  const std::vector<std::unique_ptr<Block>>& regions;
  const std::vector<Type>* declared;

  const Type& type(size_t operand) const { return operands[operand]->type; }
  // The only declared result type; Error(Verify) when there are none or several.
  const Type& declared_type() const;
};

// Gives the result types, or nothing when the declared ones decide.
using ShapeRule = std::optional<std::vector<Type>> (*)(const OpView&);

// The rules of one family of ops; null for an op of another family.
ShapeRule elementwise_rule(OpCode code);
ShapeRule movement_rule(OpCode code);
ShapeRule reduction_rule(OpCode code);
ShapeRule product_rule(OpCode code);
ShapeRule control_rule(OpCode code);
ShapeRule collective_rule(OpCode code);

// Throws Error(Verify): op, rule, then the values.
template <class... Parts>
[[noreturn]] void broken(const OpView& op, const Parts&... parts) {
  raise(ErrorKind::Verify, op.code == OpCode::Call || op.code == OpCode::Return ? "func." : "stablehlo.", name(op.code), ": ", parts...);
}
template <class... Parts>
void require(bool holds, const OpView& op, const Parts&... parts) {
  if (!holds) [[unlikely]]
    broken(op, parts...);
}

// Operand count exactly `n`.
void require_operands(const OpView& op, size_t n);
void require_regions(const OpView& op, size_t n);
// Every operand is a tensor.
void require_tensors(const OpView& op);
// 0 <= dim < rank for each, none twice.
void require_dims(const OpView& op, const char* attribute, const Dims& dims, int64_t rank);
// The element count without overflow of int64, or Error(Verify).
int64_t checked_size(const OpView& op, const Dims& dims);
// "[2, 3]".
std::string to_string(const Dims& dims);
// The types a region returns; Error(Verify) when it has no terminator.
std::vector<Type> region_results(const OpView& op, size_t region);
// Sums and products that stop at the ends of int64 instead of wrapping, so that absurd attributes give absurd sizes, which are then refused.
inline int64_t bounded_sum(int64_t a, int64_t b) {
  int64_t sum;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return a > 0 ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int64_t>::min();
}
// The product of a size and a positive factor.
inline int64_t bounded_product(int64_t size, int64_t factor) {
  int64_t product;
  return __builtin_mul_overflow(size, factor, &product) ? std::numeric_limits<int64_t>::max() : product;
}
// Size of one dimension after dilation, and after padding.
inline int64_t dilated(int64_t size, int64_t dilation) { return size == 0 ? 0 : bounded_sum(bounded_product(size - 1, dilation), 1); }
inline int64_t padded_size(int64_t low, int64_t size, int64_t high) { return bounded_sum(bounded_sum(low, size), high); }
// Number of window positions along one dimension.
inline int64_t window_positions(int64_t padded, int64_t window, int64_t stride) { return padded < window || padded <= 0 ? 0 : (padded - window) / stride + 1; }

}  // namespace thalweg::ir
