// custom_call targets and composites that come without a decomposition.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "interp/indexing.h"
#include "interp/machine.h"
#include "interp/scalar_functions.h"
#include "interp/special_functions.h"
#include "ir/float_formats.h"
#include "ir/op_forms.h"
#include "ir/scalar.h"

namespace thalweg::interp {
namespace {

using ir::Attributes;
using ir::DType;
using ir::Literal;

// A function of mathematics on every element, computed in long double and rounded once.
std::vector<Literal> mapped(const Call& call, RealFn function) {
  Literal out(call.type());
  for (int64_t i = 0; i < out.type.size(); ++i) {
    const auto value = static_cast<double>(function(to_double(call.in(0), i)));
    ir::store_double(out.type.dtype, element(out, i), value);
  }
  return one(std::move(out));
}

std::vector<Literal> mapped_2(const Call& call, RealFn2 function) {
  Literal out(call.type());
  for (int64_t i = 0; i < out.type.size(); ++i)
    ir::store_double(out.type.dtype, element(out, i), static_cast<double>(function(to_double(call.in(0), i), to_double(call.in(1), i))));
  return one(std::move(out));
}

std::vector<Literal> mapped_complex(const Call& call, ComplexFn function) {
  const DType part = real_dtype(call.type().dtype);
  Literal out(call.type());
  for (int64_t i = 0; i < out.type.size(); ++i) {
    const std::byte* at = element(call.in(0), i);
    const Complex value = function({ir::load_double(part, at), ir::load_double(part, at + byte_size(part))});
    ir::store_complex(out.type.dtype, element(out, i), static_cast<double>(value.real()), static_cast<double>(value.imag()));
  }
  return one(std::move(out));
}

// The neighbour of a in the direction of b, in the format of the dtype.
uint64_t neighbour(uint64_t a, double from, double to, int bits) {
  const uint64_t sign = uint64_t{1} << (bits - 1), magnitude = a & (sign - 1);
  if (from == to) return a;
  if (magnitude == 0) return to < 0 ? sign | 1 : 1;
  return (from < to) == ((a & sign) == 0) ? a + 1 : a - 1;
}

std::vector<Literal> next_after(const Call& call) {
  const DType dtype = call.type().dtype;
  const auto bytes = static_cast<size_t>(byte_size(dtype));
  Literal out(call.type());
  for (int64_t i = 0; i < out.type.size(); ++i) {
    const double from = to_double(call.in(0), i), to = to_double(call.in(1), i);
    uint64_t bits = 0;
    std::memcpy(&bits, element(call.in(0), i), bytes);
    if (std::isnan(from) || std::isnan(to))
      bits = ir::encode_float(dtype, std::nan(""));
    else if (from == to)
      std::memcpy(&bits, element(call.in(1), i), bytes);
    else
      bits = neighbour(bits, from, to, static_cast<int>(8 * bytes));
    std::memcpy(element(out, i), &bits, bytes);
  }
  return one(std::move(out));
}

// The k largest of each row along the last dimension, largest first, equal ones in order, and their positions. NaN is largest.
std::vector<Literal> top_k(const Call& call) {
  const Literal& in = call.in(0);
  const BinaryFn greater = compare_function(in.type.dtype, "GT", is_float(in.type.dtype) ? "TOTALORDER" : "");
  const int64_t length = in.type.dims.back(), k = call.type().dims.back();
  Literal values(call.type(0)), places(call.type(1));
  std::vector<int64_t> order(static_cast<size_t>(length));
  for (int64_t row = 0; length > 0 && row < in.type.size() / length; ++row) {
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      std::byte verdict;
      greater(element(in, row * length + a), element(in, row * length + b), &verdict);
      return verdict != std::byte{0};
    });
    for (int64_t i = 0; i < k; ++i) {
      copy_element(values, row * k + i, in, row * length + order[static_cast<size_t>(i)]);
      ir::store_int(places.type.dtype, element(places, row * k + i), order[static_cast<size_t>(i)]);
    }
  }
  std::vector<Literal> out = one(std::move(values));
  out.push_back(std::move(places));
  return out;
}

