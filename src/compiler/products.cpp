// Products for BLAS.
#include "compiler/products.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "codegen/expression.h"
#include "compiler/rewrite.h"
#include "ir/dimension_numbers.h"
#include "libs/cpu/opaque.h"
#include "support/error.h"

namespace thalweg::compiler {
namespace {

using codegen::BaseDim;
using codegen::Index;
using ir::DType;
using ir::OpCode;

bool is_movement(const ir::Op& op) {
  return op.code == OpCode::Reshape || op.code == OpCode::Transpose || op.code == OpCode::Slice || op.code == OpCode::BroadcastInDim ||
         op.code == OpCode::OptimizationBarrier;
}

// One run of dimensions as extents and strides, outermost first.
struct Strided {
  std::vector<std::pair<int64_t, int64_t>> dims;

  int64_t extent() const {
    int64_t n = 1;
    for (auto [e, s] : dims) n *= e;
    return n;
  }
  // The stride of the run as one dimension, or nothing when it has none.
  std::optional<int64_t> stride() const {
    std::optional<int64_t> inner;
    int64_t covered = 1;
    for (size_t k = dims.size(); k-- > 0;) {
      auto [extent, s] = dims[k];
      if (extent == 1) continue;
      if (!inner) {
        inner = s;
      } else if (s != *inner * covered) {
        return {};
      }
      covered *= extent;
    }
    return inner ? inner : 0;
  }
};

// Where an operand's elements lie in the buffer of `base`: batch, free and contracted dimensions.
struct OperandView {
  const ir::Value* base = nullptr;
  int64_t offset = 0;
  Strided batch, free, contract;
};

struct Roles {
  ir::Dims batch, free, contract;  // dims of the operand
};

class Tracer {
 public:
  explicit Tracer(const std::unordered_set<const ir::Value*>& forced) : forced_(forced) {}

  // Follows moving ops from `operand` to a buffer in which it is a strided view.
  std::optional<OperandView> trace(const ir::Value* operand, const Roles& roles) const {
    const ir::Dims& dims = operand->type.dims;
    std::vector<BaseDim> base;
    for (int64_t d : dims) base.push_back({d, {}});
    while (true) {
      codegen::IndexSpace space;
      std::vector<std::vector<std::pair<int, int64_t>>> vars(dims.size());  // (atom, extent), outermost first
      std::vector<Index> at(dims.size());
      for (size_t d = 0; d < dims.size(); ++d) {
        int64_t whole = base[d].extent;
        std::vector<int64_t> cuts(base[d].splits.rbegin(), base[d].splits.rend());
        cuts.push_back(1);
        for (int64_t unit : cuts) {
          int64_t extent = whole / unit;
          int atom = space.add_atom({"d" + std::to_string(d) + "_" + std::to_string(unit), 0, extent - 1, 1, static_cast<int>(d), unit});
          vars[d].emplace_back(atom, extent);
          at[d] = at[d] + space.var(atom) * unit;
          whole = unit;
        }
      }
      std::optional<OperandView> found;
      auto leaf = [&](const ir::Value* value, const Index& where) -> std::optional<codegen::Scalar> {
        if (value->def && is_movement(*value->def) && !forced_.count(value)) return {};
        found = OperandView{value, where.constant, {}, {}, {}};
        std::unordered_map<int, int64_t> strides;
        size_t used = 0;
        for (auto [atom, c] : where.terms) strides[atom] = c;
        auto fill = [&](Strided& run, const ir::Dims& which) {
          for (int64_t d : which)
            for (auto [atom, extent] : vars[d]) {
              auto it = strides.find(atom);
              used += it != strides.end();
              run.dims.emplace_back(extent, it == strides.end() ? 0 : it->second);
            }
        };
        fill(found->batch, roles.batch), fill(found->free, roles.free), fill(found->contract, roles.contract);
        if (used != strides.size()) found.reset();  // a computed index
        return codegen::Scalar{"x", 1};
      };
      codegen::Emitter emitter(space, leaf, 2);
      emitter.pull(operand, flatten(at, dims));
      bool changed = false;
      for (auto [dim, block] : space.requests()) changed |= add_split(base[dim], block);
      if (!changed) return found;
    }
  }

