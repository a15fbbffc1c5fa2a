// The comparisons.
#include "tools_cli/verdict.h"

#include <cmath>
#include <limits>
#include <sstream>

#include "support/error.h"

namespace thalweg::tools_cli {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The position of a float among all of its format, so that neighbours are one apart and both zeros are 0.
__int128 position(ir::DType dtype, const std::byte* at) {
  uint64_t bits = 0;
  const auto bytes = static_cast<size_t>(byte_size(dtype));
  std::memcpy(&bits, at, bytes);
  const uint64_t sign = uint64_t{1} << (8 * bytes - 1);
  return bits & sign ? -static_cast<__int128>(bits ^ sign) : static_cast<__int128>(bits);
}

double ulp_distance(ir::DType dtype, const std::byte* a, const std::byte* b, double x, double y) {
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y) ? 0 : kInfinity;
  if (std::isinf(x) || std::isinf(y)) return x == y ? 0 : kInfinity;
  const __int128 distance = position(dtype, a) - position(dtype, b);
  return static_cast<double>(distance < 0 ? -distance : distance);
}

class Judge {
 public:
  Judge(Rule rule, double limit) : rule_(rule), limit_(limit) {}

  void element(ir::DType dtype, const std::byte* got, const std::byte* expected, int64_t i) {
    ++verdict_.total;
    bool good;
    const double x = ir::load_double(dtype, got), y = ir::load_double(dtype, expected);
    if (!ir::is_float(dtype)) {
      good = ir::load_int(dtype, got) == ir::load_int(dtype, expected);
      if (rule_ == Rule::Tolerance || rule_ == Rule::AlmostEqual) good = good || std::fabs(x - y) <= limit_;
    } else {
      const double ulp = ulp_distance(dtype, got, expected, x, y), apart = x == y || (std::isnan(x) && std::isnan(y)) ? 0 : std::fabs(x - y);
      verdict_.ulp = std::max(verdict_.ulp, ulp);
      if (!std::isnan(apart)) verdict_.absolute = std::max(verdict_.absolute, apart);
      good = rule_ == Rule::Equal         ? x == y
             : rule_ == Rule::Close       ? ulp <= limit_
             : rule_ == Rule::AlmostEqual ? apart <= limit_
                                          : apart <= limit_ * (1 + std::fabs(y));
    }
    if (good) return;
    if (verdict_.wrong++ == 0) {
      std::ostringstream text;
      text.precision(17);
      text << "at " << i << ": got " << x << ", expected " << y;
      verdict_.first = text.str();
    }
    verdict_.good = false;
  }

  Verdict take() { return verdict_; }

 private:
  Rule rule_;
  double limit_;
  Verdict verdict_;
};

}  // namespace

Verdict judge(const ir::Literal& got, const ir::Literal& expected, Rule rule, double limit) {
  if (got.type != expected.type) {
    Verdict verdict;
    verdict.good = false;
    verdict.wrong = verdict.total = 1;
    verdict.first = "got type " + to_string(got.type) + ", expected " + to_string(expected.type);
    return verdict;
  }
  Judge judge(rule, limit);
  const ir::DType dtype = got.type.dtype, part = real_dtype(dtype);
  const int64_t parts = is_complex(dtype) ? 2 : 1, bytes = byte_size(part);
  for (int64_t i = 0; i < got.type.size() * parts; ++i)
    judge.element(part, got.data.data() + (got.splat ? i % parts : i) * bytes, expected.data.data() + (expected.splat ? i % parts : i) * bytes, i / parts);
  return judge.take();
}

}  // namespace thalweg::tools_cli
