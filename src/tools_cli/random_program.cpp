// Draws programs op by op: each drawing function picks operands among the values so far, fits them and appends its op.
#include "tools_cli/random_program.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "ir/builder.h"
#include "support/error.h"

namespace thalweg::tools_cli {
namespace {

using ir::Dims;
using ir::DType;
using ir::Literal;
using ir::OpCode;
using ir::Type;
using ir::Value;

constexpr DType kDTypes[] = {DType::F32, DType::F32, DType::F32, DType::F64, DType::BF16, DType::F16, DType::I1,  DType::S8,  DType::S16,
                             DType::S32, DType::S32, DType::S64, DType::U8,  DType::U16,  DType::U32, DType::U64, DType::C64, DType::C128};
constexpr int64_t kSizes[] = {0, 1, 1, 2, 2, 3, 4, 5, 7, 8, 13, 16, 17, 31, 64, 65, 100};
constexpr OpCode kFloatUnary[] = {OpCode::Abs,         OpCode::Cbrt,
                                  OpCode::Ceil,        OpCode::Cosine,
                                  OpCode::Exponential, OpCode::ExponentialMinusOne,
                                  OpCode::Floor,       OpCode::Log,
                                  OpCode::LogPlusOne,  OpCode::Logistic,
                                  OpCode::Negate,      OpCode::RoundNearestAfz,
                                  OpCode::Rsqrt,       OpCode::Sign,
                                  OpCode::Sine,        OpCode::Sqrt,
                                  OpCode::Tan,         OpCode::Tanh,
                                  OpCode::Erf,         OpCode::RoundNearestEven};
constexpr OpCode kFloatBinary[] = {OpCode::Add,     OpCode::Subtract, OpCode::Multiply,  OpCode::Divide, OpCode::Maximum,
                                   OpCode::Minimum, OpCode::Power,    OpCode::Remainder, OpCode::Atan2};
constexpr OpCode kComplexUnary[] = {OpCode::Negate, OpCode::Real, OpCode::Imag, OpCode::Abs, OpCode::Exponential};
constexpr OpCode kComplexBinary[] = {OpCode::Add, OpCode::Subtract, OpCode::Multiply, OpCode::Divide};
constexpr OpCode kIntegerUnary[] = {OpCode::Not, OpCode::Popcnt, OpCode::CountLeadingZeros, OpCode::Negate};
constexpr OpCode kIntegerBinary[] = {OpCode::Add,
                                     OpCode::Subtract,
                                     OpCode::Multiply,
                                     OpCode::Divide,
                                     OpCode::Remainder,
                                     OpCode::Maximum,
                                     OpCode::Minimum,
                                     OpCode::And,
                                     OpCode::Or,
                                     OpCode::Xor,
                                     OpCode::ShiftLeft,
                                     OpCode::ShiftRightLogical,
                                     OpCode::ShiftRightArithmetic,
                                     OpCode::Power};
constexpr OpCode kBoolBinary[] = {OpCode::And, OpCode::Or, OpCode::Xor, OpCode::Maximum, OpCode::Minimum, OpCode::Add, OpCode::Multiply};

class Drawer {
 public:
  Drawer(uint64_t seed, const RandomOptions& options) : random_(seed), options_(options) {
    program_.function = std::make_unique<ir::Function>();
    program_.function->name = "main";
  }

  RandomProgram draw() {
    ir::Block& body = program_.function->body;
    builder_.emplace(body);
    for (int64_t i = below(4) + 1; i > 0; --i) argument(random_type());
    argument(ir::tensor(DType::S32));
    for (int i = 0; i < options_.ops; ++i) step();
    builder_->ret(results());
    return std::move(program_);
  }

 private:
  // Random choices ----------------------------------------------------------------------------------------------------

  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(std::max<int64_t>(n, 1))); }
  bool chance(int percent) { return below(100) < percent; }
  template <class T, size_t N>
  T one_of(const T (&list)[N]) {
    return list[below(N)];
  }

