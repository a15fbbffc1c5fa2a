// Attributes and types as text.
#include <charconv>

#include "ir/float_formats.h"
#include "ir/parser_state.h"

namespace thalweg::ir {
namespace {

bool is_integer_type(std::string_view text) {
  const size_t digits = text.starts_with("ui") || text.starts_with("si") ? 2 : 1;
  if (text == "index") return true;
  if (text.size() <= digits || (text[0] != 'i' && digits == 1)) return false;
  return text.find_first_not_of("0123456789", digits) == std::string_view::npos;
}

bool is_scalar_type(std::string_view text) { return is_integer_type(text) || text == "none" || text == "tf32" || parse_dtype(text).has_value(); }

int hex_value(char c) { return c <= '9' ? c - '0' : (c | 32) - 'a' + 10; }

bool is_hex(char c) { return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'f'); }

}  // namespace

// A number without a type.
int64_t Parser::integer() { return integer_of(lexer_.expect(TokenKind::Integer, "an integer")); }

int64_t Parser::integer_of(const Token& token) {
  std::string_view text = token.text;
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  const bool hex = text.starts_with("0x");
  if (hex) text.remove_prefix(2);
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, hex ? 16 : 10);
  if (error != std::errc() || end != text.data() + text.size()) lexer_.fail(token.begin, "not an integer of 64 bits: " + std::string(token.text.substr(0, 40)));
  return static_cast<int64_t>(negative ? 0 - value : value);
}

std::string Parser::unescaped(const Token& token) {
  std::string out;
  const std::string_view text = token.text;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 >= text.size()) {
      out += text[i];
      continue;
    }
    const char c = text[++i];
    if (c == 'n') {
      out += '\n';
    } else if (c == 't') {
      out += '\t';
    } else if (is_hex(c) && i + 1 < text.size() && is_hex(text[i + 1])) {
      out += static_cast<char>(hex_value(c) * 16 + hex_value(text[++i]));
    } else {
      out += c;
    }
  }
  return out;
}

Attribute Parser::raw(size_t begin, size_t end) {
  std::string_view text = lexer_.text().substr(begin, end - begin);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\n' || text.back() == '\r' || text.back() == '\t')) text.remove_suffix(1);
  return OpaqueText{std::string(text)};
}

Attribute Parser::attribute() {
  Depth depth(*this);
  return attribute_value();
}

Attribute Parser::attribute_value() {
  const Token token = lexer_.peek();
  switch (token.kind) {
    case TokenKind::Integer:
    case TokenKind::Float:
      return number();
    case TokenKind::String:
      return unescaped(lexer_.take());
    case TokenKind::Hash:
      return hash_attribute();
    case TokenKind::Bang:
      return Attribute(type());
    case TokenKind::Symbol: {
      std::string name = unescaped(lexer_.take());
      while (lexer_.peek().is(':') && lexer_.text().substr(lexer_.peek().begin, 3) == "::@") {  // @a::@b
        lexer_.expect(':');
        lexer_.expect(':');
        name += "::@" + unescaped(lexer_.expect(TokenKind::Symbol, "a name"));
      }
      return Symbol{name};
    }
    case TokenKind::Punct:
      if (token.is('[')) return list_attribute();
      if (token.is('{')) {
        lexer_.take();
        return dictionary('}', false);
      }
      if (token.is('(')) {  // a function type
        lexer_.take_balanced();
        lexer_.expect_arrow();
        if (lexer_.peek().is('('))
          lexer_.take_balanced();
        else
          type();
        return raw(token.begin, lexer_.taken_end());
      }
      break;
    default:
      break;
  }
  if (token.kind != TokenKind::Word) lexer_.fail_expected("an attribute");
  if (token.text == "true" || token.text == "false") return lexer_.take().text == "true";
  if (token.text == "unit") {
    lexer_.take();
    return {};
  }
  if (token.text == "dense") return dense_attribute();
  if (token.text == "array") return dense_array();
  if (token.text == "tensor" || token.text == "tuple" || token.text == "complex") return Attribute(type());
  lexer_.take();
  if (token.text == "loc" || token.text == "dense_resource" || token.text == "affine_map" || token.text == "sparse" || token.text == "vector" ||
      token.text == "memref") {
    lexer_.take_balanced();
    if (lexer_.accept(':')) type();
    return raw(token.begin, lexer_.taken_end());
  }
  if (is_scalar_type(token.text)) return OpaqueText{std::string(token.text)};
  lexer_.fail(token.begin, "unknown attribute: " + std::string(token.text.substr(0, 40)) + ", expected a number, string, list, type or #dialect attribute");
}

