// Scalar meaning of the elementwise ops: the interpreter compiles this text, and both code generators put it before every kernel.
//
// No includes: only compiler builtins. Every function is branch-free where it matters, so that a loop over it vectorises. f32 functions are within 2 ULP (tanh,
// logistic: 2.5) over their whole range, denormals, infinities, NaN and signed zeros included; f64 functions are the C library's. 16-bit floats compute in
// float and round once. Integers wrap; x / 0 is all ones, x % 0 is x.
// Compile with -ffp-contract=off: the same text must give the same bits everywhere, but for exp and erf of f32 on GPUs, which use their own powers of two
// (2.5 ULP), and for the bits of NaN.
#pragma once

#ifdef __CUDACC_RTC__
#define THALWEG_LIBM(f) ::f
#define THALWEG_ROUND_EVEN(f) ::rint##f
#define THALWEG_LEADING_ZEROS(x) ::__clzll(static_cast<long long>(x))
#define THALWEG_ONES(x) ::__popcll(x)
#else
#define THALWEG_LIBM(f) __builtin_##f
#define THALWEG_ROUND_EVEN(f) __builtin_roundeven##f
#define THALWEG_LEADING_ZEROS(x) __builtin_clzll(x)
#define THALWEG_ONES(x) __builtin_popcountll(x)
#endif

namespace thalweg::scalar {

// Types ---------------------------------------------------------------------------------------------------------------

// Storage of the 16-bit floats: bits only; s_convert turns them into float and back (to nearest, ties to even).
struct bf16_t {
  unsigned short bits;
};
struct f16_t {
  unsigned short bits;
};
// A complex number, real part first, as in memory.
template <class T>
struct complex_t {
  T re, im;
};
using c64_t = complex_t<float>;
using c128_t = complex_t<double>;

template <class A, class B>
inline constexpr bool is_same = false;
template <class A>
inline constexpr bool is_same<A, A> = true;
template <class T, class... Ts>
inline constexpr bool is_one_of = (is_same<T, Ts> || ...);

template <class T>
concept SignedInt = is_one_of<T, signed char, short, int, long, long long>;
template <class T>
concept Int = SignedInt<T> || is_one_of<T, unsigned char, unsigned short, unsigned, unsigned long, unsigned long long>;
template <class T>
concept Real = is_one_of<T, float, double>;
template <class T>
concept Half = is_one_of<T, bf16_t, f16_t>;
template <class T>
concept Complex = is_one_of<T, c64_t, c128_t>;
// Types whose built-in operators mean what StableHLO means.
template <class T>
concept Plain = Int<T> || Real<T> || is_same<T, bool>;

template <int Bytes>
struct sized;
template <>
struct sized<1> {
  using u = unsigned char;
  using s = signed char;
};
template <>
struct sized<2> {
  using u = unsigned short;
  using s = short;
};
template <>
struct sized<4> {
  using u = unsigned;
  using s = int;
};
template <>
struct sized<8> {
  using u = unsigned long;
  using s = long;
};
// The unsigned and signed integers as wide as T.
template <class T>
using unsigned_of = typename sized<sizeof(T)>::u;
template <class T>
using signed_of = typename sized<sizeof(T)>::s;

template <class To, class From>
inline constexpr To s_bitcast(From a) {
  return __builtin_bit_cast(To, a);
}

// Conversions ---------------------------------------------------------------------------------------------------------

inline float to_float(bf16_t a) { return s_bitcast<float>(static_cast<unsigned>(a.bits) << 16); }
inline float to_float(f16_t a) {
#if defined(__clang__) && defined(__F16C__)
  return static_cast<float>(s_bitcast<_Float16>(a.bits));
#elif defined(__CUDACC_RTC__)
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(a.bits));
  return f;
#else
  unsigned o = (a.bits & 0x7fffu) << 13, e = o & 0x0f800000u;
  unsigned normal = o + (e == 0x0f800000u ? 224u << 23 : 112u << 23);
  float tiny = s_bitcast<float>(o + (113u << 23)) - 0x1p-14f;
  unsigned magnitude = e == 0 ? s_bitcast<unsigned>(tiny) : normal;
  return s_bitcast<float>(magnitude | (a.bits & 0x8000u) << 16);
#endif
}

inline bf16_t to_bf16(float a) {
#if defined(__CUDACC_RTC__) && __CUDA_ARCH__ >= 800
  unsigned short rounded;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(rounded) : "f"(a));
  return {rounded};
#else
  unsigned b = s_bitcast<unsigned>(a);
  unsigned rounded = (b + 0x7fffu + (b >> 16 & 1u)) >> 16;
  return {static_cast<unsigned short>(a != a ? (b >> 16 & 0x8000u) | 0x7fc0u : rounded)};
#endif
}
inline f16_t to_f16(float a) {
#if defined(__clang__) && defined(__F16C__)
  return {s_bitcast<unsigned short>(static_cast<_Float16>(a))};
#elif defined(__CUDACC_RTC__)
  unsigned short rounded;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(rounded) : "f"(a));
  return {rounded};
#else
  unsigned b = s_bitcast<unsigned>(a), m = b & 0x7fffffffu;
  unsigned normal = (m + 0xfffu + (m >> 13 & 1u) - (112u << 23)) >> 13;
  unsigned tiny = s_bitcast<unsigned>(s_bitcast<float>(m) + 0.5f) - 0x3f000000u;  // 0.5's last place is the smallest f16
  unsigned h = m > 0x7f800000u ? 0x7e00u : m >= 0x47800000u ? 0x7c00u : m < 0x38800000u ? tiny : normal;
  return {static_cast<unsigned short>(h | (b >> 16 & 0x8000u))};
#endif
}

// True when a 64-bit integer is exact in double because it is small.
template <Int T>
inline bool few_bits(T a) {
  return static_cast<unsigned long>(a) + (SignedInt<T> ? 1ul << 53 : 0ul) < (SignedInt<T> ? 1ul << 54 : 1ul << 53);
}
// To float, an inexact result having an odd last bit: a later rounding to 16 bits is then right, as if it were the only one.
inline float to_float_odd(double a) {
  float f = static_cast<float>(a);
  unsigned b = s_bitcast<unsigned>(f);
  double back = static_cast<double>(f);
  bool away = THALWEG_LIBM(fabs)(back) > THALWEG_LIBM(fabs)(a);
  return back == a || a != a ? f : s_bitcast<float>((away ? b - 1u : b) | 1u);
}