  Dims random_dims() {
    Dims dims;
    int64_t size = 1;
    for (int64_t rank = below(5); rank > 0; --rank) {
      const int64_t d = chance(4) ? 0 : kSizes[1 + below(std::size(kSizes) - 1)];
      if (size * d > options_.largest) break;
      dims.push_back(d);
      size *= d;
    }
    return dims;
  }
  Type random_type() { return ir::tensor(one_of(kDTypes), random_dims()); }

  // Inputs ------------------------------------------------------------------------------------------------------------

  double random_float() {
    constexpr double kSpecial[] = {0.0,    -0.0, 1.0,  -1.0,   0.5,   INFINITY, -INFINITY,    NAN,     1e-310,
                                   -1e-40, 1e-5, 3e38, -1e300, 65504, 1e-7,     2147483648.0, -9.3e18, 0.1};
    if (chance(15)) return one_of(kSpecial);
    const double unit = static_cast<double>(random_() >> 11) * 0x1p-53;
    return chance(20) ? std::ldexp(unit - 0.5, static_cast<int>(below(60)) - 30) : 8 * (unit - 0.5);
  }

  Literal random_literal(const Type& type) {
    Literal literal(type);
    const int64_t bytes = byte_size(type.dtype);
    for (int64_t i = 0; i < type.size(); ++i) {
      std::byte* to = literal.data.data() + i * bytes;
      if (is_complex(type.dtype))
        store_complex(type.dtype, to, random_float(), random_float());
      else if (is_float(type.dtype))
        store_double(type.dtype, to, random_float());
      else if (type.dtype == DType::I1)
        store_int(type.dtype, to, below(2));
      else
        store_int(type.dtype, to, chance(60) ? below(9) - 2 : static_cast<int64_t>(random_()));
    }
    return literal;
  }

  Value* argument(const Type& type) {
    Value* value = program_.function->body.add_arg(type);
    program_.inputs.push_back(random_literal(type));
    return keep(value);
  }

  // Values ------------------------------------------------------------------------------------------------------------

  Value* keep(Value* value) {
    values_.push_back(value);
    return value;
  }

  // A value so far that fits, late ones more often; null when none does.
  template <class Fits>
  Value* find(const Fits& fits) {
    std::vector<Value*> good;
    for (Value* value : values_)
      if (fits(value->type)) good.push_back(value);
    if (good.empty()) return nullptr;
    const auto back = static_cast<size_t>(std::min(below(static_cast<int64_t>(good.size())), below(static_cast<int64_t>(good.size()))));
    return good[good.size() - 1 - back];
  }
  Value* any() {
    return find([](const Type&) { return true; });
  }
  // A value of any shape with a dtype that fits, an argument when there is none.
  template <class Fits>
  Value* of(const Fits& fits) {
    Value* found = find([&](const Type& type) { return fits(type.dtype); });
    if (found && !chance(10)) return found;
    DType dtype = one_of(kDTypes);
    while (!fits(dtype)) dtype = one_of(kDTypes);
    return argument(ir::tensor(dtype, random_dims()));
  }
  // A value of exactly this type: one there is, a conversion, a broadcast, a constant or an argument.
  Value* exactly(const Type& type) {
    Value* found = find([&](const Type& t) { return t == type; });
    if (found && !chance(20)) return found;
    if (Value* other = find([&](const Type& t) { return t.dims == type.dims && !is_complex(t.dtype); }); other && chance(50))
      return b().convert(other, type.dtype);
    if (Value* scalar = find([&](const Type& t) { return t.rank() == 0 && t.dtype == type.dtype; }); scalar && chance(60))
      return b().broadcast(scalar, type.dims, {});
    if (chance(40)) return b().constant(std::make_shared<const Literal>(constant_literal(type)));
    return argument(type);
  }
  Literal constant_literal(const Type& type) {
    if (chance(60)) return *ir::make_splat(type, is_float(type.dtype) ? random_float() : static_cast<double>(below(5)));
    return random_literal(type);
  }
  Value* index_scalar() { return exactly(ir::tensor(chance(70) ? DType::S32 : DType::S64)); }
  ir::Builder& b() { return *builder_; }

