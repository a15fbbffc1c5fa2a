// Types as text.
#include "ir/type.h"

namespace thalweg::ir {
namespace {

std::string tensor_text(const Type& type) {
  std::string out = "tensor<";
  for (int64_t d : type.dims) {
    out += d == kDynamic ? std::string("?") : std::to_string(d);
    out += 'x';
  }
  // `text` is either a quantized element type ("!quant…") or an encoding that follows the element type.
  if (type.text.starts_with('!')) return out + type.text + '>';
  out += name(type.dtype);
  if (!type.text.empty()) out += ", " + type.text;
  return out + '>';
}

}  // namespace

std::string to_string(const Type& type) {
  switch (type.kind) {
    case Type::Kind::Tensor:
      return tensor_text(type);
    case Type::Kind::Token:
      return "!stablehlo.token";
    case Type::Kind::Opaque:
      return type.text;
    case Type::Kind::Tuple:
      break;
  }
  std::string out = "tuple<";
  for (size_t i = 0; i < type.elements.size(); ++i) out += (i ? ", " : "") + to_string(type.elements[i]);
  return out + '>';
}

}  // namespace thalweg::ir