// `a` as To with StableHLO's convert: floats to nearest even; floats to integers cut the fraction, saturate, and NaN gives 0; integers wrap; to bool: not zero;
// complex to real drops the imaginary part.
template <class To, class From>
inline To s_convert(From a) {
  if constexpr (is_same<To, From>) {
    return a;
  } else if constexpr (is_same<To, bool>) {
    if constexpr (Complex<From>)
      return a.re != 0 || a.im != 0;
    else if constexpr (Half<From>)
      return (a.bits & 0x7fffu) != 0;
    else
      return a != 0;
  } else if constexpr (Complex<To>) {
    using T = decltype(To{}.re);
    if constexpr (Complex<From>)
      return To{static_cast<T>(a.re), static_cast<T>(a.im)};
    else
      return To{s_convert<T>(a), T(0)};
  } else if constexpr (Complex<From>) {
    return s_convert<To>(a.re);
  } else if constexpr (Half<From>) {
    return s_convert<To>(to_float(a));
  } else if constexpr (Half<To>) {
    float f;
    if constexpr (is_same<From, double>)
      f = to_float_odd(a);
    else if constexpr (Int<From> && sizeof(From) == 4)
      f = to_float_odd(static_cast<double>(a));
    else if constexpr (Int<From> && sizeof(From) == 8)
      f = to_float_odd(static_cast<double>(few_bits(a) ? a : static_cast<From>((a & ~From(4095)) | From((a & 4095) != 0) * 2048)));
    else
      f = static_cast<float>(a);
    if constexpr (is_same<To, bf16_t>)
      return to_bf16(f);
    else
      return to_f16(f);
  } else if constexpr (Real<From> && Int<To>) {
    constexpr int bits = sizeof(To) * 8 - SignedInt<To>;
    constexpr From top = From(1ull << (bits - 1)) * 2;  // one above the largest
    constexpr To largest = static_cast<To>(bits == 64 ? ~0ull : (1ull << (bits & 63)) - 1);
    constexpr From bottom = SignedInt<To> ? -top : From(0);
    bool inside = a < top && a > bottom - 1;
    if constexpr (sizeof(From) * 8 < sizeof(To) * 8 + 8) inside = a < top && a >= bottom;  // bottom - 1 is not representable
    if constexpr (!SignedInt<To>) inside = a < top && a > From(-1);
    To cut = static_cast<To>(inside ? a : From(0));
    return inside ? cut : a >= top ? largest : a < 0 ? static_cast<To>(SignedInt<To> ? ~largest : 0) : To(0);
  } else {
    return static_cast<To>(a);
  }
}

// Arithmetic and order ------------------------------------------------------------------------------------------------

// f for 16-bit floats: through float, rounded once.
#define THALWEG_HALF_1(f)                \
  template <Half T>                      \
  inline T f(T a) {                      \
    return s_convert<T>(f(to_float(a))); \
  }
#define THALWEG_HALF_2(f)                             \
  template <Half T>                                   \
  inline T f(T a, T b) {                              \
    return s_convert<T>(f(to_float(a), to_float(b))); \
  }

template <Int T>
inline T s_add(T a, T b) {
  return static_cast<T>(unsigned_of<T>(a) + unsigned_of<T>(b));
}
template <Int T>
inline T s_sub(T a, T b) {
  return static_cast<T>(unsigned_of<T>(a) - unsigned_of<T>(b));
}
template <Int T>
inline T s_mul(T a, T b) {
  return static_cast<T>(1u * unsigned_of<T>(a) * unsigned_of<T>(b));
}
template <Real T>
inline T s_add(T a, T b) {
  return a + b;
}
template <Real T>
inline T s_sub(T a, T b) {
  return a - b;
}
template <Real T>
inline T s_mul(T a, T b) {
  return a * b;
}
template <Real T>
inline T s_div(T a, T b) {
  return a / b;
}
inline bool s_add(bool a, bool b) { return a | b; }
inline bool s_mul(bool a, bool b) { return a & b; }
THALWEG_HALF_2(s_add)
THALWEG_HALF_2(s_sub)
THALWEG_HALF_2(s_mul)
THALWEG_HALF_2(s_div)

template <Int T>
inline T s_div(T a, T b) {
  bool minus_one = SignedInt<T> && b == T(-1), special = b == 0 || minus_one;
  T q = static_cast<T>(a / (special ? T(1) : b));
  return b == 0 ? T(-1) : minus_one ? static_cast<T>(0u - unsigned_of<T>(a)) : q;
}
template <Int T>
inline T s_rem(T a, T b) {
  bool minus_one = SignedInt<T> && b == T(-1), special = b == 0 || minus_one;
  T r = static_cast<T>(a % (special ? T(1) : b));
  return b == 0 ? a : r;
}
inline float s_rem(float a, float b) { return THALWEG_LIBM(fmodf)(a, b); }
inline double s_rem(double a, double b) { return THALWEG_LIBM(fmod)(a, b); }
THALWEG_HALF_2(s_rem)

template <Plain T>
inline bool s_eq(T a, T b) {
  return a == b;
}
template <Plain T>
inline bool s_ne(T a, T b) {
  return a != b;
}
template <Plain T>
inline bool s_lt(T a, T b) {
  return a < b;
}
template <Plain T>
inline bool s_le(T a, T b) {
  return a <= b;
}
template <Plain T>
inline bool s_gt(T a, T b) {
  return a > b;
}
template <Plain T>
inline bool s_ge(T a, T b) {
  return a >= b;
}
#define THALWEG_HALF_COMPARE(f)         \
  template <Half T>                     \
  inline bool f(T a, T b) {             \
    return f(to_float(a), to_float(b)); \
  }
THALWEG_HALF_COMPARE(s_eq)
THALWEG_HALF_COMPARE(s_ne)
THALWEG_HALF_COMPARE(s_lt)
THALWEG_HALF_COMPARE(s_le)
THALWEG_HALF_COMPARE(s_gt)
THALWEG_HALF_COMPARE(s_ge)
template <Complex T>
inline bool s_eq(T a, T b) {
  return a.re == b.re && a.im == b.im;
}
template <Complex T>
inline bool s_ne(T a, T b) {
  return a.re != b.re || a.im != b.im;
}
// IEEE 754's total order as an order of integers: -NaN < -inf < … < -0 < +0 < … < inf < NaN.
template <class T>
inline signed_of<T> s_total_order(T a) {
  using U = unsigned_of<T>;
  auto s = s_bitcast<signed_of<T>>(a);
  return s < 0 ? static_cast<signed_of<T>>(U(s) ^ (U(~U(0)) >> 1)) : s;
}