 private:
  const std::unordered_set<const ir::Value*>& forced_;
};

Roles roles_of(const ir::Type& type, const ir::Dims& batch, const ir::Dims& contract) {
  Roles roles{batch, {}, contract};
  for (int64_t d = 0; d < type.rank(); ++d)
    if (std::find(batch.begin(), batch.end(), d) == batch.end() && std::find(contract.begin(), contract.end(), d) == contract.end()) roles.free.push_back(d);
  return roles;
}

// Leading dimension and transposition of a rows × columns matrix with these strides.
struct Layout {
  bool trans = false;
  int64_t leading = 1;
};

std::optional<Layout> layout(int64_t rows, int64_t row_stride, int64_t columns, int64_t column_stride) {
  if ((column_stride == 1 || columns == 1) && (row_stride >= columns || rows == 1)) return Layout{false, std::max({row_stride, columns, int64_t{1}})};
  if ((row_stride == 1 || rows == 1) && (column_stride >= rows || columns == 1)) return Layout{true, std::max({column_stride, rows, int64_t{1}})};
  return {};
}

std::optional<Layout> layout_of(const OperandView& view, bool free_is_rows) {
  auto free = view.free.stride(), contract = view.contract.stride();
  if (!free || !contract) return {};
  const int64_t f = view.free.extent(), c = view.contract.extent();
  return free_is_rows ? layout(f, *free, c, *contract) : layout(c, *contract, f, *free);
}

std::vector<int64_t> batch_offsets(const OperandView& view) {
  std::vector<int64_t> offsets{view.offset};
  for (auto [extent, stride] : view.batch.dims) {
    std::vector<int64_t> next;
    for (int64_t base : offsets)
      for (int64_t i = 0; i < extent; ++i) next.push_back(base + i * stride);
    offsets = std::move(next);
  }
  return offsets;
}

std::optional<OperandView> usable_view(const ir::Value* operand, const Roles& roles, bool free_is_rows, const std::unordered_set<const ir::Value*>& forced) {
  std::optional<OperandView> view = Tracer(forced).trace(operand, roles);
  if (view && layout_of(*view, free_is_rows)) return view;
  return {};
}

// Operands that BLAS cannot read where they lie, copied into a layout that it can.
class Copies {
 public:
  explicit Copies(std::unordered_set<const ir::Value*>& forced) : forced_(forced) {}

  // `operand` in a buffer of its own with each role's dims together, the last dim of the memory that it lies in still last, so that the copy moves whole rows;
  // `roles` then name the copy's dims.
  ir::Value* contiguous(ir::Builder& builder, ir::Value* operand, Roles& roles) {
    while (operand->def && operand->def->code == OpCode::Transpose && !forced_.count(operand)) {
      const ir::Dims& permutation = operand->def->attrs.ints("permutation");
      for (ir::Dims* list : {&roles.batch, &roles.contract, &roles.free})
        for (int64_t& d : *list) d = permutation[static_cast<size_t>(d)];
      operand = operand->def->operand(0);
    }
    const int64_t last = operand->type.rank() - 1;
    const bool free_last = std::find(roles.free.begin(), roles.free.end(), last) != roles.free.end();
    ir::Dims permutation;
    for (ir::Dims* list : {&roles.batch, free_last ? &roles.contract : &roles.free, free_last ? &roles.free : &roles.contract})
      for (int64_t& d : *list) {
        permutation.push_back(d);
        d = static_cast<int64_t>(permutation.size()) - 1;
      }
    if (std::is_sorted(permutation.begin(), permutation.end())) {
      forced_.insert(codegen::canonical(operand));
      return operand;
    }
    ir::Value*& value = made_[{codegen::canonical(operand), operand->type.dims, permutation}];
    if (!value) {
      ir::Attributes attrs;
      attrs.set("permutation", permutation);
      value = builder.make(OpCode::Transpose, {operand}, attrs)->result();
      forced_.insert(value);
    }
    return value;
  }

