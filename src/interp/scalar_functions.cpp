// Instantiates the expressions of ops.def for every dtype that they take.
#include "interp/scalar_functions.h"

#include "interp/scalar_types.h"

namespace thalweg::interp {
namespace {

using ir::DType;
using ir::OpCode;
using namespace scalar;

// One struct a row: call(a) exists where the expression does.
#define THALWEG_OP(name, text, ...)
#define THALWEG_UNARY(name, text, cls, expression)  \
  struct name##_row {                               \
    template <class T>                              \
    static auto call(T a) -> decltype(expression) { \
      return expression;                            \
    }                                               \
  };
#define THALWEG_BINARY(name, text, cls, expression)      \
  struct name##_row {                                    \
    template <class T>                                   \
    static auto call(T a, T b) -> decltype(expression) { \
      return expression;                                 \
    }                                                    \
  };
#include "ir/ops.def"
#undef THALWEG_UNARY
#undef THALWEG_BINARY
#undef THALWEG_OP

// A result of the operand's own type is stored as its dtype; another one (abs of a complex number) as it is.
template <class Access, class R>
void store(R result, std::byte* out) {
  if constexpr (is_same<R, typename Access::Compute>)
    Access::store(result, out);
  else
    Plain<R>::store(result, out);
}

template <class Row, class Access>
void unary_at(const std::byte* a, std::byte* out) {
  store<Access>(Row::call(Access::load(a)), out);
}
template <class Row, class Access>
void binary_at(const std::byte* a, const std::byte* b, std::byte* out) {
  store<Access>(Row::call(Access::load(a), Access::load(b)), out);
}

template <class Row>
UnaryFn unary_row(DType dtype) {
  return visit_dtype(dtype, []<class Access>() -> UnaryFn {
    using T = typename Access::Compute;
    if constexpr (requires(T a) { Row::call(a); })
      return unary_at<Row, Access>;
    else
      return nullptr;
  });
}

template <class Row>
BinaryFn binary_row(DType dtype) {
  return visit_dtype(dtype, []<class Access>() -> BinaryFn {
    using T = typename Access::Compute;
    if constexpr (requires(T a) { Row::call(a, a); })
      return binary_at<Row, Access>;
    else
      return nullptr;
  });
}

// Bit counts and logical shifts see only the bits that a sub-byte integer has.
template <DType D, int Bits>
struct SubByteBits {
  static unsigned load(const std::byte* a) { return static_cast<unsigned>(*a) & ((1u << Bits) - 1); }
  static void clz(const std::byte* a, std::byte* out) {
    const unsigned v = load(a);
    ir::store_int(D, out, v == 0 ? Bits : __builtin_clz(v) - (32 - Bits));
  }
  static void popcnt(const std::byte* a, std::byte* out) { ir::store_int(D, out, __builtin_popcount(load(a))); }
  static void srl(const std::byte* a, const std::byte* b, std::byte* out) {
    const unsigned shift = load(b);
    ir::store_int(D, out, shift >= Bits ? 0 : load(a) >> shift);
  }
};

template <class Visit>
auto sub_byte(DType dtype, const Visit& visit) -> decltype(visit.template operator()<SubByteBits<DType::S4, 4>>()) {
  switch (dtype) {
    case DType::S2:
      return visit.template operator()<SubByteBits<DType::S2, 2>>();
    case DType::U2:
      return visit.template operator()<SubByteBits<DType::U2, 2>>();
    case DType::S4:
      return visit.template operator()<SubByteBits<DType::S4, 4>>();
    case DType::U4:
      return visit.template operator()<SubByteBits<DType::U4, 4>>();
    default:
      return nullptr;
  }
}

// -1, 0 or 1 as a comes before, with or after b in the total order of floats: -NaN, -inf, …, -0, +0, …, +inf, +NaN.
template <class Access>
struct Ordered {
  using T = typename Access::Compute;
  static auto key(const std::byte* p) {
    const T v = Access::load(p);
    if constexpr (is_same<T, float> || is_same<T, double> || Half<T>)
      return s_total_order(v);
    else
      return v;
  }
};

template <class Compare>
BinaryFn direction_fn(const std::string& direction, const Compare& compare) {
  if (direction == "EQ") return compare.template operator()<0>();
  if (direction == "NE") return compare.template operator()<1>();
  if (direction == "GE") return compare.template operator()<2>();
  if (direction == "GT") return compare.template operator()<3>();
  if (direction == "LE") return compare.template operator()<4>();
  return compare.template operator()<5>();
}