template <class T>
inline T s_select(bool p, T a, T b) {
  return p ? a : b;
}

// NaN if either is NaN, and -0 < +0.
template <Real T>
inline T s_max(T a, T b) {
  using U = unsigned_of<T>;
  T same = s_bitcast<T>(static_cast<U>(s_bitcast<U>(a) & s_bitcast<U>(b)));
  T larger = !(a <= b) ? a : b;
  return b != b ? b : a == b ? same : larger;
}
template <Real T>
inline T s_min(T a, T b) {
  using U = unsigned_of<T>;
  T same = s_bitcast<T>(static_cast<U>(s_bitcast<U>(a) | s_bitcast<U>(b)));
  T smaller = !(a >= b) ? a : b;
  return b != b ? b : a == b ? same : smaller;
}
#if defined(__CUDACC_RTC__) && __CUDA_ARCH__ >= 800
// One instruction; NaN loses its bits.
inline float s_max(float a, float b) {
  float c;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
  return c;
}
inline float s_min(float a, float b) {
  float c;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
  return c;
}
#endif
template <Int T>
inline T s_max(T a, T b) {
  return a > b ? a : b;
}
template <Int T>
inline T s_min(T a, T b) {
  return a < b ? a : b;
}
inline bool s_max(bool a, bool b) { return a | b; }
inline bool s_min(bool a, bool b) { return a & b; }
THALWEG_HALF_2(s_max)
THALWEG_HALF_2(s_min)
// Complex numbers are ordered by real, then imaginary part.
template <Complex T>
inline T s_max(T a, T b) {
  return a.re > b.re || (a.re == b.re && a.im > b.im) || a.re != a.re ? a : b;
}
template <Complex T>
inline T s_min(T a, T b) {
  return a.re < b.re || (a.re == b.re && a.im < b.im) || a.re != a.re ? a : b;
}
template <class T>
inline T s_clamp(T low, T a, T high) {
  return s_min(s_max(a, low), high);
}

template <Int T>
inline T s_abs(T a) {
  if constexpr (SignedInt<T>)
    return a < 0 ? static_cast<T>(0u - unsigned_of<T>(a)) : a;
  else
    return a;
}
inline float s_abs(float a) { return THALWEG_LIBM(fabsf)(a); }
inline double s_abs(double a) { return THALWEG_LIBM(fabs)(a); }
template <Half T>
inline T s_abs(T a) {
  return {static_cast<unsigned short>(a.bits & 0x7fffu)};
}
template <Int T>
inline T s_neg(T a) {
  return static_cast<T>(0u - unsigned_of<T>(a));
}
template <Real T>
inline T s_neg(T a) {
  return -a;
}
template <Half T>
inline T s_neg(T a) {
  return {static_cast<unsigned short>(a.bits ^ 0x8000u)};
}
template <Int T>
inline T s_sign(T a) {
  return static_cast<T>((a > 0) - (a < 0));
}
template <Real T>
inline T s_sign(T a) {
  return a > 0 ? T(1) : a < 0 ? T(-1) : a;
}
THALWEG_HALF_1(s_sign)

template <Int T>
inline T s_not(T a) {
  return static_cast<T>(~a);
}
inline bool s_not(bool a) { return !a; }
template <class T>
  requires(Int<T> || is_same<T, bool>)
inline T s_and(T a, T b) {
  return static_cast<T>(a & b);
}
template <class T>
  requires(Int<T> || is_same<T, bool>)
inline T s_or(T a, T b) {
  return static_cast<T>(a | b);
}
template <class T>
  requires(Int<T> || is_same<T, bool>)
inline T s_xor(T a, T b) {
  return static_cast<T>(a ^ b);
}
template <Int T>
inline T s_clz(T a) {
  constexpr int bits = sizeof(T) * 8;
  return static_cast<T>(a == 0 ? bits : THALWEG_LEADING_ZEROS(static_cast<unsigned long long>(unsigned_of<T>(a)) | (a == 0)) - (64 - bits));
}
template <Int T>
inline T s_popcnt(T a) {
  return static_cast<T>(THALWEG_ONES(static_cast<unsigned long long>(unsigned_of<T>(a))));
}
// A shift by the width or more (a negative one counts as such) moves every bit out.
template <Int T>
inline T s_shl(T a, T b) {
  using U = unsigned_of<T>;
  return U(b) < sizeof(T) * 8 ? static_cast<T>((1u * U(a)) << U(b)) : T(0);
}
template <Int T>
inline T s_srl(T a, T b) {
  using U = unsigned_of<T>;
  return U(b) < sizeof(T) * 8 ? static_cast<T>(U(a) >> U(b)) : T(0);
}
template <Int T>
inline T s_sra(T a, T b) {
  using U = unsigned_of<T>;
  U by = U(b) < sizeof(T) * 8 ? U(b) : U(sizeof(T) * 8 - 1);
  return static_cast<T>(signed_of<T>(a) >> by);
}

inline float s_floor(float a) { return THALWEG_LIBM(floorf)(a); }
inline double s_floor(double a) { return THALWEG_LIBM(floor)(a); }
inline float s_ceil(float a) { return THALWEG_LIBM(ceilf)(a); }
inline double s_ceil(double a) { return THALWEG_LIBM(ceil)(a); }
inline float s_round_afz(float a) { return THALWEG_LIBM(roundf)(a); }
inline double s_round_afz(double a) { return THALWEG_LIBM(round)(a); }
inline float s_round_even(float a) { return THALWEG_ROUND_EVEN(f)(a); }
inline double s_round_even(double a) { return THALWEG_ROUND_EVEN()(a); }
inline float s_sqrt(float a) { return THALWEG_LIBM(sqrtf)(a); }
inline double s_sqrt(double a) { return THALWEG_LIBM(sqrt)(a); }
inline float s_rsqrt(float a) { return 1.0f / s_sqrt(a); }
inline double s_rsqrt(double a) { return 1.0 / s_sqrt(a); }
template <Real T>
inline bool s_is_finite(T a) {
  return a - a == 0;
}
template <Half T>
inline bool s_is_finite(T a) {
  return s_is_finite(to_float(a));
}
THALWEG_HALF_1(s_floor)
THALWEG_HALF_1(s_ceil)
THALWEG_HALF_1(s_round_afz)
THALWEG_HALF_1(s_round_even)
THALWEG_HALF_1(s_sqrt)
THALWEG_HALF_1(s_rsqrt)