// 5 : i64, 0x7F800000 : f32, 1.5
Attribute Parser::number() {
  const Token token = lexer_.take();
  std::string type_text;
  if (lexer_.accept(':')) type_text = lexer_.expect(TokenKind::Word, "a number's type").text;
  const auto dtype = parse_dtype(type_text);
  const bool real = token.kind == TokenKind::Float || (dtype && is_float(*dtype));
  if (!real) {
    if (!type_text.empty() && !is_integer_type(type_text))
      lexer_.fail(token.begin, "not a number's type: " + type_text + ", expected an integer or float type");
    return Attribute(integer_of(token), type_text == "i64" ? std::string() : type_text);
  }
  if (!type_text.empty() && (!dtype || !is_float(*dtype))) lexer_.fail(token.begin, "not a float type: " + type_text + ", expected one such as f32");
  double value = 0;
  if (token.kind == TokenKind::Integer) {  // the bit pattern
    const int64_t bits = integer_of(token);
    value = token.text.starts_with("0x") ? load_double(*dtype, reinterpret_cast<const std::byte*>(&bits)) : static_cast<double>(bits);
  } else {
    const auto [end, error] = std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
    if (error == std::errc::result_out_of_range) value = std::strtod(std::string(token.text).c_str(), nullptr);
  }
  if (dtype) value = decode_float(*dtype, encode_float(*dtype, value));  // what the type holds of it
  return Attribute(value, type_text == "f64" ? std::string() : type_text);
}

// #alias, #stablehlo<kind WORD>, #stablehlo.name<key = value, …> or any other dialect's, kept as text.
Attribute Parser::hash_attribute() {
  const Token token = lexer_.take();
  if (!lexer_.peek().is('<')) {
    const auto found = attribute_aliases_.find(token.text);
    if (found != attribute_aliases_.end()) return found->second;
    return OpaqueText{"#" + std::string(token.text)};  // defined further down, or without parameters
  }
  const size_t open = lexer_.peek().begin;
  if (token.text == "stablehlo") {
    lexer_.take();
    const Token kind = lexer_.expect(TokenKind::Word, "an enumeration's name");
    if (lexer_.peek().kind == TokenKind::Word) {
      EnumWord word{std::string(kind.text), std::string(lexer_.take().text)};
      lexer_.expect('>');
      return word;
    }
    lexer_.seek(open);
  } else if (token.text == "stablehlo.conv" || token.text == "stablehlo.gather" || token.text == "stablehlo.scatter" || token.text == "stablehlo.dot" ||
             token.text == "stablehlo.channel_handle") {
    return stablehlo_struct(token.text);
  }
  lexer_.take_balanced();
  return raw(token.begin, lexer_.taken_end());
}

Attribute Parser::stablehlo_struct(std::string_view name) {
  lexer_.expect('<');
  std::shared_ptr<const Attributes> dict;
  if (name == "stablehlo.conv" && lexer_.peek().is('[')) {
    dict = convolution_numbers();
    lexer_.expect('>');
  } else {
    dict = dictionary('>', true);
  }
  return Attribute(dict, "#" + std::string(name));
}

std::string Parser::attribute_name() {
  const Token token = lexer_.peek();
  if (token.kind == TokenKind::String) return unescaped(lexer_.take());
  return std::string(lexer_.expect(TokenKind::Word, "an attribute's name").text);
}

Attributes Parser::attribute_dictionary() {
  Depth depth(*this);
  lexer_.expect('{');
  return *dictionary('}', false);
}

// Entries `name`, `name = value` up to `close`. `plain_lists`: [1, 2] is the attribute's own spelling, not a list attribute.
std::shared_ptr<const Attributes> Parser::dictionary(char close, bool plain_lists) {
  auto dict = std::make_shared<Attributes>();
  for (bool first = true; !lexer_.accept(close); first = false) {
    if (!first) {
      lexer_.expect(',');
      if (lexer_.accept(close)) break;
    }
    const size_t at = lexer_.peek().begin;
    std::string name = attribute_name();
    if (dict->has(name)) lexer_.fail(at, "attribute is given twice, expected each once: " + name);
    Attribute value;
    if (lexer_.accept('=')) value = attribute();
    if (plain_lists && std::holds_alternative<Dims>(value.value)) value.type.clear();
    dict->set(std::move(name), std::move(value));
  }
  return dict;
}

// array<i64: 1, 2>, array<i1: true>
Attribute Parser::dense_array() {
  lexer_.expect_word("array");
  lexer_.expect('<');
  const std::string type_text(lexer_.expect(TokenKind::Word, "an element type").text);
  if (type_text == "i1") {
    std::vector<bool> flags;
    if (lexer_.accept(':')) {
      do {
        flags.push_back(lexer_.expect(TokenKind::Word, "'true' or 'false'").text == "true");
      } while (lexer_.accept(','));
    }
    lexer_.expect('>');
    return flags;
  }
  if (!is_integer_type(type_text)) lexer_.fail_expected("an array of integers");
  Dims values;
  if (lexer_.accept(':')) {
    do {
      values.push_back(integer());
    } while (lexer_.accept(','));
  }
  lexer_.expect('>');
  return Attribute(values, type_text == "i64" ? std::string() : type_text);
}

// [a, b]; a list of plain integers becomes Dims marked "list".
Attribute Parser::list_attribute() {
  auto list = std::make_shared<AttributeList>();
  lexer_.expect('[');
  bool integers = true;
  while (!lexer_.accept(']')) {
    if (!list->empty()) lexer_.expect(',');
    list->push_back(attribute());
    integers = integers && std::holds_alternative<int64_t>(list->back().value) && list->back().type.empty();
  }
  if (!integers) return std::shared_ptr<const AttributeList>(list);
  Dims values;
  for (const Attribute& item : *list) values.push_back(std::get<int64_t>(item.value));
  return Attribute(values, "list");
}

