// Random programs whose every value is a small integer, so that sums are exact in any order and results must agree bit for bit.
#pragma once

#include <algorithm>
#include <random>

#include "ir/builder.h"

namespace thalweg::testing {

using V = ir::Value*;

// Draws ops over values of a few dtypes; every arithmetic result is clamped to ±8.
class RandomProgram {
 public:
  explicit RandomProgram(uint64_t seed) : random_(seed) { function_->name = "main"; }

  std::unique_ptr<ir::Function> make(int ops) {
    const int args = 1 + pick(4);
    for (int i = 0; i < args; ++i) values_.push_back(function_->body.add_arg(ir::tensor(kTypes[pick(3)], shape())));
    values_.push_back(function_->body.add_arg(ir::tensor(ir::DType::F32, {})));
    for (int i = 0; i < ops; ++i) step();
    std::vector<V> results;
    const int outputs = 1 + pick(4);
    for (int i = 0; i < outputs; ++i)
      results.push_back(values_[values_.size() - 1 - static_cast<size_t>(pick(std::min<int>(6, static_cast<int>(values_.size()))))]);
    b_.ret(results);
    return std::move(function_);
  }
  // Integers in ±3 of the type.
  ir::Literal input(const ir::Type& type) {
    ir::Literal literal(type);
    for (int64_t i = 0; i < type.size(); ++i) set(literal, i, pick(7) - 3);
    return literal;
  }

 private:
  static constexpr ir::DType kTypes[] = {ir::DType::F32, ir::DType::F32, ir::DType::S32, ir::DType::BF16, ir::DType::F64};