// `a` with its exponent and fraction cut to that many bits (to nearest even; too large: infinity, too small: zero of its sign).
template <Real T>
inline T s_reduce_precision(T a, int exponent_bits, int fraction_bits) {
  using U = unsigned_of<T>;
  constexpr int total_fraction = sizeof(T) == 4 ? 23 : 52, total_exponent = sizeof(T) == 4 ? 8 : 11;
  constexpr U one = 1, sign_bit = one << (sizeof(T) * 8 - 1), infinity = ((one << total_exponent) - 1) << total_fraction;
  U b = s_bitcast<U>(a), sign = b & sign_bit, m = b & ~sign_bit;
  if (int drop = total_fraction - fraction_bits; drop > 0) {
    U last = m >> drop & 1;
    m = (m + last + ((one << (drop - 1)) - 1)) & ~((one << drop) - 1);
  }
  if (exponent_bits < total_exponent) {
    U bias = (one << (total_exponent - 1)) - 1, reach = (one << (exponent_bits - 1)) - 1, exponent = m >> total_fraction;
    m = exponent > bias + reach ? infinity : exponent <= bias - reach ? U(0) : m;
  }
  return a != a ? a : s_bitcast<T>(static_cast<U>(sign | m));
}
template <Half T>
inline T s_reduce_precision(T a, int exponent_bits, int fraction_bits) {
  return s_convert<T>(s_reduce_precision(to_float(a), exponent_bits, fraction_bits));
}

template <Int T>
inline T s_pow(T a, T b) {
  T result = 1, square = a;
  for (unsigned_of<T> n = b; n; n >>= 1) {
    if (n & 1) result = s_mul(result, square);
    square = s_mul(square, square);
  }
  if (SignedInt<T> && b < 0) return a == 1 ? T(1) : a == T(-1) ? T(b & 1 ? -1 : 1) : T(0);
  return result;
}

// f32 functions of our own --------------------------------------------------------------------------------------------
// Coefficients: tools/fit_scalar_polynomials.py.

inline float fma(float a, float b, float c) { return THALWEG_LIBM(fmaf)(a, b, c); }
inline double fma(double a, double b, double c) { return THALWEG_LIBM(fma)(a, b, c); }
// c0 + x (c1 + x (c2 + …)).
template <class T, class... Ts>
inline T horner(T x, T c0, Ts... rest) {
  if constexpr (sizeof...(rest) == 0)
    return c0;
  else
    return fma(x, horner(x, rest...), c0);
}
// 2^k for -127 < k < 128.
inline float two_to(int k) { return s_bitcast<float>(static_cast<unsigned>(k + 127) << 23); }

inline constexpr float kInfinity = s_bitcast<float>(0x7f800000u), kNaN = s_bitcast<float>(0x7fc00000u);
inline constexpr double kWideInfinity = s_bitcast<double>(0x7ff0000000000000ul);
inline constexpr float kLn2High = 0x1.62e4p-1f, kLn2Low = 0x1.7f7d1cp-20f;  // the first has few bits: small multiples are exact

// e^x = 2^n (1 + tail) with |n ln 2 - x| ≤ ln 2 / 2; x must lie within ±2^20.
struct exp_parts {
  int n;
  float tail;
};
inline exp_parts split_exp(float x) {
  float shifted = fma(x, 0x1.715476p0f, 0x1.8p23f);  // adding 1.5·2^23 rounds to an integer, kept in the low bits
  float n = shifted - 0x1.8p23f;
  float r = fma(n, -kLn2Low, fma(n, -kLn2High, x));
  float q = horner(r, 0.5f, 0.16666667f, 0.041666355f, 0.008333275f, 0.0013941365f, 0.00019913253f);
  return {static_cast<int>(s_bitcast<unsigned>(shifted) - 0x4b400000u), fma(r * r, q, r)};
}
#ifdef __CUDACC_RTC__
inline float fast_exp2(float x) {
  float y;
  asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// The same with 0 in the place of the smallest powers.
inline float short_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
#endif
inline float s_exp(float x) {
#ifdef __CUDACC_RTC__
  float c = s_min(s_max(x, -104.0f), 0x1.62e43p6f);  // the latter gives infinity, and nothing below it does
  float whole = c * 0x1.715476p0f;
  float lost = fma(c, 0x1.4ae0cp-26f, fma(c, 0x1.715476p0f, -whole));
  float power = fast_exp2(whole);
  return fma(power, lost * 0x1.62e43p-1f, power);
#else
  float c = x < -104.0f ? -104.0f : x > 89.0f ? 89.0f : x;
  exp_parts p = split_exp(c);
  int half = p.n >> 1;
  return (1.0f + p.tail) * two_to(half) * two_to(p.n - half);  // in two steps: only the last can round
#endif
}
inline float s_expm1(float x) {
  float c = x < -20.0f ? -20.0f : x > 89.0f ? 89.0f : x;
  exp_parts p = split_exp(c);
  float half = two_to(p.n - 1);
  float y = 2.0f * fma(half, p.tail, half - 0.5f);
  return THALWEG_LIBM(fabsf)(x) < 0x1p-25f ? x : y;
}

// n ln 2 + log(1 + f) for √½ - 1 ≤ f ≤ √2 - 1.
inline float join_log(float n, float f) {
  float square = f * f;
  float p = horner(f, 0.33333313f, -0.24999987f, 0.20002003f, -0.16669112f, 0.14222458f, -0.12388371f, 0.118515946f, -0.11760864f, 0.069261916f);
  float low = fma(square * f, p, fma(-0.5f, square, n * kLn2Low));
  return fma(n, kLn2High, f + low);
}
inline float s_log(float x) {
  bool tiny = x < 0x1p-126f;
  unsigned b = s_bitcast<unsigned>(tiny ? x * 0x1p25f : x) - 0x3f3504f3u;  // √½
  int n = static_cast<int>(b) >> 23;
  float m = s_bitcast<float>((b & 0x007fffffu) + 0x3f3504f3u);
  float y = join_log(static_cast<float>(tiny ? n - 25 : n), m - 1.0f);
  return x < kInfinity ? (x > 0 ? y : x == 0 ? -kInfinity : kNaN) : x;
}
inline float s_log1p(float x) {
  float u = 1.0f + x;
  float lost = x < 1.0f ? x - (u - 1.0f) : 1.0f - (u - x);
  unsigned b = s_bitcast<unsigned>(u) - 0x3f3504f3u;
  int n = static_cast<int>(b) >> 23;
  float m = s_bitcast<float>((b & 0x007fffffu) + 0x3f3504f3u);
  float y = join_log(static_cast<float>(n), fma(lost, two_to(n < 100 ? -n : -100), m - 1.0f));
  float inside = THALWEG_LIBM(fabsf)(x) < 0x1p-25f ? x : y;
  return x < kInfinity ? (x > -1.0f ? inside : x == -1.0f ? -kInfinity : kNaN) : x;
}

inline float s_tanh(float x) {
  float a = THALWEG_LIBM(fabsf)(x);
  float t = s_expm1(2.0f * (a > 9.5f ? 9.5f : a));
  return THALWEG_LIBM(copysignf)(t / (t + 2.0f), x);
}
inline float s_logistic(float x) {
  float e = s_exp(-THALWEG_LIBM(fabsf)(x));
  return (x < 0 ? e : 1.0f) / (1.0f + e);
}
inline float s_erf(float x) {
  float a = THALWEG_LIBM(fabsf)(x), square = x * x;
  float near = fma(x, horner(square, 0.12837917f, -0.37612635f, 0.11283702f, -0.026859703f, 0.005201716f, -0.00081498054f, 8.397793e-05f), x);
#ifdef __CUDACC_RTC__
  float c = s_min(a, 3.93f);
#else
  float c = a > 3.93f ? 3.93f : a;
#endif
  float q = horner(c, -0.00015955669f, 1.1294299f, 0.6335521f, 0.10800204f, -0.024888245f, 0.0040504104f, -0.00039588712f, 1.419063e-05f, 5.2942414e-07f);
#ifdef __CUDACC_RTC__
  float far = 1.0f - short_exp2(-0x1.715476p0f * q);
#else
  exp_parts p = split_exp(-q);
  float far = 1.0f - (1.0f + p.tail) * two_to(p.n);
#endif
  return a < 0.921875f ? near : THALWEG_LIBM(copysignf)(far, x);
}

// 1 + erf(x) for results of 16 bits: within 2e-7, and within 1 % for x < -2.5, where adding 1 to erf would leave less. Abramowitz and Stegun, 7.1.26.
inline float s_one_plus_erf(float x) {
  float a = THALWEG_LIBM(fabsf)(x);
#ifdef __CUDACC_RTC__
  float t, d = fma(a, 0.3275911f, 1.0f);
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(t) : "f"(d));
  float power = short_exp2(x * (x * -0x1.715476p0f));
#else
  float t = 1.0f / fma(a, 0.3275911f, 1.0f);
  float power = s_exp(-x * x);
#endif
  float tail = t * horner(t, 0.254829592f, -0.284496736f, 1.421413741f, -1.453152027f, 1.061405429f) * power;
  return x < 0 ? tail : 2.0f - tail;
}

