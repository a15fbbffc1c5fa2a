// From dtypes to the scalar types that the expressions of ops.def compute in.
#pragma once

#include <cstring>

#include "ir/dtype.h"
#include "ir/float_formats.h"
#include "ir/literal.h"
#include "ir/scalar.h"

namespace thalweg::interp {

// How one dtype lies in memory and computes. Compute is the scalar type; load and store go between.
template <class T>
struct Plain {
  using Compute = T;
  static T load(const std::byte* from) {
    T v;
    std::memcpy(&v, from, sizeof v);
    return v;
  }
  static void store(T v, std::byte* to) { std::memcpy(to, &v, sizeof v); }
};

// 8-bit and narrower floats compute in float and round once.
template <ir::DType D>
struct Narrow {
  using Compute = float;
  static float load(const std::byte* from) { return static_cast<float>(ir::load_double(D, from)); }
  static void store(float v, std::byte* to) { ir::store_double(D, to, v); }
};

// 2- and 4-bit integers compute in 8 bits and wrap.
template <class T, ir::DType D>
struct SubByte {
  using Compute = T;
  static T load(const std::byte* from) { return static_cast<T>(*from); }
  static void store(T v, std::byte* to) { ir::store_int(D, to, v); }
};

// Calls visit.template operator()<Access>() for the dtype's access class.
template <class Visit>
auto visit_dtype(ir::DType dtype, const Visit& visit) {
  using ir::DType;
  using namespace scalar;
  switch (dtype) {
    case DType::I1:
      return visit.template operator()<Plain<bool>>();
    case DType::S2:
      return visit.template operator()<SubByte<signed char, DType::S2>>();
    case DType::S4:
      return visit.template operator()<SubByte<signed char, DType::S4>>();
    case DType::S8:
      return visit.template operator()<Plain<signed char>>();
    case DType::S16:
      return visit.template operator()<Plain<short>>();
    case DType::S32:
      return visit.template operator()<Plain<int>>();
    case DType::S64:
      return visit.template operator()<Plain<long>>();
    case DType::U2:
      return visit.template operator()<SubByte<unsigned char, DType::U2>>();
    case DType::U4:
      return visit.template operator()<SubByte<unsigned char, DType::U4>>();
    case DType::U8:
      return visit.template operator()<Plain<unsigned char>>();
    case DType::U16:
      return visit.template operator()<Plain<unsigned short>>();
    case DType::U32:
      return visit.template operator()<Plain<unsigned>>();
    case DType::U64:
      return visit.template operator()<Plain<unsigned long>>();
    case DType::F4E2M1FN:
      return visit.template operator()<Narrow<DType::F4E2M1FN>>();
    case DType::F6E2M3FN:
      return visit.template operator()<Narrow<DType::F6E2M3FN>>();
    case DType::F6E3M2FN:
      return visit.template operator()<Narrow<DType::F6E3M2FN>>();
    case DType::F8E3M4:
      return visit.template operator()<Narrow<DType::F8E3M4>>();
    case DType::F8E4M3:
      return visit.template operator()<Narrow<DType::F8E4M3>>();
    case DType::F8E4M3FN:
      return visit.template operator()<Narrow<DType::F8E4M3FN>>();
    case DType::F8E4M3FNUZ:
      return visit.template operator()<Narrow<DType::F8E4M3FNUZ>>();
    case DType::F8E4M3B11FNUZ:
      return visit.template operator()<Narrow<DType::F8E4M3B11FNUZ>>();
    case DType::F8E5M2:
      return visit.template operator()<Narrow<DType::F8E5M2>>();
    case DType::F8E5M2FNUZ:
      return visit.template operator()<Narrow<DType::F8E5M2FNUZ>>();
    case DType::F8E8M0FNU:
      return visit.template operator()<Narrow<DType::F8E8M0FNU>>();
    case DType::BF16:
      return visit.template operator()<Plain<bf16_t>>();
    case DType::F16:
      return visit.template operator()<Plain<f16_t>>();
    case DType::F32:
      return visit.template operator()<Plain<float>>();
    case DType::F64:
      return visit.template operator()<Plain<double>>();
    case DType::C64:
      return visit.template operator()<Plain<c64_t>>();
    case DType::C128:
      return visit.template operator()<Plain<c128_t>>();
  }
  return visit.template operator()<Plain<float>>();
}

}  // namespace thalweg::interp
