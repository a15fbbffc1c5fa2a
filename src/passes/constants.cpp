// Reading constants.
#include "passes/constants.h"

#include <bit>
#include <cmath>
#include <utility>

namespace thalweg::passes {

const ir::Literal* constant_of(const ir::Value* value) {
  if (!value->def || value->def->code != ir::OpCode::Constant) return nullptr;
  return value->def->attrs.literal("value").get();
}

const ir::Literal* uniform_of(const ir::Value* value) {
  const ir::Literal* literal = constant_of(value);
  return literal && !literal->data.empty() && (literal->splat || literal->type.size() == 1) ? literal : nullptr;
}

std::optional<double> uniform_number(const ir::Value* value) {
  const ir::Literal* literal = uniform_of(value);
  if (!literal || ir::is_complex(literal->type.dtype)) return std::nullopt;
  if (ir::is_integer(literal->type.dtype)) {
    int64_t integer = ir::to_int(*literal, 0);
    if (integer > (int64_t{1} << 53) || integer < -(int64_t{1} << 53)) return std::nullopt;
    return static_cast<double>(integer);
  }
  return ir::to_double(*literal, 0);
}

ir::LiteralPtr splat_of(const ir::Type& type, const ir::Literal& element) {
  auto literal = std::make_shared<ir::Literal>();
  literal->type = type;
  literal->splat = true;
  literal->data.assign(element.data.begin(), element.data.begin() + ir::byte_size(type.dtype));
  return literal;
}

ir::LiteralPtr compact(ir::Literal literal) {
  const auto size = static_cast<size_t>(ir::byte_size(literal.type.dtype));
  const std::vector<std::byte>& data = literal.data;
  bool same = !literal.splat && data.size() > size;
  for (size_t i = size; same && i < data.size(); ++i) same = data[i] == data[i - size];
  if (same) literal.data.resize(size), literal.splat = true;
  return std::make_shared<const ir::Literal>(std::move(literal));
}

bool is_uniform(const ir::Value* value, double number) {
  auto found = uniform_number(value);
  return found && *found == number && (ir::is_integer(value->type.dtype) || std::signbit(*found) == std::signbit(number));
}

}  // namespace thalweg::passes