  int pick(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  ir::Dims shape() {
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 8, 17, 33, 64};
    ir::Dims dims(static_cast<size_t>(pick(4)));
    for (int64_t& d : dims) d = sizes[pick(dims.size() > 2 ? 6 : 9)];
    return dims;
  }
  static void set(ir::Literal& literal, int64_t i, int v) {
    switch (literal.type.dtype) {
      case ir::DType::F32:
        literal.set<float>(i, static_cast<float>(v));
        break;
      case ir::DType::F64:
        literal.set<double>(i, v);
        break;
      case ir::DType::S32:
        literal.set<int32_t>(i, v);
        break;
      case ir::DType::I1:
        literal.set<uint8_t>(i, v & 1);
        break;
      case ir::DType::BF16:
        literal.set<uint16_t>(i, static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(v)) >> 16));
        break;
      default:
        break;
    }
  }
  V any() { return values_[static_cast<size_t>(pick(static_cast<int>(values_.size())))]; }
  V recent() { return pick(3) ? values_[values_.size() - 1 - static_cast<size_t>(pick(std::min<int>(4, static_cast<int>(values_.size()))))] : any(); }
  bool is_bool(V v) { return v->type.dtype == ir::DType::I1; }
  V arithmetic(V v) { return is_bool(v) ? b_.convert(v, ir::DType::F32) : v; }
  V clamp(V v) {
    if (is_bool(v)) return v;
    return b_.binary(ir::OpCode::Maximum, b_.binary(ir::OpCode::Minimum, v, b_.splat(v->type, 8)), b_.splat(v->type, -8));
  }
  // A value of `type`, from another one by conversion, broadcasting or as a constant.
  V like(const ir::Type& type) {
    for (int tries = 0; tries < 12; ++tries) {
      V v = any();
      if (v->type.size() > 20000) continue;
      if (v->type.dims == type.dims) return b_.convert(v, type.dtype);
      if (v->type.rank() == 0) return b_.broadcast(b_.convert(v, type.dtype), type.dims, {});
      ir::Dims dims;
      size_t at = 0;
      for (size_t k = 0; k < type.dims.size() && at < v->type.dims.size(); ++k)
        if (v->type.dims[at] == type.dims[k] || (v->type.dims[at] == 1 && pick(2))) dims.push_back(static_cast<int64_t>(k)), ++at;
      if (at == v->type.dims.size()) return b_.broadcast(b_.convert(v, type.dtype), type.dims, dims);
    }
    if (type.rank() > 0 && pick(2))
      return b_.convert(b_.binary(ir::OpCode::Remainder, b_.iota(ir::tensor(ir::DType::S32, type.dims), pick(static_cast<int>(type.rank()))),
                                  b_.splat(ir::tensor(ir::DType::S32, type.dims), 5)),
                        type.dtype);
    return b_.splat(type, pick(5) - 2);
  }
  void add(V v) {
    if (v->type.size() <= 60000) values_.push_back(v);
  }

  void step() {
    V x = recent();
    const int64_t rank = x->type.rank();
    switch (pick(16)) {
      case 0: {
        V a = arithmetic(x);
        static const ir::OpCode ops[] = {ir::OpCode::Negate, ir::OpCode::Abs, ir::OpCode::Sign};
        return add(b_.unary(ops[pick(3)], a));
      }
      case 1:
      case 2:
      case 3: {
        V a = arithmetic(x), c = like(a->type);
        static const ir::OpCode ops[] = {ir::OpCode::Add, ir::OpCode::Subtract, ir::OpCode::Multiply, ir::OpCode::Maximum, ir::OpCode::Minimum};
        return add(clamp(b_.binary(ops[pick(5)], a, c)));
      }
      case 4: {
        V a = arithmetic(x);
        return add(b_.compare(static_cast<ir::Comparison>(pick(6)), a, like(a->type)));
      }
      case 5:
        return add(b_.select(like(ir::tensor(ir::DType::I1, x->type.dims)), x, like(x->type)));
      case 6:
        return add(b_.convert(x, kTypes[pick(5)]));
      case 7:
      case 8: {  // reduce
        V a = arithmetic(x);
        if (rank == 0 || a->type.size() > 60000) return;
        ir::Dims dims;
        for (int64_t d = 0; d < rank; ++d)
          if (pick(2)) dims.push_back(d);
        if (a->type.dtype == ir::DType::BF16) a = b_.convert(a, ir::DType::F32);
        if (pick(3) == 0) return add(b_.max(a, dims));
        return add(clamp(b_.sum(a, dims)));
      }
      case 9: {
        ir::Dims permutation(static_cast<size_t>(rank));
        for (int64_t d = 0; d < rank; ++d) permutation[static_cast<size_t>(d)] = d;
        std::shuffle(permutation.begin(), permutation.end(), random_);
        return add(b_.transpose(x, permutation));
      }
      case 10: {  // reshape: merge or split
        ir::Dims dims = x->type.dims;
        if (rank >= 2 && pick(2)) {
          size_t k = static_cast<size_t>(pick(static_cast<int>(rank) - 1));
          dims[k] *= dims[k + 1];
          dims.erase(dims.begin() + static_cast<int64_t>(k) + 1);
        } else if (rank >= 1) {
          size_t k = static_cast<size_t>(pick(static_cast<int>(rank)));
          for (int64_t f : {4, 3, 2})
            if (dims[k] % f == 0) {
              dims[k] /= f;
              dims.insert(dims.begin() + static_cast<int64_t>(k) + pick(2), f);
              break;
            }
        }
        return add(b_.reshape(x, dims));
      }
      case 11: {
        ir::Dims start, limit, stride;
        for (int64_t d : x->type.dims) {
          int64_t s = pick(static_cast<int>(d)), l = s + 1 + pick(static_cast<int>(d - s));
          if (pick(3) == 0) s = 0, l = d;
          start.push_back(s), limit.push_back(l), stride.push_back(pick(4) ? 1 : 2);
        }
        return add(b_.slice(x, start, limit, stride));
      }
      case 12: {
        ir::Dims low, high, interior;
        for (int64_t k = 0; k < rank; ++k) low.push_back(pick(4) - 1), high.push_back(pick(3)), interior.push_back(pick(5) == 0);
        for (int64_t k = 0; k < rank; ++k)
          if (x->type.dims[static_cast<size_t>(k)] == 1) low[static_cast<size_t>(k)] = pick(3);
        return add(b_.pad(x, b_.splat(ir::tensor(x->type.dtype), 1), low, high, interior));
      }
      case 13: {
        if (rank == 0) return;
        int64_t dim = pick(static_cast<int>(rank));
        std::vector<V> parts{x};
        for (int i = pick(3); i >= 0; --i) parts.push_back(pick(2) ? like(x->type) : x);
        return add(b_.concatenate(parts, dim));
      }
      case 14: {
        if (rank == 0) return;
        return add(b_.reverse(x, {pick(static_cast<int>(rank))}));
      }
      default: {  // product over the last dim of x
        if (rank == 0 || is_bool(x) || x->type.dtype == ir::DType::BF16) return;
        const int64_t k = x->type.dims.back();
        ir::Type other = ir::tensor(x->type.dtype, pick(2) ? ir::Dims{k, 1 + pick(9)} : ir::Dims{1 + pick(9), k});
        const int64_t contract = other.dims[0] == k ? 0 : 1;
        V y = like(other);
        return add(clamp(b_.dot(x, y, {{}, {}, {rank - 1}, {contract}})));
      }
    }
  }

  std::mt19937_64 random_;
  std::unique_ptr<ir::Function> function_ = std::make_unique<ir::Function>();
  ir::Builder b_{function_->body};
  std::vector<V> values_;
};

}  // namespace thalweg::testing