// A function of CHLO by name, or nothing.
std::optional<std::vector<Literal>> chlo(const Call& call, std::string_view name) {
  if (name == "top_k" || name == "topk") return top_k(call);
  if (name == "next_after") return next_after(call);
  if (call.operands.empty()) return std::nullopt;
  if (name == "square") {
    const BinaryFn multiply = binary_function(ir::OpCode::Multiply, call.type().dtype);
    Literal out(call.type());
    if (!multiply) return std::nullopt;
    for (int64_t i = 0; i < out.type.size(); ++i) multiply(element(call.in(0), i), element(call.in(0), i), element(out, i));
    return one(std::move(out));
  }
  if (const auto own = ir::parse_chlo("chlo." + std::string(name)); own && call.operands.size() == 1) {
    const UnaryFn function = unary_function(*own, call.type().dtype);
    Literal out(call.type());
    if (!function) return std::nullopt;
    for (int64_t i = 0; i < out.type.size(); ++i) function(element(call.in(0), i), element(out, i));
    return one(std::move(out));
  }
  if (is_complex(call.in(0).type.dtype)) {
    const ComplexFn function = complex_function(name);
    return function ? std::optional(mapped_complex(call, function)) : std::nullopt;
  }
  if (const RealFn function = real_function(name)) return mapped(call, function);
  if (const RealFn2 function = real_function_2(name)) return mapped_2(call, function);
  return std::nullopt;
}

// thalweg.check_index: every index in [low, high), else Error(Index). The result is true.
std::vector<Literal> check_index(const Call& call) {
  const Attributes& config = call.attrs().dict("backend_config");
  const int64_t low = config.integer("low"), high = config.integer("high");
  const Literal& in = call.in(0);
  for (int64_t i = 0; i < in.type.size(); ++i) {
    const int64_t v = to_int(in, i);
    THALWEG_CHECK(v >= low && v < high, Index, config.string("message", ""), "index ", v, " is out of range [", low, ", ", high, ")");
  }
  return call.op.results.empty() ? std::vector<Literal>{} : one(expand(*ir::make_splat_int(call.type(), 1)));
}

std::vector<Literal> check_finite(const Call& call) {
  for (int64_t i = 0; i < call.in(0).type.size(); ++i)
    THALWEG_CHECK(std::isfinite(to_double(call.in(0), i)), NotFinite, "value is not finite: ", to_double(call.in(0), i), " at element ", i);
  return call.op.results.empty() ? std::vector<Literal>{} : one(expand(*ir::make_splat_int(call.type(), 1)));
}

bool passes_through(const std::string& target) {
  for (const char* name : {"sdy.sharding_constraint", "Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement"})
    if (target == name) return true;
  return false;
}

}  // namespace

std::vector<Literal> custom_call(const Call& call) {
  const std::string& target = call.attrs().string("call_target_name");
  if (target == "thalweg.check_index") return check_index(call);
  if (target == "thalweg.check_finite") return check_finite(call);
  if (passes_through(target)) return one(call.in(0));
  for (std::string_view prefix : {"mhlo.", "chlo."})
    if (target.starts_with(prefix))
      if (auto results = chlo(call, std::string_view(target).substr(prefix.size()))) return std::move(*results);
  THALWEG_CHECK(call.machine.options().custom_call, Unsupported, "unknown custom_call target: ", target, "; give the interpreter a function for it");
  std::vector<Literal> operands;
  for (const ir::LiteralPtr& operand : call.operands) operands.push_back(*operand);
  return call.machine.options().custom_call(call.op, operands);
}

std::vector<Literal> composite(const Call& call) {
  const std::string& name = call.attrs().string("name");
  if (name.starts_with("chlo."))
    if (auto results = chlo(call, std::string_view(name).substr(5))) return std::move(*results);
  raise(ErrorKind::Unsupported, "composite has no decomposition: ", name, "; decompose it before it is run");
}

}  // namespace thalweg::interp
