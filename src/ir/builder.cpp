// The builder: makes ops through the shape rules, and the convenience calls above them.
#include "ir/builder.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "ir/float_formats.h"
#include "ir/infer.h"

namespace thalweg::ir {
namespace {

bool is_identity(const Dims& permutation) {
  for (size_t i = 0; i < permutation.size(); ++i)
    if (permutation[i] != static_cast<int64_t>(i)) return false;
  return true;
}

Attribute word(const char* kind, std::string value) { return EnumWord{kind, std::move(value)}; }

constexpr const char* kDirections[] = {"EQ", "NE", "GE", "GT", "LE", "LT"};

// The dtype that sums of `dtype` accumulate in.
DType accumulator(DType dtype) { return is_float(dtype) && byte_size(dtype) < 4 ? DType::F32 : dtype; }

std::unique_ptr<Block> binary_region(OpCode op, DType dtype, const Builder& like) {
  auto block = std::make_unique<Block>();
  Value* a = block->add_arg(tensor(dtype));
  Value* b = block->add_arg(tensor(dtype));
  Builder inner(*block);
  inner.location = like.location;
  inner.group = like.group;
  inner.ret({inner.binary(op, a, b)});
  return block;
}

std::vector<std::unique_ptr<Block>> one(std::unique_ptr<Block> block) {
  std::vector<std::unique_ptr<Block>> regions;
  regions.push_back(std::move(block));
  return regions;
}

std::vector<Value*> results_of(const Op& op) {
  std::vector<Value*> values;
  for (const auto& result : op.results) values.push_back(result.get());
  return values;
}

std::vector<Value*> joined(std::vector<Value*> first, const std::vector<Value*>& rest) {
  first.insert(first.end(), rest.begin(), rest.end());
  return first;
}

// The identity of max: minus infinity, false or the smallest integer.
LiteralPtr lowest(DType dtype) {
  const Type type = tensor(dtype);
  if (is_float(dtype)) return make_splat(type, -std::numeric_limits<double>::infinity());
  if (dtype_class(dtype) == DTypeClass::Signed) {
    const int bits = dtype == DType::S2 ? 2 : dtype == DType::S4 ? 4 : static_cast<int>(8 * byte_size(dtype));
    return make_splat_int(type, bits == 64 ? std::numeric_limits<int64_t>::min() : -(int64_t{1} << (bits - 1)));
  }
  return make_splat_int(type, 0);
}

}  // namespace

Op* Builder::make(OpCode code, std::vector<Value*> operands, Attributes attrs, std::vector<Type> types, std::vector<std::unique_ptr<Block>> regions) {
  const bool given = !types.empty();
  if (auto inferred = infer_types(code, operands, attrs, regions, given ? &types : nullptr)) {
    THALWEG_CHECK(!given || *inferred == types, Verify, "stablehlo.", name(code),
                  ": result types differ from what the op gives; first given: ", to_string(types.front()),
                  ", first computed: ", inferred->empty() ? std::string("none") : to_string(inferred->front()));
    types = std::move(*inferred);
  }
  auto op = std::make_unique<Op>();
  op->code = code;
  op->operands = std::move(operands);
  op->attrs = std::move(attrs);
  op->regions = std::move(regions);
  op->location = location;
  op->group = group;
  op->results.reserve(types.size());
  for (Type& type : types) {
    auto value = std::make_unique<Value>();
    value->type = std::move(type);
    value->def = op.get();
    value->index = static_cast<uint32_t>(op->results.size());
    op->results.push_back(std::move(value));
  }
  block_->ops.push_back(std::move(op));
  return block_->ops.back().get();
}

Value* Builder::unary(OpCode code, Value* a) { return make(code, {a})->result(); }
Value* Builder::binary(OpCode code, Value* a, Value* b) { return make(code, {a, b})->result(); }

Value* Builder::compare(Comparison direction, Value* a, Value* b) {
  Attributes attrs;
  attrs.set("comparison_direction", word("comparison_direction", kDirections[static_cast<int>(direction)]));
  const DTypeClass cls = dtype_class(a->type.dtype);
  const char* kind = cls == DTypeClass::Signed ? "SIGNED" : cls == DTypeClass::Float || cls == DTypeClass::Complex ? "FLOAT" : "UNSIGNED";
  attrs.set("compare_type", word("comparison_type", kind));
  return make(OpCode::Compare, {a, b}, std::move(attrs))->result();
}

Value* Builder::select(Value* predicate, Value* on_true, Value* on_false) { return make(OpCode::Select, {predicate, on_true, on_false})->result(); }

Value* Builder::convert(Value* a, DType dtype) {
  if (a->type.dtype == dtype) return a;
  return make(OpCode::Convert, {a}, {}, {tensor(dtype, a->type.dims)})->result();
}

Value* Builder::bitcast(Value* a, const Type& type) { return a->type == type ? a : make(OpCode::BitcastConvert, {a}, {}, {type})->result(); }

Value* Builder::constant(LiteralPtr literal) {
  Attributes attrs;
  attrs.set("value", std::move(literal));
  return make(OpCode::Constant, {}, std::move(attrs))->result();
}

Value* Builder::splat(const Type& type, double value) { return constant(make_splat(type, value)); }

Value* Builder::iota(const Type& type, int64_t dim) {
  Attributes attrs;
  attrs.set("iota_dimension", dim);
  return make(OpCode::Iota, {}, std::move(attrs), {type})->result();
}

Value* Builder::broadcast(Value* a, Dims shape, Dims dims) {
  if (a->type.dims == shape && is_identity(dims)) return a;
  Attributes attrs;
  attrs.set("broadcast_dimensions", std::move(dims));
  return make(OpCode::BroadcastInDim, {a}, std::move(attrs), {tensor(a->type.dtype, std::move(shape))})->result();
}

Value* Builder::broadcast_to(Value* a, const Dims& shape) {
  const int64_t extra = static_cast<int64_t>(shape.size()) - a->type.rank();
  THALWEG_CHECK(extra >= 0, Verify, "stablehlo.broadcast_in_dim: the result has lower rank than the operand: ", to_string(a->type), " and ", to_string(shape));
  Dims dims(a->type.dims.size());
  std::iota(dims.begin(), dims.end(), extra);
  return broadcast(a, shape, std::move(dims));
}

Value* Builder::reshape(Value* a, Dims shape) {
  if (a->type.dims == shape) return a;
  return make(OpCode::Reshape, {a}, {}, {tensor(a->type.dtype, std::move(shape))})->result();
}

Value* Builder::transpose(Value* a, Dims permutation) {
  if (is_identity(permutation) && static_cast<int64_t>(permutation.size()) == a->type.rank()) return a;
  Attributes attrs;
  attrs.set("permutation", std::move(permutation));
  return make(OpCode::Transpose, {a}, std::move(attrs))->result();
}

Value* Builder::slice(Value* a, Dims start, Dims limit, Dims stride) {
  if (limit == a->type.dims && std::all_of(start.begin(), start.end(), [](int64_t s) { return s == 0; }) &&
      std::all_of(stride.begin(), stride.end(), [](int64_t s) { return s == 1; }))
    return a;
  Attributes attrs;
  attrs.set("start_indices", std::move(start));
  attrs.set("limit_indices", std::move(limit));
  attrs.set("strides", std::move(stride));
  return make(OpCode::Slice, {a}, std::move(attrs))->result();
}

Value* Builder::reverse(Value* a, Dims dims) {
  if (dims.empty()) return a;
  Attributes attrs;
  attrs.set("dimensions", std::move(dims));
  return make(OpCode::Reverse, {a}, std::move(attrs))->result();
}

Value* Builder::concatenate(std::vector<Value*> parts, int64_t dim) {
  if (parts.size() == 1) return parts[0];
  Attributes attrs;
  attrs.set("dimension", dim);
  return make(OpCode::Concatenate, std::move(parts), std::move(attrs))->result();
}

Value* Builder::pad(Value* a, Value* padding, Dims low, Dims high, Dims interior) {
  Attributes attrs;
  attrs.set("edge_padding_low", std::move(low));
  attrs.set("edge_padding_high", std::move(high));
  attrs.set("interior_padding", std::move(interior));
  return make(OpCode::Pad, {a, padding}, std::move(attrs))->result();
}

Value* Builder::dynamic_slice(Value* a, std::vector<Value*> starts, Dims sizes) {
  Attributes attrs;
  attrs.set("slice_sizes", std::move(sizes));
  return make(OpCode::DynamicSlice, joined({a}, starts), std::move(attrs))->result();
}

Value* Builder::dynamic_update_slice(Value* a, Value* update, std::vector<Value*> starts) {
  return make(OpCode::DynamicUpdateSlice, joined({a, update}, starts))->result();
}

Value* Builder::gather(Value* operand, Value* indices, GatherDims dims, Dims slice_sizes) {
  Attributes attrs;
  set_gather_dims(attrs, dims);
  attrs.set("slice_sizes", std::move(slice_sizes));
  return make(OpCode::Gather, {operand, indices}, std::move(attrs))->result();
}

Value* Builder::scatter(Value* operand, Value* indices, Value* updates, ScatterDims dims, const std::function<Value*(Builder&, Value*, Value*)>& combine,
                        bool unique_indices) {
  Attributes attrs;
  set_scatter_dims(attrs, dims);
  if (unique_indices) attrs.set("unique_indices", true);
  auto block = std::make_unique<Block>();
  Value* old_value = block->add_arg(tensor(operand->type.dtype));
  Value* new_value = block->add_arg(tensor(updates->type.dtype));
  Builder inner(*block);
  inner.location = location;
  inner.group = group;
  inner.ret({combine(inner, old_value, new_value)});
  return make(OpCode::Scatter, {operand, indices, updates}, std::move(attrs), {}, one(std::move(block)))->result();
}

Value* Builder::reduce(OpCode op, Value* a, Value* init, Dims dims) {
  Attributes attrs;
  attrs.set("dimensions", std::move(dims));
  return make(OpCode::Reduce, {a, init}, std::move(attrs), {}, one(binary_region(op, init->type.dtype, *this)))->result();
}

Value* Builder::sum(Value* a, Dims dims) {
  const DType dtype = a->type.dtype, wide = accumulator(dtype);
  return convert(reduce(OpCode::Add, convert(a, wide), splat(tensor(wide), 0.0), std::move(dims)), dtype);
}

Value* Builder::max(Value* a, Dims dims) { return reduce(OpCode::Maximum, a, constant(lowest(a->type.dtype)), std::move(dims)); }

std::vector<Value*> Builder::reduce(std::vector<Value*> operands, std::vector<Value*> inits, Dims dims,
                                    const std::function<std::vector<Value*>(Builder&, std::vector<Value*>)>& body) {
  Attributes attrs;
  attrs.set("dimensions", std::move(dims));
  auto block = std::make_unique<Block>();
  std::vector<Value*> args;
  for (const Value* init : inits) args.push_back(block->add_arg(tensor(init->type.dtype)));
  for (const Value* operand : operands) args.push_back(block->add_arg(tensor(operand->type.dtype)));
  Builder inner(*block);
  inner.location = location;
  inner.group = group;
  inner.ret(body(inner, args));
  return results_of(*make(OpCode::Reduce, joined(std::move(operands), inits), std::move(attrs), {}, one(std::move(block))));
}

Value* Builder::reduce_window(OpCode op, Value* a, Value* init, Dims window, Dims stride, Dims pad_low, Dims pad_high, Dims base_dilation,
                              Dims window_dilation) {
  const size_t rank = a->type.dims.size();
  if (base_dilation.empty()) base_dilation.assign(rank, 1);
  if (window_dilation.empty()) window_dilation.assign(rank, 1);
  Attributes attrs;
  set_window(attrs, {std::move(window), std::move(stride), std::move(pad_low), std::move(pad_high), std::move(base_dilation), std::move(window_dilation)});
  return make(OpCode::ReduceWindow, {a, init}, std::move(attrs), {}, one(binary_region(op, init->type.dtype, *this)))->result();
}

std::vector<Value*> Builder::sort(std::vector<Value*> operands, int64_t dim, bool stable, const std::function<Value*(Builder&, std::vector<Value*>)>& less) {
  Attributes attrs;
  attrs.set("dimension", dim);
  attrs.set("is_stable", stable);
  auto block = std::make_unique<Block>();
  std::vector<Value*> args;
  for (const Value* operand : operands)
    for (int side = 0; side < 2; ++side) args.push_back(block->add_arg(tensor(operand->type.dtype)));
  Builder inner(*block);
  inner.location = location;
  inner.group = group;
  inner.ret({less(inner, args)});
  return results_of(*make(OpCode::Sort, std::move(operands), std::move(attrs), {}, one(std::move(block))));
}

Value* Builder::dot(Value* lhs, Value* rhs, DotDims dims, std::optional<DType> result) {
  Attributes attrs;
  set_dot_dims(attrs, dims);
  if (!result || *result == lhs->type.dtype) return make(OpCode::DotGeneral, {lhs, rhs}, std::move(attrs))->result();
  // The result's shape comes from the rule; only its element type is asked for.
  const std::vector<Type> wanted{tensor(*result)};
  std::vector<Type> types = *infer_types(OpCode::DotGeneral, {lhs, rhs}, attrs, {}, &wanted);
  return make(OpCode::DotGeneral, {lhs, rhs}, std::move(attrs), std::move(types))->result();
}

Value* Builder::convolution(Value* input, Value* kernel, const ConvDims& dims) {
  Attributes attrs;
  set_conv_dims(attrs, dims);
  return make(OpCode::Convolution, {input, kernel}, std::move(attrs))->result();
}

std::vector<Value*> Builder::custom_call(std::string target, std::vector<Value*> operands, std::vector<Type> results, Attributes config) {
  Attributes attrs;
  attrs.set("call_target_name", std::move(target));
  attrs.set("api_version", Attribute(int64_t{4}, "i32"));
  if (const Attribute* effect = config.find("has_side_effect")) {
    attrs.set("has_side_effect", *effect);
    config.erase("has_side_effect");
  }
  attrs.set("backend_config", std::make_shared<const Attributes>(std::move(config)));
  return results_of(*make(OpCode::CustomCall, std::move(operands), std::move(attrs), std::move(results)));
}

std::vector<Value*> Builder::composite(std::string composite_name, std::vector<Value*> operands, std::vector<Type> results, Attributes attributes) {
  Attributes attrs;
  attrs.set("name", std::move(composite_name));
  attrs.set("composite_attributes", std::make_shared<const Attributes>(std::move(attributes)));
  return results_of(*make(OpCode::Composite, std::move(operands), std::move(attrs), std::move(results)));
}

void Builder::ret(std::vector<Value*> values) { make(OpCode::Return, std::move(values)); }

}  // namespace thalweg::ir