// 2/π · 4^k without its multiples of 2^25, as 28 bits and the rest.
inline constexpr double kTwoOverPi[64][2] = {
    {0x1.4p-1, 0x1.7cc1b727220a9p-7},       {0x1.4p1, 0x1.7cc1b727220a9p-5},        {0x1.44p3, 0x1.f306dc9c882a5p-5},
    {0x1.45p5, 0x1.e60db9391054ap-4},       {0x1.45cp7, 0x1.9836e4e44152ap-4},      {0x1.45fp9, 0x1.836e4e44152ap-6},
    {0x1.45fp11, 0x1.836e4e44152ap-4},      {0x1.45f3p13, 0x1.b727220a94fe1p-9},    {0x1.45f3p15, 0x1.b727220a94fe1p-7},
    {0x1.45f3p17, 0x1.b727220a94fe1p-5},    {0x1.45f304p19, 0x1.6e4e441529fc2p-4},  {0x1.45f306p21, 0x1.b9391054a7f0ap-4},
    {0x1.45f306cp23, 0x1.c9c882a53f84fp-5}, {0x1.17cc1b4p23, 0x1.9391054a7f09dp-4}, {0x1.7cc1b7p21, 0x1.391054a7f09d6p-6},
    {0x1.7cc1b7p23, 0x1.391054a7f09d6p-4},  {0x1.f306dc8p23, 0x1.c882a53f84ebp-5},  {0x1.e60db92p24, 0x1.91054a7f09d5fp-4},
    {0x1.9836e4ep24, 0x1.1054a7f09d5f4p-6}, {0x1.836e4ep22, 0x1.1054a7f09d5f4p-4},  {0x1.836e4e4p24, 0x1.054a7f09d5f48p-6},
    {0x1.b7272p19, 0x1.054a7f09d5f48p-4},   {0x1.b72722p21, 0x1.529fc2757d1f5p-8},  {0x1.b72722p23, 0x1.529fc2757d1f5p-6},
    {0x1.6e4e44p24, 0x1.529fc2757d1f5p-4},  {0x1.b939104p24, 0x1.4a7f09d5f47d5p-4}, {0x1.c9c8828p23, 0x1.29fc2757d1f53p-4},
    {0x1.9391054p24, 0x1.4fe13abe8fa9ap-5}, {0x1.3910548p22, 0x1.3f84eafa3ea6ap-5}, {0x1.391054ap24, 0x1.fc2757d1f534ep-6},
    {0x1.c882a5p23, 0x1.fc2757d1f534ep-4},  {0x1.91054a6p24, 0x1.f09d5f47d4d37p-4}, {0x1.1054a78p22, 0x1.c2757d1f534dep-4},
    {0x1.1054a7ep24, 0x1.09d5f47d4d377p-4}, {0x1.054a7fp22, 0x1.3abe8fa9a6eep-7},   {0x1.054a7fp24, 0x1.3abe8fa9a6eep-5},
    {0x1.529fc2p20, 0x1.d5f47d4d37703p-6},  {0x1.529fc2p22, 0x1.d5f47d4d37703p-4},  {0x1.529fc26p24, 0x1.57d1f534ddc0ep-4},
    {0x1.4a7f09cp24, 0x1.5f47d4d377037p-4}, {0x1.29fc274p24, 0x1.7d1f534ddc0dbp-4}, {0x1.4fe13a8p23, 0x1.f47d4d377036ep-4},
    {0x1.3f84eacp23, 0x1.d1f534ddc0db6p-4}, {0x1.fc27578p22, 0x1.47d4d377036d9p-4}, {0x1.fc2757cp24, 0x1.1f534ddc0db63p-4},
    {0x1.f09d5f4p24, 0x1.f534ddc0db629p-6}, {0x1.c2757dp24, 0x1.f534ddc0db629p-4},  {0x1.09d5f46p24, 0x1.d4d377036d8a5p-4},
    {0x1.3abe8fp21, 0x1.534ddc0db6296p-4},  {0x1.3abe8f8p23, 0x1.4d377036d8a56p-4}, {0x1.d5f47dp22, 0x1.34ddc0db6295ap-4},
    {0x1.d5f47d4p24, 0x1.a6ee06db14acdp-5}, {0x1.57d1f52p24, 0x1.4ddc0db629599p-4}, {0x1.5f47d4cp24, 0x1.377036d8a5665p-4},
    {0x1.7d1f534p24, 0x1.bb81b6c52b328p-5}, {0x1.f47d4d2p24, 0x1.77036d8a5664fp-4}, {0x1.d1f534cp24, 0x1.dc0db6295993cp-4},
    {0x1.47d4d36p24, 0x1.7036d8a5664f1p-4}, {0x1.1f534dcp24, 0x1.c0db6295993c4p-4}, {0x1.f534dd8p22, 0x1.036d8a5664f11p-4},
    {0x1.f534ddcp24, 0x1.b6c52b3278872p-9}, {0x1.d4d377p24, 0x1.b6c52b3278872p-7},  {0x1.534ddcp24, 0x1.b6c52b3278872p-5},
    {0x1.4d37702p24, 0x1.6d8a5664f10e4p-4}};
