// The table of shape rules and the checks they share.
#include "ir/infer.h"

#include <algorithm>
#include <array>

namespace thalweg::ir {
namespace {

constexpr size_t kOpCount = 0
#define THALWEG_OP(name, text, ...) +1
#include "ir/ops.def"
#undef THALWEG_OP
    ;

ShapeRule find_rule(OpCode code) {
  for (auto family : {elementwise_rule, movement_rule, reduction_rule, product_rule, control_rule, collective_rule})
    if (ShapeRule rule = family(code)) return rule;
  return nullptr;
}

const std::array<ShapeRule, kOpCount>& rules() {
  static const auto table = [] {
    std::array<ShapeRule, kOpCount> t{};
    for (size_t i = 0; i < kOpCount; ++i) t[i] = find_rule(static_cast<OpCode>(i));
    return t;
  }();
  return table;
}

}  // namespace

const Type& OpView::declared_type() const {
  require(declared && declared->size() == 1, *this, "one result type is needed; given: ", declared ? declared->size() : 0);
  return declared->front();
}

void require_operands(const OpView& op, size_t n) {
  require(op.operands.size() == n, op, "wrong number of operands; expected: ", n, ", given: ", op.operands.size());
}

void require_regions(const OpView& op, size_t n) {
  require(op.regions.size() == n, op, "wrong number of regions; expected: ", n, ", given: ", op.regions.size());
}

void require_tensors(const OpView& op) {
  for (const Value* value : op.operands) require(value->type.is_tensor(), op, "operands must be tensors; given: ", to_string(value->type));
}

void require_dims(const OpView& op, const char* attribute, const Dims& dims, int64_t rank) {
  for (size_t i = 0; i < dims.size(); ++i) {
    require(dims[i] >= 0 && dims[i] < rank, op, "dimension out of range in ", attribute, ": ", dims[i], ", rank: ", rank);
    require(std::find(dims.begin(), dims.begin() + static_cast<ptrdiff_t>(i), dims[i]) == dims.begin() + static_cast<ptrdiff_t>(i), op,
            "dimension given twice in ", attribute, ": ", dims[i]);
  }
}

int64_t checked_size(const OpView& op, const Dims& dims) {
  int64_t size = 1;
  for (int64_t d : dims) {
    require(d >= 0, op, "negative size in a shape: ", to_string(dims));
    require(!__builtin_mul_overflow(size, d, &size), op, "shape has more elements than can be counted: ", to_string(dims));
  }
  return size;
}

std::string to_string(const Dims& dims) {
  std::string out = "[";
  for (size_t i = 0; i < dims.size(); ++i) out += (i ? ", " : "") + (dims[i] == kDynamic ? std::string("?") : std::to_string(dims[i]));
  return out + "]";
}

std::vector<Type> region_results(const OpView& op, size_t region) {
  const Block& block = *op.regions.at(region);
  require(!block.ops.empty() && block.terminator().code == OpCode::Return, op, "a region must end in a return; region: ", region);
  std::vector<Type> types;
  for (const Value* value : block.terminator().operands) types.push_back(value->type);
  return types;
}

std::optional<std::vector<Type>> infer_types(OpCode code, const std::vector<Value*>& operands, const Attributes& attrs,
                                             const std::vector<std::unique_ptr<Block>>& regions, const std::vector<Type>* declared) {
  const OpView op{code, operands, attrs, regions, declared};
  const ShapeRule rule = rules()[static_cast<size_t>(code)];
  if (!rule) return std::nullopt;
  try {
    return rule(op);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Internal) throw;
    broken(op, error.what());  // a missing or mistyped attribute is the program's fault here
  }
}

}  // namespace thalweg::ir