Type Parser::type() {
  Depth depth(*this);
  const Token token = lexer_.peek();
  if (token.is_word("tensor")) return tensor_type();
  if (token.is_word("tuple")) {
    Type tuple;
    tuple.kind = Type::Kind::Tuple;
    lexer_.take();
    lexer_.expect('<');
    while (!lexer_.accept('>')) {
      if (!tuple.elements.empty()) lexer_.expect(',');
      tuple.elements.push_back(type());
    }
    return tuple;
  }
  if (token.kind == TokenKind::Bang) {
    if (token.text == "stablehlo.token" || token.text == "mhlo.token") {
      lexer_.take();
      return token.text == "stablehlo.token" ? thalweg::ir::token() : thalweg::ir::token();
    }
    const auto found = type_aliases_.find(token.text);
    if (found != type_aliases_.end()) {
      lexer_.take();
      return found->second;
    }
    return opaque_type();
  }
  if (token.is_word("memref") || token.is_word("vector") || (token.kind == TokenKind::Word && is_scalar_type(token.text))) return opaque_type();
  lexer_.fail_expected("a type");
}

// A type that is only carried: a word and its bracketed parameters.
Type Parser::opaque_type() {
  const size_t begin = lexer_.take().begin;
  if (lexer_.peek().is('<')) lexer_.take_balanced();
  Type type;
  type.kind = Type::Kind::Opaque;
  type.text = std::get<OpaqueText>(raw(begin, lexer_.taken_end()).value).text;
  return type;
}

// tensor<2x?xf32, encoding>: dimensions are read from the text itself, since `2x3xf32` is no token.
Type Parser::tensor_type() {
  Type type;
  lexer_.expect_word("tensor");
  if (!lexer_.peek().is('<')) lexer_.fail_expected("'<'");
  const std::string_view text = lexer_.text();
  size_t at = lexer_.peek().begin + 1;
  const auto blanks = [&] {
    while (at < text.size() && (text[at] == ' ' || text[at] == '\n')) ++at;
  };
  int64_t count = 1;
  for (blanks(); at < text.size() && (text[at] == '?' || (text[at] >= '0' && text[at] <= '9')); blanks()) {
    const size_t begin = at;
    if (text[at] == '?') {
      type.dims.push_back(kDynamic);
      ++at;
    } else {
      int64_t size = 0;
      const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), size);
      if (error != std::errc() || (size != 0 && __builtin_mul_overflow(count, size, &count)))
        lexer_.fail(begin, "tensor has more elements than can be counted, expected fewer than 2^63");
      type.dims.push_back(size);
      at = static_cast<size_t>(end - text.data());
    }
    blanks();
    if (at >= text.size() || text[at] != 'x') lexer_.fail(at, "malformed dimensions, expected 'x' after a size");
    ++at;
  }
  int64_t bytes;
  if (__builtin_mul_overflow(count, int64_t{16}, &bytes)) lexer_.fail(at, "tensor has more elements than can be counted, expected fewer than 2^59");
  if (type.rank() > 64) lexer_.fail(at, "tensor has " + std::to_string(type.rank()) + " dimensions, expected at most 64");
  lexer_.seek(at);
  if (lexer_.peek().kind == TokenKind::Bang) {  // a quantized element type
    const size_t begin = lexer_.take().begin;
    lexer_.take_balanced();
    type.text = std::get<OpaqueText>(raw(begin, lexer_.taken_end()).value).text;
  } else {
    type.dtype = element_type();
  }
  if (lexer_.accept(',')) {
    const size_t begin = lexer_.peek().begin;
    attribute();
    const std::string encoding = std::get<OpaqueText>(raw(begin, lexer_.taken_end()).value).text;
    type.text = type.text.empty() ? encoding : type.text + ", " + encoding;
  }
  lexer_.expect('>');
  return type;
}

DType Parser::complex_type() {
  lexer_.expect_word("complex");
  lexer_.expect('<');
  const Token part = lexer_.expect(TokenKind::Word, "f32 or f64");
  if (part.text != "f32" && part.text != "f64") lexer_.fail(part.begin, "not a complex number's part: " + std::string(part.text) + ", expected f32 or f64");
  lexer_.expect('>');
  return part.text == "f32" ? DType::C64 : DType::C128;
}

DType Parser::element_type() {
  if (lexer_.peek().is_word("complex")) return complex_type();
  const Token token = lexer_.expect(TokenKind::Word, "an element type");
  const auto dtype = parse_dtype(token.text.starts_with("si") ? token.text.substr(1) : token.text);
  if (!dtype)
    lexer_.fail(token.begin, "unknown element type: " + std::string(token.text.substr(0, 40)) + ", expected one such as f32, bf16, i32, ui8 or complex<f32>");
  return *dtype;
}

}  // namespace thalweg::ir