// x = (quadrant + 4 j) π/2 + angle with |angle| ≤ π/4, for every finite x.
struct angle_parts {
  int quadrant;
  double angle;
};
inline angle_parts split_angle(float x) {
  unsigned b = s_bitcast<unsigned>(x);
  int k = static_cast<int>(b >> 23 & 255u) - 127;
  k = k < 0 ? 0 : k > 127 ? 63 : k >> 1;
  double y = static_cast<double>(s_bitcast<float>(b - (static_cast<unsigned>(k) << 24)));
  double turns = y * kTwoOverPi[k][0];  // exact
  double shifted = fma(y, kTwoOverPi[k][1], turns) + 0x1.8p52;
  double fraction = fma(y, kTwoOverPi[k][1], turns - (shifted - 0x1.8p52));
  return {static_cast<int>(s_bitcast<unsigned long>(shifted)), fraction * 1.5707963267948966};
}
template <Real T>
inline T sin_near(T r) {
  T s = r * r;
  return fma(s * r, horner(s, T(-0.16666667f), T(0.008333329f), T(-0.00019839345f), T(2.718327e-06f)), r);
}
template <Real T>
inline T cos_near(T r) {
  T s = r * r;
  return fma(s * s, horner(s, T(0.041666668f), T(-0.0013888886f), T(2.4799905e-05f), T(-2.723757e-07f)), fma(T(-0.5f), s, T(1)));
}
inline float flip(float a, unsigned negate) { return s_bitcast<float>(s_bitcast<unsigned>(a) ^ negate << 31); }
inline float s_sin(float x) {
  angle_parts p = split_angle(x);
  float r = static_cast<float>(p.angle);
  float y = flip(p.quadrant & 1 ? cos_near(r) : sin_near(r), static_cast<unsigned>(p.quadrant) >> 1 & 1u);
  return s_is_finite(x) ? y : kNaN;
}
inline float s_cos(float x) {
  angle_parts p = split_angle(x);
  float r = static_cast<float>(p.angle);
  float y = flip(p.quadrant & 1 ? sin_near(r) : cos_near(r), static_cast<unsigned>(p.quadrant + 1) >> 1 & 1u);
  return s_is_finite(x) ? y : kNaN;
}
inline float s_tan(float x) {
  angle_parts p = split_angle(x);
  double s = sin_near(p.angle), c = cos_near(p.angle);
  double y = (p.quadrant & 1 ? -c : s) / (p.quadrant & 1 ? s : c);
  return s_is_finite(x) ? static_cast<float>(y) : kNaN;
}

// log2 of a positive float, in double.
inline double wide_log2(float x) {
  unsigned long b = s_bitcast<unsigned long>(static_cast<double>(x)) - 0x3fe6a09e00000000ul;  // √½
  int n = static_cast<int>(static_cast<long>(b) >> 52);
  double m = s_bitcast<double>((b & 0x000ffffffffffffful) + 0x3fe6a09e00000000ul);
  double s = (m - 1.0) / (m + 1.0);
  double p =
      horner(s * s, 2.885390081777927, 0.9617966939242147, 0.5770780172993861, 0.4121983935579949, 0.3206169962475542, 0.2614243361860381, 0.24315895041379734);
  return fma(s, p, static_cast<double>(n));
}
// 2^t in double for |t| ≤ 1000.
inline double wide_exp2(double t) {
  double shifted = t + 0x1.8p52;
  double p = horner(t - (shifted - 0x1.8p52), 1.0000000000000309, 0.6931471805447942, 0.2402265069542002, 0.05550410945734895, 0.009618129237694461,
                    0.0013333446252024692, 0.00015403405856093455, 1.5311221110052715e-05, 1.326521150113361e-06);
  return p * s_bitcast<double>((s_bitcast<unsigned long>(shifted) + 1023ul) << 52);
}
inline float s_pow(float x, float y) {
  float a = THALWEG_LIBM(fabsf)(x);
  double l = a == 0 ? -kWideInfinity : a == kInfinity ? kWideInfinity : wide_log2(a);
  double t = static_cast<double>(y) * l;
  t = t < -200.0 ? -200.0 : t > 200.0 ? 200.0 : t;
  float size = a != a ? a : static_cast<float>(wide_exp2(t));
  float half = 0.5f * y;
  bool whole = s_floor(y) == y, odd = whole && s_floor(half) != half && THALWEG_LIBM(fabsf)(y) < 0x1p24f;
  float z = a == 1.0f && y == y ? 1.0f : size;
  z = s_bitcast<unsigned>(x) >> 31 && odd ? -z : z;
  z = x < 0 && a != kInfinity && !whole && s_is_finite(y) ? kNaN : z;
  return y == 0 || x == 1.0f ? 1.0f : z;
}
// exp(-x²) times a polynomial in 1 / (1 + |x| / 2), in double, since the tail is small; below 10.2 it reaches the smallest denormal.
inline float s_erfc(float x) {
  float a = THALWEG_LIBM(fabsf)(x);
  double d = a > 10.2f ? 10.2 : static_cast<double>(a);
  double p = horner(1.0 / (1.0 + 0.5 * d), -6.537663312585436e-07, 0.28211901523118454, 0.28169286617102934, 0.2507822953228084, 0.15071305941055418,
                    0.1989696466892572, -0.37318264262856515, 0.7847825614819488, -1.396406360806792, 1.4151897915990916, -0.8174912754297855,
                    0.25770071880325274, -0.034869022161710984);
  double tail = wide_exp2(-1.4426950408889634 * (d * d)) * p;
  return static_cast<float>(x < 0 ? 2.0 - tail : tail);
}
inline float s_cbrt(float x) {
  double a = static_cast<double>(THALWEG_LIBM(fabsf)(x));
  unsigned high = static_cast<unsigned>(s_bitcast<unsigned long>(a) >> 32) / 3 + 715100000u;  // a third of the exponent: within 5 %
  double t = s_bitcast<double>(static_cast<unsigned long>(high) << 32);
  for (int i = 0; i < 2; ++i) {  // Halley's iteration cubes the error
    double c = t * t * t;
    t = t * (c + 2.0 * a) / (2.0 * c + a);
  }
  return x == 0 || !s_is_finite(x) ? x : THALWEG_LIBM(copysignf)(static_cast<float>(t), x);
}
// In double, as compilers fold it: their own atan2f of known numbers is not the library's.
inline float s_atan2(float a, float b) { return static_cast<float>(THALWEG_LIBM(atan2)(static_cast<double>(a), static_cast<double>(b))); }

