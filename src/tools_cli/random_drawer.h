// Draws a program op by op: each drawing function picks operands among the values so far, fits them and appends its op; null when nothing fits.
#pragma once

#include <algorithm>
#include <optional>
#include <random>
#include <vector>

#include "ir/builder.h"
#include "tools_cli/random_program.h"

namespace thalweg::tools_cli {

using ir::Dims;
using ir::DType;
using ir::Literal;
using ir::OpCode;
using ir::Type;
using ir::Value;

// The dtypes and sizes that programs are drawn from; what stands twice is drawn twice as often.
inline constexpr DType kDTypes[] = {DType::F32, DType::F32, DType::F32, DType::F64, DType::BF16, DType::F16, DType::I1,  DType::S8,  DType::S16,
                                    DType::S32, DType::S32, DType::S64, DType::U8,  DType::U16,  DType::U32, DType::U64, DType::C64, DType::C128};
inline constexpr int64_t kSizes[] = {0, 1, 1, 2, 2, 3, 4, 5, 7, 8, 13, 16, 17, 31, 64, 65, 100};

// One program being drawn.
class Drawer {
 public:
  Drawer(uint64_t seed, const RandomOptions& options);

  // The whole program; once.
  RandomProgram draw();

 private:
  // Random choices ----------------------------------------------------------------------------------------------------

  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(std::max<int64_t>(n, 1))); }
  bool chance(int percent) { return below(100) < percent; }
  template <class T, size_t N>
  T one_of(const T (&list)[N]) {
    return list[below(N)];
  }

  Dims random_dims();
  Type random_type() { return ir::tensor(one_of(kDTypes), random_dims()); }

  // Inputs ------------------------------------------------------------------------------------------------------------

  double random_float();

  Literal random_literal(const Type& type);

  Value* argument(const Type& type);

  // Values ------------------------------------------------------------------------------------------------------------

  Value* keep(Value* value);

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
  Value* any();
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
  Value* exactly(const Type& type);
  Literal constant_literal(const Type& type);
  Value* index_scalar() { return exactly(ir::tensor(chance(70) ? DType::S32 : DType::S64)); }
  ir::Builder& b() { return *builder_; }

  // At the end: a few values that nothing uses, and a few others.
  std::vector<Value*> results();

  // Ops ---------------------------------------------------------------------------------------------------------------

  void step();

  Value* unary();

  OpCode binary_code(DType dtype);
  Value* binary();
  Value* compare();
  Value* select();
  Value* clamp();
  Value* convert();
  Value* bitcast();
  Value* part();
  Value* reduce_precision();
  Value* broadcast();
  Value* reshape();

  Dims random_permutation(int64_t rank);
  Value* transpose();
  Value* slice();
  Value* reverse();
  Value* concatenate();
  Value* pad();

  Dims smaller(const Dims& dims);
  std::vector<Value*> starts(int64_t rank);
  Value* dynamic_slice();
  Value* dynamic_update_slice();

  Value* indices(const Dims& dims) { return exactly(ir::tensor(chance(60) ? DType::S32 : chance(50) ? DType::S64 : DType::U8, dims)); }

  // Rows along one dimension: torch's index_select and embedding; or windows at vectors of indices.
  Value* gather();
  Value* scatter();

  // Floats rounded to whole numbers from -4 to 4, NaN to 0: sums of them do not depend on the order.
  Value* small_integers(Value* a);
  // A sum of products that are all zero may have either sign; -0 + 0 is 0.
  Value* with_plain_zeros(Value* a) { return is_float(a->type.dtype) ? b().binary(OpCode::Add, a, b().splat(a->type, 0)) : a; }
  // Small integers in a dtype whose sums are exact.
  Value* summable(Value* a);

  Dims some_dims(int64_t rank);

  Value* reduce();

  // arg max or min along one dimension: a reduce of two operands.
  Value* arg_reduce();
  Value* reduce_window();
  Value* select_and_scatter();
  Value* sort();
  Value* dot();
  Value* convolution();
  Value* iota();
  Value* random_bits();
  Value* softmax();

  // while (i < 3) { i += 1; x = f(x) }
  Value* loop();
  Value* branches();

  std::mt19937_64 random_;
  RandomOptions options_;
  RandomProgram program_;
  std::optional<ir::Builder> builder_;
  std::vector<Value*> values_;
};

}  // namespace thalweg::tools_cli