  // At the end: a few values that nothing uses, and a few others.
  std::vector<Value*> results() {
    std::vector<Value*> out{values_.back()};
    for (Value* value : values_)
      if (value->def && chance(15) && out.size() < 6 && value != out[0]) out.push_back(value);
    return out;
  }

  // Ops ---------------------------------------------------------------------------------------------------------------

  void step() {
    using Draw = Value* (Drawer::*)();
    static constexpr Draw kDraws[] = {
        &Drawer::unary,         &Drawer::unary,
        &Drawer::binary,        &Drawer::binary,
        &Drawer::binary,        &Drawer::compare,
        &Drawer::select,        &Drawer::clamp,
        &Drawer::convert,       &Drawer::bitcast,
        &Drawer::part,          &Drawer::broadcast,
        &Drawer::broadcast,     &Drawer::reshape,
        &Drawer::transpose,     &Drawer::transpose,
        &Drawer::slice,         &Drawer::reverse,
        &Drawer::concatenate,   &Drawer::pad,
        &Drawer::dynamic_slice, &Drawer::dynamic_update_slice,
        &Drawer::gather,        &Drawer::scatter,
        &Drawer::reduce,        &Drawer::reduce,
        &Drawer::reduce,        &Drawer::arg_reduce,
        &Drawer::reduce_window, &Drawer::sort,
        &Drawer::dot,           &Drawer::dot,
        &Drawer::iota,          &Drawer::random_bits,
        &Drawer::convolution,   &Drawer::loop,
        &Drawer::branches,      &Drawer::reduce_precision,
        &Drawer::softmax,       &Drawer::select_and_scatter,
    };
    if (Value* value = (this->*kDraws[below(std::size(kDraws))])()) keep(value);
  }

  Value* unary() {
    Value* a = any();
    const DType dtype = a->type.dtype;
    if (is_float(dtype)) return b().unary(one_of(kFloatUnary), a);
    if (is_complex(dtype)) return b().unary(one_of(kComplexUnary), a);
    if (dtype == DType::I1) return b().unary(OpCode::Not, a);
    return b().unary(one_of(kIntegerUnary), a);
  }

  OpCode binary_code(DType dtype) {
    if (is_float(dtype)) return one_of(kFloatBinary);
    if (is_complex(dtype)) return one_of(kComplexBinary);
    return dtype == DType::I1 ? one_of(kBoolBinary) : one_of(kIntegerBinary);
  }
  Value* binary() {
    Value* a = any();
    Value* other = exactly(a->type);
    if (chance(50)) std::swap(a, other);
    return b().binary(binary_code(a->type.dtype), a, other);
  }

  Value* compare() {
    Value* a = of([](DType d) { return !ir::is_complex(d); });
    return b().compare(static_cast<ir::Comparison>(below(6)), a, exactly(a->type));
  }

  Value* select() {
    Value* a = any();
    Value* other = exactly(a->type);
    return b().select(exactly(ir::tensor(DType::I1, chance(15) ? Dims{} : a->type.dims)), a, other);
  }

  Value* clamp() {
    Value* a = of([](DType d) { return !ir::is_complex(d); });
    const Type bound = chance(50) ? a->type : ir::tensor(a->type.dtype);
    Value* low = exactly(bound);
    return b().make(OpCode::Clamp, {low, a, exactly(bound)})->result();
  }

  Value* convert() {
    Value* a = any();
    DType to = one_of(kDTypes);
    if (is_complex(a->type.dtype) && !is_complex(to)) to = DType::C64;
    return b().convert(a, to);
  }

  Value* bitcast() {
    Value* a = of([](DType d) { return !ir::is_complex(d) && d != DType::I1; });
    DType to = one_of(kDTypes);
    while (byte_size(to) != byte_size(a->type.dtype) || to == DType::I1 || is_complex(to)) to = one_of(kDTypes);
    return b().bitcast(a, ir::tensor(to, a->type.dims));
  }

  Value* part() {
    if (Value* a = find([](const Type& t) { return is_complex(t.dtype); })) return b().unary(chance(50) ? OpCode::Real : OpCode::Imag, a);
    Value* re = of([](DType d) { return d == DType::F32 || d == DType::F64; });
    return b().make(OpCode::Complex, {re, exactly(re->type)})->result();
  }