template <int Direction, class T>
bool holds(T a, T b) {
  if constexpr (Direction == 0) return s_eq(a, b);
  if constexpr (Direction == 1) return s_ne(a, b);
  if constexpr (Direction > 1 && !Complex<T>) {
    if constexpr (Direction == 2) return s_ge(a, b);
    if constexpr (Direction == 3) return s_gt(a, b);
    if constexpr (Direction == 4) return s_le(a, b);
    if constexpr (Direction == 5) return s_lt(a, b);
  }
  return false;
}

}  // namespace

UnaryFn unary_function(OpCode code, DType dtype) {
  if (code == OpCode::CountLeadingZeros)
    if (UnaryFn f = sub_byte(dtype, []<class S>() -> UnaryFn { return S::clz; })) return f;
  if (code == OpCode::Popcnt)
    if (UnaryFn f = sub_byte(dtype, []<class S>() -> UnaryFn { return S::popcnt; })) return f;
  switch (code) {
#define THALWEG_OP(name, text, ...)
#define THALWEG_UNARY(name, text, cls, expression) \
  case OpCode::name:                               \
    return unary_row<name##_row>(dtype);
#define THALWEG_BINARY(name, text, cls, expression)
#include "ir/ops.def"
#undef THALWEG_UNARY
#undef THALWEG_BINARY
#undef THALWEG_OP
    default:
      return nullptr;
  }
}

BinaryFn binary_function(OpCode code, DType dtype) {
  if (code == OpCode::ShiftRightLogical)
    if (BinaryFn f = sub_byte(dtype, []<class S>() -> BinaryFn { return S::srl; })) return f;
  switch (code) {
#define THALWEG_OP(name, text, ...)
#define THALWEG_UNARY(name, text, cls, expression)
#define THALWEG_BINARY(name, text, cls, expression) \
  case OpCode::name:                                \
    return binary_row<name##_row>(dtype);
#include "ir/ops.def"
#undef THALWEG_UNARY
#undef THALWEG_BINARY
#undef THALWEG_OP
    default:
      return nullptr;
  }
}

namespace {

// To floats of at most 8 bits: straight from double, so that the value is rounded once.
template <class From, DType To>
void convert_narrow(const std::byte* a, std::byte* out) {
  ir::store_double(To, out, s_convert<double>(From::load(a)));
}
template <class From, DType D>
UnaryFn conversion(Narrow<D>) {
  return convert_narrow<From, D>;
}

// Floats saturate at the two or four bits of the integer, as they do at wider ones.
template <class From, class T, DType D>
UnaryFn conversion(SubByte<T, D>) {
  return [](const std::byte* a, std::byte* out) {
    using F = typename From::Compute;
    if constexpr (Int<F> || is_same<F, bool>) {
      ir::store_int(D, out, static_cast<long>(From::load(a)));
    } else {
      constexpr int bits = D == DType::S2 || D == DType::U2 ? 2 : 4;
      constexpr double top = SignedInt<T> ? (1 << (bits - 1)) - 1 : (1 << bits) - 1, bottom = SignedInt<T> ? -top - 1 : 0;
      const double v = s_convert<double>(From::load(a));
      ir::store_int(D, out, v != v ? 0 : static_cast<long>(v < bottom ? bottom : v > top ? top : v));
    }
  };
}

template <class From, class T>
UnaryFn conversion(Plain<T>) {
  return [](const std::byte* a, std::byte* out) { Plain<T>::store(s_convert<T>(From::load(a)), out); };
}

}  // namespace

UnaryFn convert_function(DType from, DType to) {
  return visit_dtype(from, [to]<class From>() -> UnaryFn { return visit_dtype(to, []<class To>() { return conversion<From>(To{}); }); });
}

BinaryFn compare_function(DType dtype, const std::string& direction, const std::string& type) {
  return visit_dtype(dtype, [&]<class Access>() -> BinaryFn {
    if (type == "TOTALORDER" && ir::is_float(dtype))
      return direction_fn(direction, []<int D>() -> BinaryFn {
        return [](const std::byte* a, const std::byte* b, std::byte* out) { *out = std::byte(holds<D>(Ordered<Access>::key(a), Ordered<Access>::key(b))); };
      });
    return direction_fn(direction, []<int D>() -> BinaryFn {
      return [](const std::byte* a, const std::byte* b, std::byte* out) { *out = std::byte(holds<D>(Access::load(a), Access::load(b))); };
    });
  });
}

void reduce_precision(DType dtype, const std::byte* a, std::byte* out, int exponent_bits, int mantissa_bits) {
  visit_dtype(dtype, [&]<class Access>() {
    using T = typename Access::Compute;
    if constexpr (Real<T> || Half<T>) Access::store(s_reduce_precision(Access::load(a), exponent_bits, mantissa_bits), out);
  });
}

}  // namespace thalweg::interp