// f64 functions -------------------------------------------------------------------------------------------------------

inline double s_exp(double a) { return THALWEG_LIBM(exp)(a); }
inline double s_expm1(double a) { return THALWEG_LIBM(expm1)(a); }
inline double s_log(double a) { return THALWEG_LIBM(log)(a); }
inline double s_log1p(double a) { return THALWEG_LIBM(log1p)(a); }
inline double s_tanh(double a) { return THALWEG_LIBM(tanh)(a); }
inline double s_sin(double a) { return THALWEG_LIBM(sin)(a); }
inline double s_cos(double a) { return THALWEG_LIBM(cos)(a); }
inline double s_tan(double a) { return THALWEG_LIBM(tan)(a); }
inline double s_cbrt(double a) { return THALWEG_LIBM(cbrt)(a); }
inline double s_erf(double a) { return THALWEG_LIBM(erf)(a); }
inline double s_erfc(double a) { return THALWEG_LIBM(erfc)(a); }
inline double s_pow(double a, double b) { return THALWEG_LIBM(pow)(a, b); }
inline double s_atan2(double a, double b) { return THALWEG_LIBM(atan2)(a, b); }
inline double s_logistic(double a) {
  double e = s_exp(-THALWEG_LIBM(fabs)(a));
  return (a < 0 ? e : 1.0) / (1.0 + e);
}

THALWEG_HALF_1(s_exp)
THALWEG_HALF_1(s_expm1)
THALWEG_HALF_1(s_log)
THALWEG_HALF_1(s_log1p)
THALWEG_HALF_1(s_tanh)
THALWEG_HALF_1(s_logistic)
THALWEG_HALF_1(s_erf)
THALWEG_HALF_1(s_erfc)
THALWEG_HALF_1(s_sin)
THALWEG_HALF_1(s_cos)
THALWEG_HALF_1(s_tan)
THALWEG_HALF_1(s_cbrt)
THALWEG_HALF_2(s_pow)
THALWEG_HALF_2(s_atan2)

// Complex numbers: complex<f32> computes in double --------------------------------------------------------------------

