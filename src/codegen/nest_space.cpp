// Iteration spaces of nests.
#include <algorithm>

#include "codegen/nest.h"
#include "codegen/scalar_text.h"
#include "ir/dimension_numbers.h"

namespace thalweg::codegen {

using ir::OpCode;

int64_t NestSpace::size() const {
  int64_t n = 1;
  for (auto [extent, role] : dims) n *= extent;
  return n;
}

int64_t NestSpace::size(DimRole wanted) const {
  int64_t n = 1;
  for (auto [extent, role] : dims)
    if (role == wanted) n *= extent;
  return n;
}

int NestSpace::size_of_roles(DimRole wanted) const {
  return static_cast<int>(std::count_if(dims.begin(), dims.end(), [&](const auto& dim) { return dim.second == wanted; }));
}

NestSpace flexible_space(int64_t elements) { return {{{elements, DimRole::Row}}, true}; }

namespace {

// Dims other than 1 with whether they are reduced, neighbours merged.
std::vector<std::pair<int64_t, bool>> merged_dims(const ir::Op& reduce) {
  const ir::Dims &shape = reduce.operand(0)->type.dims, &reduced = reduce.attrs.ints("dimensions");
  std::vector<std::pair<int64_t, bool>> merged;
  for (size_t k = 0; k < shape.size(); ++k) {
    if (shape[k] == 1) continue;
    bool r = std::find(reduced.begin(), reduced.end(), static_cast<int64_t>(k)) != reduced.end();
    if (!merged.empty() && merged.back().second == r) {
      merged.back().first *= shape[k];
    } else {
      merged.emplace_back(shape[k], r);
    }
  }
  return merged;
}

}  // namespace

bool is_row_reduce(const ir::Op& reduce) {
  auto merged = merged_dims(reduce);
  return merged.empty() || merged.back().second || (merged.size() == 1);
}

NestSpace reduce_space(const ir::Op& reduce) {
  auto merged = merged_dims(reduce);
  NestSpace space;
  const bool rows = is_row_reduce(reduce);
  for (size_t k = 0; k < merged.size(); ++k) {
    auto [extent, reduced] = merged[k];
    DimRole role = rows ? (reduced ? DimRole::Inner : DimRole::Row) : reduced ? DimRole::Row : k + 1 == merged.size() ? DimRole::Inner : DimRole::Batch;
    space.dims.emplace_back(extent, role);
  }
  return space;
}

bool is_contraction(const ir::Op& op) {
  if (op.code != OpCode::DotGeneral && op.code != OpCode::Convolution && op.code != OpCode::ReduceWindow) return false;
  for (const ir::Value* operand : op.operands)
    if (!has_scalar_type(operand->type.dtype)) return false;
  return has_scalar_type(op.result()->type.dtype);
}

NestSpace contraction_space(const ir::Op& op) {
  NestSpace space;
  const ir::Type& result = op.result()->type;
  space.dims.emplace_back(result.size(), DimRole::Row);
  auto inner = [&](int64_t extent) { space.dims.emplace_back(extent, DimRole::Inner); };
  if (op.code == OpCode::DotGeneral) {
    for (int64_t d : ir::dot_dims(op.attrs).lhs_contract) inner(op.operand(0)->type.dims[d]);
  } else if (op.code == OpCode::Convolution) {
    const ir::ConvDims dims = ir::conv_dims(op.attrs);
    for (int64_t d : dims.kernel_spatial) inner(op.operand(1)->type.dims[d]);
    inner(op.operand(1)->type.dims[dims.kernel_input]);
  } else {
    for (int64_t d : ir::window_of(op.attrs, op.operand(0)->type.rank()).size) inner(d);
  }
  return space;
}

}  // namespace thalweg::codegen