 private:
  std::unordered_set<const ir::Value*>& forced_;
  std::map<std::tuple<const ir::Value*, ir::Dims, ir::Dims>, ir::Value*> made_;
};

bool through_f32(DType dtype) { return dtype == DType::BF16 || dtype == DType::F16; }

// An operand as [batch, rows, columns] (no batch dim for batch 1), each role's dims merged; `transposed` when the contracted dims lie on the other side.
struct MatrixOperand {
  ir::Value* value;
  bool transposed;
};

MatrixOperand matrix(ir::Builder& b, ir::Value* operand, const Roles& roles, bool contract_last) {
  auto joined = [](std::initializer_list<const ir::Dims*> lists) {
    ir::Dims all;
    for (const ir::Dims* list : lists) all.insert(all.end(), list->begin(), list->end());
    return all;
  };
  auto extent = [&](const ir::Dims& dims) {
    int64_t n = 1;
    for (int64_t d : dims) n *= operand->type.dims[static_cast<size_t>(d)];
    return n;
  };
  const int64_t batch = extent(roles.batch), free = extent(roles.free), contract = extent(roles.contract);
  const ir::Dims free_first = joined({&roles.batch, &roles.free, &roles.contract}), contract_first = joined({&roles.batch, &roles.contract, &roles.free});
  const bool as_contract_first = std::is_sorted(contract_first.begin(), contract_first.end()) && !std::is_sorted(free_first.begin(), free_first.end());
  ir::Value* value = b.transpose(operand, as_contract_first ? contract_first : free_first);
  ir::Dims dims = as_contract_first ? ir::Dims{contract, free} : ir::Dims{free, contract};
  if (batch != 1) dims.insert(dims.begin(), batch);
  return {b.reshape(value, dims), as_contract_first == contract_last};
}

// A bf16 product as a library call, where a library offers one.
std::vector<ir::Value*> library_product(ir::Builder& b, const ir::Op& op) {
  const ir::Type& type = op.result()->type;
  for (const ir::Type* t : std::initializer_list<const ir::Type*>{&type, &op.operand(0)->type, &op.operand(1)->type})
    if (t->dtype != DType::BF16 || t->size() == 0) return {};
  if (!libs::cpu::find_opaque("thalweg.matmul")) return {};
  const ir::DotDims d = ir::dot_dims(op.attrs);
  const Roles left = roles_of(op.operand(0)->type, d.lhs_batch, d.lhs_contract), right = roles_of(op.operand(1)->type, d.rhs_batch, d.rhs_contract);
  const MatrixOperand a = matrix(b, op.operand(0), left, true), c = matrix(b, op.operand(1), right, false);
  ir::Dims dims = a.value->type.dims;
  dims[dims.size() - 2] = a.transposed ? a.value->type.dims.back() : a.value->type.dims[dims.size() - 2];
  dims.back() = c.transposed ? c.value->type.dims[dims.size() - 2] : c.value->type.dims.back();
  ir::Attributes config;
  config.set("transpose_a", a.transposed);
  config.set("transpose_b", c.transposed);
  return {b.reshape(b.custom_call("thalweg.matmul", {a.value, c.value}, {ir::tensor(DType::BF16, dims)}, std::move(config))[0], type.dims)};
}

// A small matrix whose rows are read in order, times a vector: a nest does that where the result is needed, for less than a call costs.
bool is_for_nest(const exec::GemmCommand& g) {
  constexpr int64_t kSmall = 1 << 16;
  if (static_cast<int64_t>(g.a_offsets.size()) * g.m * g.n * g.k > kSmall) return false;
  return (g.n == 1 && !g.trans_a) || (g.m == 1 && g.trans_b);
}

exec::Element element_of(DType dtype) {
  return dtype == DType::F64 ? exec::Element::F64 : dtype == DType::BF16 ? exec::Element::BF16 : dtype == DType::F16 ? exec::Element::F16 : exec::Element::F32;
}

// True for products whose types a library takes: all the same, or on a GPU 16-bit floats summed up in f32.
bool has_library_types(const ir::Op& op, bool gpu) {
  const DType factors = op.operand(0)->type.dtype, result = op.result()->type.dtype;
  if (op.operand(1)->type.dtype != factors) return false;
  if (!through_f32(factors)) return factors == result && (factors == DType::F32 || factors == DType::F64);
  return gpu && (result == factors || result == DType::F32);
}

// Products that BLAS does not take as they are.
std::vector<ir::Value*> simplify(ir::Builder& b, ir::Op& op, bool gpu) {
  if (op.code != OpCode::DotGeneral) return {};
  const ir::Type& type = op.result()->type;
  ir::Value *lhs = op.operand(0), *rhs = op.operand(1);
  if (gpu && has_library_types(op, gpu) && lhs->type.size() > 0 && rhs->type.size() > 0) return {};
  if (!gpu)
    if (std::vector<ir::Value*> library = library_product(b, op); !library.empty()) return library;
  if (type.size() > 0 && (lhs->type.size() == 0 || rhs->type.size() == 0) && !ir::is_complex(type.dtype)) return {b.splat(type, 0)};
  const bool floats = ir::is_float(lhs->type.dtype) && ir::is_float(rhs->type.dtype) && ir::is_float(type.dtype);
  const bool narrow = through_f32(lhs->type.dtype) || through_f32(rhs->type.dtype) || through_f32(type.dtype);
  const DType wide = lhs->type.dtype == DType::F64 || rhs->type.dtype == DType::F64 || type.dtype == DType::F64 ? DType::F64 : DType::F32;
  if (!floats || (!narrow && lhs->type.dtype == type.dtype && rhs->type.dtype == type.dtype)) return {};
  for (DType d : {lhs->type.dtype, rhs->type.dtype, type.dtype})
    if (d != DType::F32 && d != DType::F64 && !through_f32(d)) return {};
  ir::Value* product = b.dot(b.convert(lhs, wide), b.convert(rhs, wide), ir::dot_dims(op.attrs), wide);
  return {b.convert(product, type.dtype)};
}

}  // namespace

ProductPlans plan_products(ir::Function& function, bool gpu) {
  ProductPlans plans;
  std::unordered_set<const ir::Value*> forced;
  Copies copies(forced);
  rewrite(function, [gpu](ir::Builder& b, ir::Op& op) { return simplify(b, op, gpu); });
  rewrite(function, [&](ir::Builder& b, ir::Op& op) -> std::vector<ir::Value*> {
    if (op.code != OpCode::DotGeneral) return {};
    const DType dtype = op.result()->type.dtype;
    if (!has_library_types(op, gpu) || op.result()->type.size() == 0) return {};
    ir::DotDims d = ir::dot_dims(op.attrs);
    Roles left = roles_of(op.operand(0)->type, d.lhs_batch, d.lhs_contract), right = roles_of(op.operand(1)->type, d.rhs_batch, d.rhs_contract);
    auto view = [&](size_t i, Roles& roles) {
      std::optional<OperandView> v = usable_view(op.operand(i), roles, i == 0, forced);
      if (v) return *v;
      op.operands[i] = copies.contiguous(b, op.operand(i), roles);
      v = usable_view(op.operand(i), roles, i == 0, forced);
      THALWEG_ASSERT(v, "a contiguous operand has a layout");
      return *v;
    };
    OperandView a = view(0, left), c = view(1, right);
    d = {left.batch, right.batch, left.contract, right.contract};
    ir::set_dot_dims(op.attrs, d);
    ProductPlan plan;
    plan.lhs = codegen::canonical(a.base), plan.rhs = codegen::canonical(c.base);
    exec::GemmCommand& g = plan.command;
    g.element = element_of(op.operand(0)->type.dtype), g.wide_result = through_f32(op.operand(0)->type.dtype) && dtype == DType::F32;
    g.m = a.free.extent(), g.n = c.free.extent(), g.k = a.contract.extent();
    Layout la = *layout_of(a, true), lb = *layout_of(c, false);
    g.trans_a = la.trans, g.lda = la.leading, g.trans_b = lb.trans, g.ldb = lb.leading, g.ldc = g.n;
    g.a_offsets = batch_offsets(a), g.b_offsets = batch_offsets(c);
    if (is_for_nest(g)) return {};
    for (size_t i = 0; i < g.a_offsets.size(); ++i) g.c_offsets.push_back(static_cast<int64_t>(i) * g.m * g.n);
    plans[&op] = std::move(plan);
    return {};
  });
  return plans;
}

std::optional<StridedView> strided_view(const ir::Value* value) {
  const std::unordered_set<const ir::Value*> none;
  std::optional<OperandView> found = Tracer(none).trace(value, roles_of(value->type, {}, {}));
  if (!found) return {};
  StridedView view{codegen::canonical(found->base), found->offset, {}};
  size_t at = 0;
  for (int64_t extent : value->type.dims) {
    Strided part;  // what the dim was split into
    do {
      part.dims.push_back(found->free.dims[at++]);
    } while (part.extent() < extent);
    const std::optional<int64_t> stride = part.stride();
    if (!stride) return {};
    view.strides.push_back(*stride);
  }
  return view;
}

}  // namespace thalweg::compiler
