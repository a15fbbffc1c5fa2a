// Random reductions, windows, products, sorts and control flow.
#include "tools_cli/random_drawer.h"

#include <cmath>
#include <cstring>

namespace thalweg::tools_cli {

Dims Drawer::some_dims(int64_t rank) {
  Dims dims;
  for (int64_t i = 0; i < rank; ++i)
    if (chance(50)) dims.push_back(i);
  if (dims.empty() && rank > 0) dims.push_back(below(rank));
  return dims;
}

Value* Drawer::reduce() {
  Value* a = any();
  const Dims dims = some_dims(a->type.rank());
  if (chance(50)) {
    Value* s = summable(a);
    return b().sum(s, dims);
  }
  if (is_complex(a->type.dtype)) return nullptr;
  if (chance(50)) return b().max(a, dims);
  const bool boolean = a->type.dtype == DType::I1;
  constexpr OpCode kBool[] = {OpCode::And, OpCode::Or, OpCode::Xor};
  return b().reduce(boolean ? one_of(kBool) : OpCode::Minimum, a, exactly(ir::tensor(a->type.dtype)), dims);
}

Value* Drawer::arg_reduce() {
  Value* a = find([](const Type& t) { return t.rank() >= 1 && !ir::is_complex(t.dtype); });
  if (!a) return nullptr;
  const int64_t dim = below(a->type.rank());
  const DType dtype = a->type.dtype;
  if (is_float(dtype)) a = small_integers(a);  // NaN has no place in an order, and whole numbers have many ties
  Value* places = b().iota(ir::tensor(DType::S32, a->type.dims), dim);
  const bool largest = chance(50);
  const auto body = [&](ir::Builder& inner, std::vector<Value*> v) -> std::vector<Value*> {
    Value* ahead = inner.compare(largest ? ir::Comparison::GT : ir::Comparison::LT, v[0], v[2]);
    Value* first = inner.binary(OpCode::And, inner.compare(ir::Comparison::EQ, v[0], v[2]), inner.compare(ir::Comparison::LT, v[1], v[3]));
    Value* better = inner.binary(OpCode::Or, ahead, first);
    return {inner.select(better, v[0], v[2]), inner.select(better, v[1], v[3])};
  };
  const auto out = b().reduce({a, places}, {exactly(ir::tensor(dtype)), b().splat(ir::tensor(DType::S32), -1)}, {dim}, body);
  if (chance(50)) keep(out[0]);
  return out[1];
}

Value* Drawer::reduce_window() {
  Value* a = find([](const Type& t) { return t.rank() >= 1 && t.size() <= 500 && !ir::is_complex(t.dtype); });
  if (!a) return nullptr;
  Dims window, stride, low, high, base, dilation;
  for (int64_t i = 0; i < a->type.rank(); ++i) {
    const bool on = chance(60);
    window.push_back(on ? 1 + below(3) : 1);
    stride.push_back(on ? 1 + below(2) : 1);
    low.push_back(on && chance(50) ? below(2) : 0);
    high.push_back(on && chance(50) ? below(2) : 0);
    base.push_back(chance(10) ? 2 : 1);
    dilation.push_back(chance(10) ? 2 : 1);
  }
  const bool sum = chance(40);
  Value* in = sum ? summable(a) : a;
  const Type scalar = ir::tensor(in->type.dtype);
  if (sum && scalar.dtype == DType::I1) return nullptr;
  return b().reduce_window(sum ? OpCode::Add : OpCode::Maximum, in, sum ? b().splat(scalar, 0) : exactly(scalar), window, stride, low, high, base, dilation);
}

Value* Drawer::select_and_scatter() {
  Value* a = find([](const Type& t) { return t.rank() >= 1 && t.size() <= 300 && is_float(t.dtype) && byte_size(t.dtype) >= 4; });
  if (!a) return nullptr;
  ir::Window w;
  Dims source;
  for (int64_t d : a->type.dims) {
    const int64_t size = std::max<int64_t>(1, std::min<int64_t>(d, 1 + below(3))), stride = 1 + below(2);
    w.size.push_back(size);
    w.stride.push_back(stride);
    w.pad_low.push_back(0);
    w.pad_high.push_back(0);
    w.base_dilation.push_back(1);
    w.window_dilation.push_back(1);
    source.push_back(d < size ? 0 : (d - size) / stride + 1);
  }
  ir::Attributes attrs;
  attrs.set("window_dimensions", w.size);
  attrs.set("window_strides", w.stride);
  const Type scalar = ir::tensor(a->type.dtype);
  std::vector<std::unique_ptr<ir::Block>> regions;
  for (int i = 0; i < 2; ++i) {
    regions.push_back(std::make_unique<ir::Block>());
    Value* x = regions.back()->add_arg(scalar);
    Value* y = regions.back()->add_arg(scalar);
    ir::Builder inner(*regions.back());
    inner.ret({i == 0 ? inner.compare(ir::Comparison::GE, x, y) : inner.binary(OpCode::Add, x, y)});
  }
  Value* values = small_integers(exactly(ir::tensor(scalar.dtype, source)));
  return b().make(OpCode::SelectAndScatter, {a, values, b().splat(scalar, 0)}, std::move(attrs), {}, std::move(regions))->result();
}

Value* Drawer::sort() {
  Value* a = find([](const Type& t) { return t.rank() >= 1 && t.size() <= 500 && !ir::is_complex(t.dtype); });
  if (!a) return nullptr;
  const int64_t dim = below(a->type.rank());
  Value* places = b().iota(ir::tensor(DType::S32, a->type.dims), dim);
  const bool descending = chance(50);
  const auto out = b().sort({a, places}, dim, true, [&](ir::Builder& inner, std::vector<Value*> v) {
    Value* first = inner.compare(descending ? ir::Comparison::GT : ir::Comparison::LT, v[0], v[1]);
    if (!is_float(v[0]->type.dtype)) return first;
    // NaN last, so that the comparator is an order.
    Value* first_number = inner.compare(ir::Comparison::EQ, v[0], v[0]);
    Value* second_nan = inner.compare(ir::Comparison::NE, v[1], v[1]);
    return inner.binary(OpCode::Or, first, inner.binary(OpCode::And, first_number, second_nan));
  });
  if (chance(50)) keep(out[0]);
  return out[1];
}

Value* Drawer::dot() {
  Value* lhs = find([](const Type& t) { return t.rank() >= 1 && t.rank() <= 4 && t.size() <= 1000; });
  if (!lhs) return nullptr;
  lhs = summable(lhs);
  const int64_t rank = lhs->type.rank();
  const Dims order = random_permutation(rank);
  ir::DotDims d;
  const int64_t batches = rank >= 3 && chance(50) ? 1 : 0;
  Dims rhs_dims;
  for (int64_t i = 0; i < batches; ++i) d.lhs_batch.push_back(order[static_cast<size_t>(i)]);
  d.lhs_contract = {order[static_cast<size_t>(batches)]};
  if (rank - batches >= 3 && chance(20)) d.lhs_contract.push_back(order[static_cast<size_t>(batches) + 1]);
  for (int64_t x : d.lhs_batch) rhs_dims.push_back(lhs->type.dims[static_cast<size_t>(x)]);
  for (int64_t x : d.lhs_contract) rhs_dims.push_back(lhs->type.dims[static_cast<size_t>(x)]);
  const size_t shared = rhs_dims.size();
  if (chance(80)) rhs_dims.push_back(1 + below(20));
  // The right side's dimensions in any order.
  const Dims places = random_permutation(static_cast<int64_t>(rhs_dims.size()));
  Dims shuffled(rhs_dims.size());
  for (size_t i = 0; i < rhs_dims.size(); ++i) shuffled[static_cast<size_t>(places[i])] = rhs_dims[i];
  for (size_t i = 0; i < shared; ++i) (i < d.lhs_batch.size() ? d.rhs_batch : d.rhs_contract).push_back(places[i]);
  Value* rhs = exactly(ir::tensor(lhs->type.dtype, shuffled));
  if (is_float(rhs->type.dtype)) rhs = small_integers(rhs);
  if (lhs->type.dtype == DType::I1) return nullptr;
  return with_plain_zeros(b().dot(lhs, rhs, d));
}

Value* Drawer::convolution() {
  const int64_t groups = chance(70) ? 1 : 2, features = 1 + below(3);
  ir::ConvDims d;
  Dims in{1 + below(2), features * groups}, kernel{groups * (1 + below(3)), features};
  for (int64_t i = 0; i < 2; ++i) {
    in.push_back(1 + below(7));
    kernel.push_back(1 + below(3));
    d.input_spatial.push_back(2 + i);
    d.stride.push_back(1 + below(2));
    d.pad_low.push_back(below(3));
    d.pad_high.push_back(below(3));
    d.lhs_dilation.push_back(chance(80) ? 1 : 2);
    d.rhs_dilation.push_back(chance(80) ? 1 : 2);
  }
  d.kernel_spatial = d.output_spatial = d.input_spatial;
  d.feature_groups = groups;
  const DType dtype = chance(80) ? DType::F32 : DType::F64;
  return with_plain_zeros(b().convolution(small_integers(exactly(ir::tensor(dtype, in))), small_integers(exactly(ir::tensor(dtype, kernel))), d));
}

Value* Drawer::softmax() {
  Value* a = find([](const Type& t) { return t.rank() >= 1 && t.dtype == DType::F32 && t.size() <= 2000; });
  if (!a) return nullptr;
  const int64_t dim = below(a->type.rank());
  Dims kept;
  for (int64_t i = 0; i < a->type.rank(); ++i)
    if (i != dim) kept.push_back(i);
  Value* top = b().broadcast(b().max(a, {dim}), a->type.dims, kept);
  Value* e = small_integers(b().unary(OpCode::Exponential, b().binary(OpCode::Subtract, a, top)));
  Value* sum = b().broadcast(b().sum(e, {dim}), a->type.dims, kept);
  return b().binary(OpCode::Divide, e, sum);
}

Value* Drawer::loop() {
  if (!options_.control) return nullptr;
  Value* x = any();
  Value* outside = exactly(x->type);
  const Type counter = ir::tensor(DType::S32);
  std::vector<std::unique_ptr<ir::Block>> regions;
  for (int i = 0; i < 2; ++i) {
    regions.push_back(std::make_unique<ir::Block>());
    Value* n = regions.back()->add_arg(counter);
    Value* v = regions.back()->add_arg(x->type);
    ir::Builder inner(*regions.back());
    if (i == 0) {
      inner.ret({inner.compare(ir::Comparison::LT, n, inner.splat(counter, 3))});
    } else {
      Value* next = inner.binary(binary_code(x->type.dtype), v, outside);
      inner.ret({inner.binary(OpCode::Add, n, inner.splat(counter, 1)), next});
    }
  }
  return b().make(OpCode::While, {b().splat(counter, static_cast<double>(below(5))), x}, {}, {}, std::move(regions))->result(1);
}

Value* Drawer::branches() {
  if (!options_.control) return nullptr;
  Value* x = any();
  Value* other = exactly(x->type);
  const bool two = chance(50);
  Value* selector = exactly(ir::tensor(two ? DType::I1 : DType::S32));
  std::vector<std::unique_ptr<ir::Block>> regions;
  for (int i = 0; i < (two ? 2 : 3); ++i) {
    regions.push_back(std::make_unique<ir::Block>());
    ir::Builder inner(*regions.back());
    inner.ret({i == 0 ? x : inner.binary(binary_code(x->type.dtype), x, other)});
  }
  return b().make(two ? OpCode::If : OpCode::Case, {selector}, {}, {}, std::move(regions))->result();
}

}  // namespace thalweg::tools_cli