template <class T>
inline complex_t<T> s_complex(T re, T im) {
  return {re, im};
}
template <Complex T>
inline auto s_real(T a) {
  return a.re;
}
template <Complex T>
inline auto s_imag(T a) {
  return a.im;
}
template <Real T>
inline T s_real(T a) {
  return a;
}
template <Real T>
inline T s_imag(T) {
  return T(0);
}
template <Half T>
inline T s_real(T a) {
  return a;
}
template <Half T>
inline T s_imag(T) {
  return T{0};
}
template <Complex T>
inline T s_conj(T a) {
  return {a.re, -a.im};
}
template <Complex T>
inline T s_neg(T a) {
  return {-a.re, -a.im};
}
template <Complex T>
inline T s_add(T a, T b) {
  return {a.re + b.re, a.im + b.im};
}
template <Complex T>
inline T s_sub(T a, T b) {
  return {a.re - b.re, a.im - b.im};
}
template <Complex T>
inline T s_mul(T a, T b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
template <Complex T>
inline bool s_is_finite(T a) {
  return s_is_finite(a.re) && s_is_finite(a.im);
}

inline double s_abs(c128_t a) { return THALWEG_LIBM(hypot)(a.re, a.im); }
inline c128_t s_div(c128_t a, c128_t b) {
  bool wide = THALWEG_LIBM(fabs)(b.re) >= THALWEG_LIBM(fabs)(b.im);
  double ratio = wide ? b.im / b.re : b.re / b.im;
  if (b.re == 0 && b.im == 0) return {a.re / THALWEG_LIBM(fabs)(b.re), a.im / THALWEG_LIBM(fabs)(b.re)};
  if (wide) {
    double d = b.re + b.im * ratio;
    return {(a.re + a.im * ratio) / d, (a.im - a.re * ratio) / d};
  }
  double d = b.re * ratio + b.im;
  return {(a.re * ratio + a.im) / d, (a.im * ratio - a.re) / d};
}
inline c128_t s_sign(c128_t a) {
  double size = s_abs(a);
  return size == 0 ? a : c128_t{a.re / size, a.im / size};
}
inline c128_t s_exp(c128_t a) {
  double e = s_exp(a.re);
  return {a.im == 0 ? e : e * s_cos(a.im), a.im == 0 ? a.im : e * s_sin(a.im)};
}
inline c128_t s_expm1(c128_t a) {
  double half = s_sin(0.5 * a.im);
  return {s_expm1(a.re) * s_cos(a.im) - 2.0 * half * half, a.im == 0 ? a.im : s_exp(a.re) * s_sin(a.im)};
}
inline c128_t s_log(c128_t a) { return {s_log(s_abs(a)), s_atan2(a.im, a.re)}; }
inline c128_t s_log1p(c128_t a) {
  bool small = THALWEG_LIBM(fabs)(a.re) < 0.5 && THALWEG_LIBM(fabs)(a.im) < 0.5;
  double re = small ? 0.5 * s_log1p(a.re * (2.0 + a.re) + a.im * a.im) : s_log(s_abs(c128_t{1.0 + a.re, a.im}));
  return {re, s_atan2(a.im, 1.0 + a.re)};
}
inline c128_t s_sqrt(c128_t a) {
  if (a.re == 0 && a.im == 0) return {0.0, a.im};
  if (THALWEG_LIBM(fabs)(a.im) == kWideInfinity) return {kWideInfinity, a.im};
  double scale = THALWEG_LIBM(fabs)(a.re) > 1e300 || THALWEG_LIBM(fabs)(a.im) > 1e300 ? 0.25 : 1.0;
  double t = s_sqrt(0.5 * (s_abs(c128_t{a.re * scale, a.im * scale}) + THALWEG_LIBM(fabs)(a.re) * scale));
  double back = scale == 1.0 ? 1.0 : 2.0, other = a.im * scale / (2.0 * t);
  return a.re >= 0 ? c128_t{t * back, other * back} : c128_t{THALWEG_LIBM(fabs)(other) * back, THALWEG_LIBM(copysign)(t, a.im) * back};
}
inline c128_t s_rsqrt(c128_t a) { return s_div(c128_t{1.0, 0.0}, s_sqrt(a)); }
inline c128_t s_sin(c128_t a) { return {s_sin(a.re) * THALWEG_LIBM(cosh)(a.im), s_cos(a.re) * THALWEG_LIBM(sinh)(a.im)}; }
inline c128_t s_cos(c128_t a) { return {s_cos(a.re) * THALWEG_LIBM(cosh)(a.im), -s_sin(a.re) * THALWEG_LIBM(sinh)(a.im)}; }
inline c128_t s_tanh(c128_t a) {
  double h = s_tanh(a.re), t = s_tan(a.im);
  double d = 1.0 + h * h * t * t, sech = 1.0 / THALWEG_LIBM(cosh)(a.re);
  return {h * (1.0 + t * t) / d, t * sech * sech / d};
}
inline c128_t s_tan(c128_t a) {
  c128_t h = s_tanh(c128_t{-a.im, a.re});
  return {h.im, -h.re};
}
inline c128_t s_logistic(c128_t a) {
  c128_t e = s_exp(c128_t{-THALWEG_LIBM(fabs)(a.re), a.re < 0 ? a.im : -a.im});
  return s_div(a.re < 0 ? e : c128_t{1.0, 0.0}, c128_t{1.0 + e.re, e.im});
}
inline c128_t s_pow(c128_t a, c128_t b) {
  if (a.re == 0 && a.im == 0) return {b.re == 0 && b.im == 0 ? 1.0 : 0.0, 0.0};
  return s_exp(s_mul(b, s_log(a)));
}
inline c128_t s_atan2(c128_t a, c128_t b) {
  c128_t i_a = {b.re - a.im, b.im + a.re};
  c128_t l = s_log(s_div(i_a, s_sqrt(s_add(s_mul(a, a), s_mul(b, b)))));
  return {l.im, -l.re};
}
inline c128_t s_rem(c128_t a, c128_t b) {
  c128_t q = s_div(a, b);
  return s_sub(a, s_mul(b, c128_t{THALWEG_LIBM(trunc)(q.re), THALWEG_LIBM(trunc)(q.im)}));
}

#define THALWEG_COMPLEX_1(f) \
  inline c64_t f(c64_t a) { return s_convert<c64_t>(f(s_convert<c128_t>(a))); }
#define THALWEG_COMPLEX_2(f) \
  inline c64_t f(c64_t a, c64_t b) { return s_convert<c64_t>(f(s_convert<c128_t>(a), s_convert<c128_t>(b))); }
inline float s_abs(c64_t a) { return static_cast<float>(s_abs(s_convert<c128_t>(a))); }
THALWEG_COMPLEX_1(s_sign)
THALWEG_COMPLEX_1(s_exp)
THALWEG_COMPLEX_1(s_expm1)
THALWEG_COMPLEX_1(s_log)
THALWEG_COMPLEX_1(s_log1p)
THALWEG_COMPLEX_1(s_sqrt)
THALWEG_COMPLEX_1(s_rsqrt)
THALWEG_COMPLEX_1(s_sin)
THALWEG_COMPLEX_1(s_cos)
THALWEG_COMPLEX_1(s_tan)
THALWEG_COMPLEX_1(s_tanh)
THALWEG_COMPLEX_1(s_logistic)
THALWEG_COMPLEX_2(s_div)
THALWEG_COMPLEX_2(s_pow)
THALWEG_COMPLEX_2(s_atan2)
THALWEG_COMPLEX_2(s_rem)

// Random bits ---------------------------------------------------------------------------------------------------------

// Four 32-bit words of Philox4x32-10 for the counter {block, 0} under the key `seed`.
struct philox_block {
  unsigned x0, x1, x2, x3;
};
inline philox_block philox_round(philox_block x, unsigned k0, unsigned k1) {
  unsigned long p = 0xD2511F53ul * x.x0, q = 0xCD9E8D57ul * x.x2;
  return {static_cast<unsigned>(q >> 32) ^ x.x1 ^ k0, static_cast<unsigned>(q), static_cast<unsigned>(p >> 32) ^ x.x3 ^ k1, static_cast<unsigned>(p)};
}
template <int Rounds = 10>
inline philox_block philox_rounds(philox_block x, unsigned k0, unsigned k1) {
  if constexpr (Rounds == 0)
    return x;
  else
    return philox_rounds<Rounds - 1>(philox_round(x, k0, k1), k0 + 0x9E3779B9u, k1 + 0xBB67AE85u);
}
inline philox_block s_philox(unsigned long seed, unsigned long block) {
  return philox_rounds({static_cast<unsigned>(block), static_cast<unsigned>(block >> 32), 0, 0}, static_cast<unsigned>(seed),
                       static_cast<unsigned>(seed >> 32));
}
// Element i of rng_bit_generator's ui32 result from the state {seed, offset}. A loop over blocks that stores all four words does a quarter of the work.
inline unsigned s_philox_u32(unsigned long seed, unsigned long offset, unsigned long i) {
  philox_block b = s_philox(seed, offset + i / 4);
  unsigned low = i & 1 ? b.x1 : b.x0, high = i & 1 ? b.x3 : b.x2;
  return i & 2 ? high : low;
}

}  // namespace thalweg::scalar