  Value* reduce_precision() {
    Value* a = of([](DType d) { return d == DType::F32 || d == DType::F64; });
    ir::Attributes attrs;
    attrs.set("exponent_bits", ir::Attribute(2 + below(9), "i32"));
    attrs.set("mantissa_bits", ir::Attribute(below(24), "i32"));
    return b().make(OpCode::ReducePrecision, {a}, std::move(attrs))->result();
  }

  Value* broadcast() {
    Value* a = any();
    Dims shape, dims;
    int64_t size = std::max<int64_t>(a->type.size(), 1);
    for (int64_t i = 0; i <= a->type.rank(); ++i) {
      while (chance(30) && shape.size() < 5) {
        const int64_t d = one_of(kSizes);
        if (size * d > options_.largest) break;
        shape.push_back(d);
        size *= std::max<int64_t>(d, 1);
      }
      if (i == a->type.rank()) break;
      int64_t d = a->type.dims[static_cast<size_t>(i)];
      if (d == 1 && chance(50)) {
        const int64_t grown = kSizes[1 + below(std::size(kSizes) - 1)];
        if (size * grown <= options_.largest) {
          d = grown;
          size *= grown;
        }
      }
      dims.push_back(static_cast<int64_t>(shape.size()));
      shape.push_back(d);
    }
    return b().broadcast(a, shape, dims);
  }

  Value* reshape() {
    Value* a = any();
    Dims dims = a->type.dims;
    for (int64_t i = below(4); i >= 0; --i) {
      const auto at = static_cast<size_t>(below(static_cast<int64_t>(dims.size()) + 1));
      if (chance(35)) {
        dims.insert(dims.begin() + static_cast<ptrdiff_t>(at), 1);
      } else if (at + 1 < dims.size() && chance(60)) {  // merge
        dims[at] *= dims[at + 1];
        dims.erase(dims.begin() + static_cast<ptrdiff_t>(at) + 1);
      } else if (at < dims.size()) {  // split
        for (int64_t f : {2, 3, 5})
          if (dims[at] > 1 && dims[at] % f == 0) {
            dims[at] /= f;
            dims.insert(dims.begin() + static_cast<ptrdiff_t>(at) + below(2), f);
            break;
          }
      }
    }
    return dims.size() > 6 ? nullptr : b().reshape(a, dims);
  }

  Dims random_permutation(int64_t rank) {
    Dims p;
    for (int64_t i = 0; i < rank; ++i) p.push_back(i);
    std::shuffle(p.begin(), p.end(), random_);
    return p;
  }
  Value* transpose() {
    Value* a = find([](const Type& t) { return t.rank() >= 2; });
    return a ? b().transpose(a, random_permutation(a->type.rank())) : nullptr;
  }

  Value* slice() {
    Value* a = any();
    Dims start, limit, stride;
    for (int64_t d : a->type.dims) {
      start.push_back(chance(50) ? 0 : below(d + 1));
      limit.push_back(chance(50) ? d : start.back() + below(d - start.back() + 1));
      stride.push_back(chance(70) ? 1 : 1 + below(4));
      if (limit.back() < start.back()) limit.back() = start.back();
    }
    return b().slice(a, start, limit, stride);
  }

  Value* reverse() {
    Value* a = any();
    Dims dims;
    for (int64_t i = 0; i < a->type.rank(); ++i)
      if (chance(50)) dims.push_back(i);
    return b().reverse(a, dims);
  }

  Value* concatenate() {
    Value* a = find([](const Type& t) { return t.rank() >= 1; });
    if (!a || a->type.size() > options_.largest) return nullptr;
    const int64_t dim = below(a->type.rank());
    std::vector<Value*> parts{a};
    for (int64_t i = below(3) + 1; i > 0; --i) {
      Type type = a->type;
      if (chance(50)) type.dims[static_cast<size_t>(dim)] = below(4);
      parts.insert(parts.begin() + below(static_cast<int64_t>(parts.size()) + 1), exactly(type));
    }
    return b().concatenate(parts, dim);
  }

