// Draws ops that the passes have rules for, more often than others.
#include "tests/passes/random_program.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ir/verifier.h"

namespace thalweg::passes {
namespace {

using ir::Builder;
using ir::Dims;
using ir::DType;
using ir::OpCode;
using ir::Value;

class Generator {
 public:
  Generator(uint32_t seed, ir::Function& function) : random_(seed), builder_(function.body), function_(function) {}

  void run(int ops, std::vector<ir::Literal>& inputs) {
    for (DType dtype : {DType::F32, DType::F32, DType::BF16, DType::S32, DType::I1, DType::F64}) {
      ir::Type type = ir::tensor(dtype, shape());
      values_.push_back(function_.body.add_arg(type));
      inputs.push_back(literal(type));
    }
    for (int i = 0; i < ops; ++i) {
      builder_.group = static_cast<uint8_t>(pick(2));
      if (Value* made = step()) values_.push_back(made);
    }
    std::vector<Value*> results;
    for (size_t i = values_.size() - std::min<size_t>(values_.size(), 8); i < values_.size(); ++i) results.push_back(values_[i]);
    builder_.ret(results);
  }

 private:
  int pick(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  Value* any() {
    return values_[static_cast<size_t>(pick(2) ? pick(static_cast<int>(values_.size()))
                                               : static_cast<int>(values_.size()) - 1 - pick(std::min<int>(5, values_.size())))];
  }
  Dims shape() {
    Dims dims(static_cast<size_t>(pick(4)));
    for (int64_t& d : dims) d = pick(3) ? 1 + pick(4) : 1;
    return dims;
  }
  double number() {
    constexpr double special[] = {0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 4.0, -3.0, 1e30, 1e-40};
    int i = pick(14);
    return i < 10 ? special[i] : i == 10 ? INFINITY : i == 11 ? -INFINITY : i == 12 ? NAN : static_cast<double>(pick(1000)) / 100 - 5;
  }
  ir::Literal literal(const ir::Type& type) {
    ir::Literal all(type);
    auto bytes = ir::byte_size(type.dtype);
    for (int64_t i = 0; i < type.size(); ++i) {
      double x = number();
      if (ir::is_integer(type.dtype)) x = std::isfinite(x) ? std::clamp(x, -1000.0, 1000.0) : 7;
      ir::LiteralPtr one = type.dtype == DType::I1 ? ir::make_splat_int(ir::tensor(type.dtype), pick(2)) : ir::make_splat(ir::tensor(type.dtype), x);
      std::copy_n(one->data.begin(), bytes, all.data.begin() + i * bytes);
    }
    return all;
  }
  Value* constant(const ir::Type& type) {
    if (type.dtype == DType::I1) return builder_.constant(ir::make_splat_int(type, pick(2)));
    if (pick(3)) return builder_.constant(std::make_shared<const ir::Literal>(literal(type)));
    double x = number();
    if (ir::is_integer(type.dtype)) x = std::isfinite(x) ? std::clamp(x, -5.0, 5.0) : 1;
    return builder_.splat(type, x);
  }
  // A value of the same type: from the pool, itself, a constant, or something converted and moved to fit.
  Value* partner(Value* x) {
    if (pick(4) == 0) return x;
    if (pick(3) == 0) return constant(x->type);
    for (int tries = 0; tries < 6; ++tries)
      if (Value* y = any(); y->type == x->type) return y;
    for (int tries = 0; tries < 6; ++tries)
      if (Value* y = any(); y->type.dims == x->type.dims && y->type.dtype != DType::I1 && x->type.dtype != DType::I1) return builder_.convert(y, x->type.dtype);
    return constant(x->type);
  }

  Value* step() {
    switch (pick(13)) {
      case 0:
        return unary(any());
      case 1:
      case 2:
      case 3:
        return binary(any());
      case 4:
        return conversion(any());
      case 5:
        return selection(any());
      case 6:
      case 7:
        return movement(any());
      case 8:
      case 9:
        return pieces(any());
      case 10:
        return reduction(any());
      case 11:
        return product(any());
      default:
        return constant(any()->type);
    }
  }

  // A dot_general over whatever dims of another value fit.
  Value* product(Value* x) {
    Value* y = any();
    if (!ir::is_integer(x->type.dtype) && x->type.dtype != DType::F32 && x->type.dtype != DType::F64) return nullptr;
    if (y->type.dtype != x->type.dtype) y = x;
    for (Value** side : {&x, &y}) {
      Dims permutation((*side)->type.dims.size());
      std::iota(permutation.begin(), permutation.end(), 0);
      std::shuffle(permutation.begin(), permutation.end(), random_);
      if (pick(2)) *side = builder_.transpose(*side, permutation);
    }
    ir::DotDims dims;
    std::vector<bool> taken(y->type.dims.size());
    for (size_t i = 0; i < x->type.dims.size(); ++i) {
      size_t j = static_cast<size_t>(pick(static_cast<int>(taken.size()) + 1));
      if (j >= taken.size() || taken[j] || y->type.dims[j] != x->type.dims[i]) continue;
      taken[j] = true;
      bool batch = pick(3) == 0;
      (batch ? dims.lhs_batch : dims.lhs_contract).push_back(static_cast<int64_t>(i));
      (batch ? dims.rhs_batch : dims.rhs_contract).push_back(static_cast<int64_t>(j));
    }
    size_t free = x->type.dims.size() + y->type.dims.size() - 2 * dims.lhs_contract.size() - dims.lhs_batch.size();
    return free > 4 ? nullptr : builder_.dot(x, y, dims);
  }

  Value* unary(Value* x) {
    if (x->type.dtype == DType::I1) return builder_.unary(OpCode::Not, x);
    if (ir::is_integer(x->type.dtype)) return builder_.unary(pick(2) ? OpCode::Negate : OpCode::Not, x);
    constexpr OpCode codes[] = {OpCode::Negate, OpCode::Negate, OpCode::Abs, OpCode::Exponential, OpCode::Tanh, OpCode::Sqrt, OpCode::Sign};
    return builder_.unary(codes[pick(7)], x);
  }

  Value* binary(Value* x) {
    Value* y = partner(x);
    if (pick(2)) std::swap(x, y);
    if (x->type.dtype == DType::I1) {
      constexpr OpCode codes[] = {OpCode::And, OpCode::Or, OpCode::Xor, OpCode::Maximum};
      return builder_.binary(codes[pick(4)], x, y);
    }
    if (ir::is_integer(x->type.dtype)) {
      constexpr OpCode codes[] = {OpCode::Add,     OpCode::Subtract, OpCode::Multiply,  OpCode::Divide,
                                  OpCode::Maximum, OpCode::And,      OpCode::ShiftLeft, OpCode::Xor};
      return builder_.binary(codes[pick(8)], x, y);
    }
    constexpr OpCode codes[] = {OpCode::Add, OpCode::Subtract, OpCode::Multiply, OpCode::Divide, OpCode::Maximum, OpCode::Minimum};
    return builder_.binary(codes[pick(6)], x, y);
  }

  Value* conversion(Value* x) {
    constexpr DType dtypes[] = {DType::F32, DType::BF16, DType::F64, DType::S32, DType::I1, DType::F16, DType::S64, DType::U8};
    return builder_.convert(x, dtypes[pick(8)]);
  }

  Value* selection(Value* x) {
    Value* y = partner(x);
    Value* p = builder_.compare(static_cast<ir::Comparison>(pick(6)), x, y);
    if (pick(3) == 0) p = builder_.unary(OpCode::Not, p);
    return pick(4) ? builder_.select(p, x, partner(x)) : p;
  }

  Value* movement(Value* x) {
    Dims dims = x->type.dims;
    switch (pick(5)) {
      case 0: {
        std::shuffle(dims.begin(), dims.end(), random_);
        if (pick(2)) dims.insert(dims.begin() + pick(static_cast<int>(dims.size()) + 1), 1);
        return builder_.reshape(x, dims);
      }
      case 1: {
        Dims permutation(dims.size());
        std::iota(permutation.begin(), permutation.end(), 0);
        std::shuffle(permutation.begin(), permutation.end(), random_);
        return builder_.transpose(x, permutation);
      }
      case 2:
      case 3: {
        if (dims.size() > 3) return nullptr;
        Dims to, map;
        for (int64_t d : dims) {
          if (pick(3) == 0) to.push_back(1 + pick(3));
          map.push_back(static_cast<int64_t>(to.size()));
          to.push_back(d == 1 ? 1 + pick(3) : d);
        }
        if (pick(2)) to.push_back(2);
        return builder_.broadcast(x, to, map);
      }
      default: {
        Dims reversed;
        for (size_t d = 0; d < dims.size(); ++d)
          if (pick(2)) reversed.push_back(static_cast<int64_t>(d));
        return builder_.reverse(x, reversed);
      }
    }
  }

  Value* pieces(Value* x) {
    const Dims dims = x->type.dims;
    if (dims.empty() || x->type.size() == 0) return nullptr;
    Dims low, high, interior, start, limit, stride;
    for (int64_t d : dims) {
      start.push_back(pick(2) ? 0 : pick(static_cast<int>(d)));
      limit.push_back(start.back() + 1 + pick(static_cast<int>(d - start.back())));
      stride.push_back(1 + pick(4) / 3);
      low.push_back(pick(3) ? 0 : pick(4) - 1);
      high.push_back(pick(3) ? 0 : pick(4) - 1);
      interior.push_back(pick(5) ? 0 : 1);
      if (low.back() + high.back() + d < 0) low.back() = high.back() = 0;
    }
    switch (pick(5)) {
      case 0:
      case 1:
        return builder_.slice(x, start, limit, stride);
      case 2:
        return builder_.pad(x, constant(ir::tensor(x->type.dtype)), low, high, interior);
      case 3: {
        int64_t dim = pick(static_cast<int>(dims.size()));
        if (pick(3) == 0 && dims[static_cast<size_t>(dim)] > 1) {  // two halves that fit together again
          Dims zero(dims.size(), 0), one(dims.size(), 1), middle = dims, from = zero;
          middle[static_cast<size_t>(dim)] = from[static_cast<size_t>(dim)] = 1;
          return builder_.concatenate({builder_.slice(x, zero, middle, one), builder_.slice(x, from, dims, one)}, dim);
        }
        return builder_.concatenate({x, partner(x)}, dim);
      }
      default: {
        std::vector<Value*> starts;
        Dims sizes;
        for (size_t d = 0; d < dims.size(); ++d) {
          starts.push_back(builder_.constant(ir::make_splat_int(ir::tensor(DType::S32), pick(6) - 1)));
          sizes.push_back(limit[d] - start[d]);
        }
        return builder_.dynamic_slice(x, starts, sizes);
      }
    }
  }

  Value* reduction(Value* x) {
    Dims dims;
    for (size_t d = 0; d < x->type.dims.size(); ++d)
      if (x->type.dims[d] == 1 ? pick(4) != 0 : pick(3) == 0) dims.push_back(static_cast<int64_t>(d));
    if (x->type.dtype == DType::I1) return builder_.reduce(OpCode::And, x, builder_.constant(ir::make_splat_int(ir::tensor(DType::I1), 1)), dims);
    switch (pick(3)) {
      case 0:
        return builder_.sum(x, dims);
      case 1:
        return builder_.max(x, dims);
      default:
        return builder_.reduce(OpCode::Multiply, x, builder_.splat(ir::tensor(x->type.dtype), 1), dims);
    }
  }

  std::mt19937 random_;
  Builder builder_;
  ir::Function& function_;
  std::vector<Value*> values_;
};

bool is_nan(const ir::Literal& literal, int64_t i) { return ir::is_float(literal.type.dtype) && std::isnan(ir::to_double(literal, i)); }

}  // namespace

RandomProgram::RandomProgram(uint32_t seed, int ops) : function(std::make_unique<ir::Function>()) {
  function->name = "main";
  Generator(seed, *function).run(ops, inputs);
  ir::verify(*function);
}

std::string bit_difference(const std::vector<ir::Literal>& a, const std::vector<ir::Literal>& b) {
  if (a.size() != b.size()) return "numbers of results differ";
  for (size_t r = 0; r < a.size(); ++r) {
    if (a[r].type != b[r].type) return "types differ: " + to_string(a[r].type) + " and " + to_string(b[r].type);
    auto bytes = ir::byte_size(a[r].type.dtype);
    for (int64_t i = 0; i < a[r].type.size(); ++i) {
      const auto *x = a[r].data.data() + (a[r].splat ? 0 : i * bytes), *y = b[r].data.data() + (b[r].splat ? 0 : i * bytes);
      if (std::equal(x, x + bytes, y) || (is_nan(a[r], i) && is_nan(b[r], i))) continue;
      return "result " + std::to_string(r) + " element " + std::to_string(i) + " of " + to_string(a[r].type) + ": " + std::to_string(ir::to_double(a[r], i)) +
             " and " + std::to_string(ir::to_double(b[r], i));
    }
  }
  return {};
}

}  // namespace thalweg::passes
