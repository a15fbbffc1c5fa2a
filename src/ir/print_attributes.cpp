// Attributes and constants as text.
#include "ir/print_attributes.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>

#include "ir/dimension_numbers.h"
#include "ir/float_formats.h"

namespace thalweg::ir {
namespace {

constexpr char kDigits[] = "0123456789ABCDEF";
constexpr int64_t kLongestList = 100;

bool is_bare(std::string_view name) {
  if (name.empty() || !(std::isalpha(static_cast<unsigned char>(name[0])) || name[0] == '_')) return false;
  return std::all_of(name.begin(), name.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '$'; });
}

std::string hex_bits(uint64_t bits, int64_t bytes) {
  std::string out = "0x";
  for (int64_t shift = 8 * bytes - 4; shift >= 0; shift -= 4) out += kDigits[(bits >> shift) & 15];
  return out;
}

template <class T>
std::string shortest(T value) {
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  std::string out(buffer, end);
  if (out.find('.') == std::string::npos) {  // the text form wants a point
    const size_t exponent = out.find('e');
    out.insert(exponent == std::string::npos ? out.size() : exponent, ".0");
  }
  return out;
}

std::string element_text(const Literal& literal, int64_t i) {
  const DType dtype = literal.type.dtype;
  const std::byte* at = literal.data.data() + (literal.splat ? 0 : i) * byte_size(dtype);
  switch (dtype_class(dtype)) {
    case DTypeClass::Bool:
      return *at != std::byte{0} ? "true" : "false";
    case DTypeClass::Signed:
      return std::to_string(load_int(dtype, at));
    case DTypeClass::Unsigned:
      return std::to_string(static_cast<uint64_t>(load_int(dtype, at)));
    case DTypeClass::Float: {
      const double value = load_double(dtype, at);
      if (std::isfinite(value)) return float_text(dtype, value);
      uint64_t bits = 0;
      std::memcpy(&bits, at, static_cast<size_t>(byte_size(dtype)));
      return hex_bits(bits, byte_size(dtype));
    }
    case DTypeClass::Complex:
      break;
  }
  Literal parts(tensor(real_dtype(dtype), {2}));
  std::memcpy(parts.data.data(), at, parts.data.size());
  return "(" + element_text(parts, 0) + ", " + element_text(parts, 1) + ")";
}

// Nested lists of the elements from `next` on.
template <class Element>
void nested(std::string& out, const Dims& dims, size_t dim, int64_t& next, const Element& element) {
  if (dim == dims.size()) {
    out += element(next++);
    return;
  }
  out += '[';
  for (int64_t i = 0; i < dims[dim]; ++i) {
    if (i) out += ", ";
    nested(out, dims, dim + 1, next, element);
  }
  out += ']';
}

std::string hex_text(const Literal& literal) {
  std::string out = "\"0x";
  out.reserve(literal.data.size() * 2 + 4);
  for (std::byte b : literal.data) {
    out += kDigits[static_cast<int>(b) >> 4];
    out += kDigits[static_cast<int>(b) & 15];
  }
  return out + '"';
}

// Dims spelled as dense<…> : tensor<…>.
std::string dense_dims(const Dims& values, const std::string& type) {
  Dims shape;
  for (size_t at = 7; at < type.size();) {  // behind "tensor<"
    const size_t x = type.find('x', at);
    if (x == std::string::npos) break;
    shape.push_back(std::atoll(type.c_str() + at));
    at = x + 1;
  }
  if (values.empty()) return "dense<> : " + type;
  std::string out = "dense<";
  int64_t next = 0;
  nested(out, shape, 0, next, [&](int64_t i) { return std::to_string(values[static_cast<size_t>(i)]); });
  return out + "> : " + type;
}

std::string dims_text(const Dims& dims, const std::string& type) {
  if (type.starts_with("tensor<")) return dense_dims(dims, type);
  if (type == "list") return list_text(dims);
  std::string out = "array<" + (type.empty() ? std::string("i64") : type);
  for (size_t i = 0; i < dims.size(); ++i) out += (i ? ", " : ": ") + std::to_string(dims[i]);
  return out + ">";
}

// #stablehlo.name<key = value, …>: numbers and lists bare.
std::string struct_text(const Attributes& dict, const std::string& name) {
  if (name == "#stablehlo.conv") return name + "<" + convolution_text(dict) + ">";
  std::string out = name + "<";
  bool first = true;
  for (const auto& [key, value] : dict) {
    out += (first ? "" : ", ") + key + " = ";
    first = false;
    if (auto* number = std::get_if<int64_t>(&value.value))
      out += std::to_string(*number);
    else if (auto* dims = std::get_if<Dims>(&value.value))
      out += list_text(*dims);
    else
      out += print(value);
  }
  return out + ">";
}

// @outer::@inner; each part is quoted by itself.
std::string path_text(std::string_view path) {
  const size_t nested_at = path.find("::@");
  if (nested_at == std::string_view::npos) return symbol_text(path);
  return symbol_text(path.substr(0, nested_at)) + "::" + path_text(path.substr(nested_at + 3));
}

struct Printer {
  const std::string& type;
  std::string operator()(std::monostate) const { return "unit"; }
  std::string operator()(bool v) const { return v ? "true" : "false"; }
  std::string operator()(int64_t v) const { return std::to_string(v) + " : " + (type.empty() ? "i64" : type); }
  std::string operator()(double v) const {
    const DType dtype = type.empty() ? DType::F64 : parse_dtype(type).value_or(DType::F64);
    return float_text(dtype, v) + " : " + (type.empty() ? "f64" : type);
  }
  std::string operator()(const std::string& v) const { return quoted(v); }
  std::string operator()(const EnumWord& v) const { return "#stablehlo<" + v.kind + " " + v.word + ">"; }
  std::string operator()(const Symbol& v) const { return path_text(v.name); }
  std::string operator()(const OpaqueText& v) const { return v.text; }
  std::string operator()(const Dims& v) const { return dims_text(v, type); }
  std::string operator()(const std::vector<bool>& v) const {
    std::string out = "array<i1";
    for (size_t i = 0; i < v.size(); ++i) out += (i ? ", " : ": ") + std::string(v[i] ? "true" : "false");
    return out + ">";
  }
  std::string operator()(const LiteralPtr& v) const { return print(*v); }
  std::string operator()(const Type& v) const { return to_string(v); }
  std::string operator()(const std::shared_ptr<const AttributeList>& v) const {
    std::string out = "[";
    for (size_t i = 0; i < v->size(); ++i) out += (i ? ", " : "") + print((*v)[i]);
    return out + "]";
  }
  std::string operator()(const std::shared_ptr<const Attributes>& v) const {
    if (type.starts_with('#')) return struct_text(*v, type);
    const std::string text = dictionary_text(*v);
    return text.empty() ? "{}" : text;
  }
};

}  // namespace

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (u < 32 || u >= 127) {
      out += '\\';
      out += kDigits[u >> 4];
      out += kDigits[u & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string symbol_text(std::string_view name) { return "@" + (is_bare(name) ? std::string(name) : quoted(name)); }

std::string list_text(const Dims& dims) {
  std::string out = "[";
  for (size_t i = 0; i < dims.size(); ++i) out += (i ? ", " : "") + std::to_string(dims[i]);
  return out + "]";
}

std::string dictionary_text(const Attributes& attrs, const std::vector<std::string_view>& without) {
  std::string out;
  for (const auto& [name, value] : attrs) {
    if (std::find(without.begin(), without.end(), name) != without.end()) continue;
    out += (out.empty() ? "{" : ", ") + (is_bare(name) ? name : quoted(name));
    if (!std::holds_alternative<std::monostate>(value.value)) out += " = " + print(value);
  }
  return out.empty() ? out : out + "}";
}

std::string convolution_text(const Attributes& numbers) {
  Attributes attrs;
  attrs.set("dimension_numbers", std::make_shared<const Attributes>(numbers));
  const ConvDims d = conv_dims(attrs);
  const auto layout = [](const char* first, int64_t first_at, const char* second, int64_t second_at, const Dims& spatial) {
    std::string out = "[";
    for (int64_t at = 0; at < static_cast<int64_t>(spatial.size()) + 2; ++at) {
      if (at) out += ", ";
      const auto found = std::find(spatial.begin(), spatial.end(), at);
      out += at == first_at ? first : at == second_at ? second : std::to_string(found - spatial.begin());
    }
    return out + "]";
  };
  return layout("b", d.input_batch, "f", d.input_feature, d.input_spatial) + "x" + layout("o", d.kernel_output, "i", d.kernel_input, d.kernel_spatial) + "->" +
         layout("b", d.output_batch, "f", d.output_feature, d.output_spatial);
}

std::string float_text(DType dtype, double value) {
  if (!std::isfinite(value)) return hex_bits(encode_float(dtype, value), byte_size(dtype));
  return dtype == DType::F64 ? shortest(value) : shortest(static_cast<float>(value));
}

std::string print(const Attribute& attribute) { return std::visit(Printer{attribute.type}, attribute.value); }

std::string print(const Literal& literal) {
  const std::string type = " : " + to_string(literal.type);
  if (literal.type.size() == 0) return "dense<>" + type;
  if (literal.splat) return "dense<" + element_text(literal, 0) + ">" + type;
  if (literal.type.size() > kLongestList && literal.type.dtype != DType::I1) return "dense<" + hex_text(literal) + ">" + type;
  std::string out = "dense<";
  int64_t next = 0;
  nested(out, literal.type.dims, 0, next, [&](int64_t i) { return element_text(literal, i); });
  return out + ">" + type;
}

}  // namespace thalweg::ir