  Value* pad() {
    Value* a = any();
    Dims low, high, interior;
    for (int64_t d : a->type.dims) {
      low.push_back(chance(50) ? 0 : below(4) - 1);
      high.push_back(chance(50) ? 0 : below(4) - 1);
      interior.push_back(chance(80) ? 0 : below(3));
      const int64_t inner = d == 0 ? 0 : d + (d - 1) * interior.back();
      if (low.back() + high.back() + inner < 0) low.back() = high.back() = 0;
    }
    if (a->type.size() > options_.largest) return nullptr;
    return b().pad(a, exactly(ir::tensor(a->type.dtype)), low, high, interior);
  }

  Dims smaller(const Dims& dims) {
    Dims sizes;
    for (int64_t d : dims) sizes.push_back(chance(40) ? d : std::min<int64_t>(d, below(d + 1)));
    return sizes;
  }
  std::vector<Value*> starts(int64_t rank) {
    std::vector<Value*> out;
    const DType dtype = chance(70) ? DType::S32 : DType::U8;
    for (int64_t i = 0; i < rank; ++i) out.push_back(exactly(ir::tensor(dtype)));
    return out;
  }
  Value* dynamic_slice() {
    Value* a = any();
    return b().dynamic_slice(a, starts(a->type.rank()), smaller(a->type.dims));
  }
  Value* dynamic_update_slice() {
    Value* a = any();
    Value* update = exactly(ir::tensor(a->type.dtype, smaller(a->type.dims)));
    return b().dynamic_update_slice(a, update, starts(a->type.rank()));
  }

  Value* indices(const Dims& dims) { return exactly(ir::tensor(chance(60) ? DType::S32 : chance(50) ? DType::S64 : DType::U8, dims)); }

  // Rows along one dimension: torch's index_select and embedding; or windows at vectors of indices.
  Value* gather() {
    Value* a = find([](const Type& t) { return t.rank() >= 1 && t.size() > 0; });
    if (!a) return nullptr;
    const int64_t rank = a->type.rank(), dim = below(rank);
    ir::GatherDims d;
    Dims sizes = a->type.dims;
    Dims batch;
    for (int64_t i = below(3); i > 0; --i) batch.push_back(1 + below(5));
    int64_t count = 1;
    for (int64_t n : batch) count *= n;
    if (chance(70)) {
      sizes[static_cast<size_t>(dim)] = 1;
      d.collapsed_slice_dims = {dim};
    } else {
      sizes = smaller(sizes);
    }
    d.start_index_map = {dim};
    const int64_t kept = rank - static_cast<int64_t>(d.collapsed_slice_dims.size()), out_rank = kept + static_cast<int64_t>(batch.size());
    Dims places = random_permutation(out_rank);
    places.resize(static_cast<size_t>(kept));
    std::sort(places.begin(), places.end());
    d.offset_dims = places;
    Dims index_dims = batch;
    d.index_vector_dim = static_cast<int64_t>(batch.size());
    if (chance(50)) index_dims.push_back(1);
    if (ir::tensor(DType::U8, sizes).size() * count > 4 * options_.largest) return nullptr;
    return b().gather(a, indices(index_dims), d, sizes);
  }

  Value* scatter() {
    Value* a = find([](const Type& t) { return t.rank() >= 1 && !ir::is_complex(t.dtype); });
    if (!a) return nullptr;
    const int64_t rank = a->type.rank(), dim = below(rank), n = below(6);
    ir::ScatterDims d;
    d.inserted_window_dims = {dim};
    d.scatter_dims_to_operand_dims = {dim};
    d.index_vector_dim = 1;
    Dims update_dims{n};
    for (int64_t i = 0; i < rank; ++i)
      if (i != dim) {
        d.update_window_dims.push_back(static_cast<int64_t>(update_dims.size()));
        update_dims.push_back(a->type.dims[static_cast<size_t>(i)]);
      }
    constexpr OpCode kCombine[] = {OpCode::Add, OpCode::Maximum, OpCode::Minimum};
    const OpCode code = one_of(kCombine);
    const bool overwrite = chance(30);
    Value* operand = is_float(a->type.dtype) ? small_integers(a) : a;
    Value* updates = exactly(ir::tensor(a->type.dtype, update_dims));
    if (is_float(a->type.dtype)) updates = small_integers(updates);
    return b().scatter(operand, indices({n, 1}), updates, d, [&](ir::Builder& inner, Value* old_value, Value* new_value) {
      return overwrite ? new_value : inner.binary(code, old_value, new_value);
    });
  }

  // Floats rounded to whole numbers from -4 to 4, NaN to 0: sums of them do not depend on the order.
  Value* small_integers(Value* a) {
    const Type &type = a->type, scalar = ir::tensor(a->type.dtype);
    Value* ordered = b().compare(ir::Comparison::EQ, a, a);
    Value* number = b().select(ordered, a, b().splat(type, 0));
    Value* clamped = b().make(OpCode::Clamp, {b().splat(scalar, -4), number, b().splat(scalar, 4)})->result();
    return b().unary(OpCode::RoundNearestEven, clamped);
  }
  // A sum of products that are all zero may have either sign; -0 + 0 is 0.
  Value* with_plain_zeros(Value* a) { return is_float(a->type.dtype) ? b().binary(OpCode::Add, a, b().splat(a->type, 0)) : a; }
  // Small integers in a dtype whose sums are exact.
  Value* summable(Value* a) {
    if (is_float(a->type.dtype)) {
      a = small_integers(a);
      return byte_size(a->type.dtype) < 4 ? b().convert(a, DType::F32) : a;
    }
    return is_complex(a->type.dtype) ? summable(b().unary(OpCode::Real, a)) : a;
  }

  Dims some_dims(int64_t rank) {
    Dims dims;
    for (int64_t i = 0; i < rank; ++i)
      if (chance(50)) dims.push_back(i);
    if (dims.empty() && rank > 0) dims.push_back(below(rank));
    return dims;
  }

  Value* reduce() {
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

  // arg max or min along one dimension: a reduce of two operands.
  Value* arg_reduce() {
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

  Value* reduce_window() {
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

  Value* select_and_scatter() {
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

  Value* sort() {
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

  Value* dot() {
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

  Value* convolution() {
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

  Value* iota() {
    Type type = random_type();
    if (type.rank() == 0 || type.dtype == DType::I1) return nullptr;
    return b().iota(type, below(type.rank()));
  }

  Value* random_bits() {
    ir::Attributes attrs;
    attrs.set("rng_algorithm", ir::EnumWord{"rng_algorithm", chance(80) ? "PHILOX" : "THREE_FRY"});
    const Type state = ir::tensor(DType::U64, {2});
    return b()
        .make(OpCode::RngBitGenerator, {exactly(state)}, std::move(attrs), {state, ir::tensor(chance(70) ? DType::U32 : DType::U64, random_dims())})
        ->result(1);
  }

  Value* softmax() {
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

  // while (i < 3) { i += 1; x = f(x) }
  Value* loop() {
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

  Value* branches() {
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

  std::mt19937_64 random_;
  RandomOptions options_;
  RandomProgram program_;
  std::optional<ir::Builder> builder_;
  std::vector<Value*> values_;
};

}  // namespace

RandomProgram random_program(uint64_t seed, const RandomOptions& options) { return Drawer(seed, options).draw(); }

bool same_bits(const Literal& a, const Literal& b) {
  if (a.type != b.type) return false;
  const Literal x = expand(a), y = expand(b);
  if (x.data == y.data) return true;
  const DType part = real_dtype(a.type.dtype);
  if (!is_float(part)) return false;
  const int64_t bytes = byte_size(part);
  for (size_t at = 0; at < x.data.size(); at += static_cast<size_t>(bytes)) {
    if (std::memcmp(x.data.data() + at, y.data.data() + at, static_cast<size_t>(bytes)) == 0) continue;
    if (!std::isnan(ir::load_double(part, x.data.data() + at)) || !std::isnan(ir::load_double(part, y.data.data() + at))) return false;
  }
  return true;
}

}  // namespace thalweg::tools_cli
