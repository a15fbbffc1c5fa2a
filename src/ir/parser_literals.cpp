// dense<…> : tensor<…>: hexadecimal bytes, splats and nested lists, decoded straight into the literal.
#include <array>
#include <charconv>
#include <cstring>

#include "ir/parser_state.h"

namespace thalweg::ir {
namespace {

constexpr std::array<int8_t, 256> make_hex_table() {
  std::array<int8_t, 256> table{};
  for (auto& v : table) v = -1;
  for (size_t i = 0; i < 10; ++i) table['0' + i] = static_cast<int8_t>(i);
  for (size_t i = 0; i < 6; ++i) table['a' + i] = table['A' + i] = static_cast<int8_t>(10 + i);
  return table;
}
constexpr auto kHex = make_hex_table();

// Reads one dense<…> body; `fail` gets a position inside it.
class DenseReader {
 public:
  DenseReader(const Lexer& lexer, size_t begin, size_t end, const Type& type)
      : lexer_(lexer), text_(lexer.text()), at_(begin), end_(end), type_(type), size_(type.size()), step_(static_cast<size_t>(byte_size(type.dtype))) {}

  std::shared_ptr<Literal> read() {
    literal_ = std::make_shared<Literal>();
    literal_->type = type_;
    skip();
    if (at_ == end_) {
      if (size_ != 0) fail("dense<> holds no elements, expected " + std::to_string(size_));
    } else if (text_[at_] == '"') {
      hex();
      if (size_ == 0) literal_->splat = false, literal_->data.clear();
    } else if (text_[at_] == '[') {
      list();
      finish(true);
    } else {
      element();
      literal_->splat = true;
      finish(false);
      if (size_ == 0) literal_->splat = false, literal_->data.clear();
    }
    return literal_;
  }

 private:
  [[noreturn]] void fail(const std::string& message) const { lexer_.fail(at_, message); }

  void skip() {
    while (at_ < end_ && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r')) ++at_;
  }

  char peek() {
    skip();
    return at_ < end_ ? text_[at_] : '\0';
  }

  void finish(bool counted) {
    skip();
    if (at_ != end_) fail("more text than one constant, expected '>'");
    if (counted && literal_->data.size() != static_cast<size_t>(size_) * step_)
      fail("constant has " + std::to_string(literal_->data.size() / step_) + " elements, expected " + std::to_string(size_));
  }

  // Nested lists: brackets must fit the shape. Iterative, so depth is bounded by the rank.
  void list() {
    Dims counts;  // elements so far in each open list
    const size_t rank = type_.dims.size();
    literal_->data.reserve(std::min(static_cast<size_t>(size_) * step_, (end_ - at_) * 16));
    while (true) {
      const char c = peek();
      if (c == '[') {
        if (counts.size() >= rank) fail("list is nested deeper than the tensor, expected " + std::to_string(rank) + " levels");
        counts.push_back(0);
        ++at_;
        if (peek() != ']') continue;
      } else if (c != ']') {
        if (counts.size() != rank) fail("element stands where a list should, expected " + std::to_string(rank) + " levels");
        if (literal_->data.size() >= static_cast<size_t>(size_) * step_) fail("constant has too many elements, expected " + std::to_string(size_));
        element();
        ++counts.back();
      }
      if (!close(counts)) return;
    }
  }

  // After an element or a bracket: a comma goes on, closing brackets end their lists. False when the outermost has ended.
  bool close(Dims& counts) {
    while (peek() == ']') {
      const int64_t expected = type_.dims[counts.size() - 1];
      if (counts.back() != expected) fail("list has " + std::to_string(counts.back()) + " entries, expected " + std::to_string(expected));
      counts.pop_back();
      ++at_;
      if (counts.empty()) return false;
      ++counts.back();
    }
    if (peek() != ',') fail("malformed list, expected ',' or ']'");
    ++at_;
    if (peek() == ']') fail("malformed list, expected an element after ','");
    return true;
  }

  void element() {
    const size_t offset = literal_->data.size();
    literal_->data.resize(offset + step_);
    std::byte* to = literal_->data.data() + offset;
    if (!is_complex(type_.dtype)) return scalar(type_.dtype, to);
    const DType part = real_dtype(type_.dtype);
    if (peek() != '(') fail("malformed complex number, expected '(real, imaginary)'");
    ++at_;
    scalar(part, to);
    if (peek() != ',') fail("malformed complex number, expected ','");
    ++at_;
    scalar(part, to + byte_size(part));
    if (peek() != ')') fail("malformed complex number, expected ')'");
    ++at_;
  }

  void scalar(DType dtype, std::byte* to) {
    const char c = peek();
    const std::string_view rest = text_.substr(at_, end_ - at_);
    if (dtype == DType::I1) {
      if (rest.starts_with("true") || rest.starts_with("false")) {
        *to = std::byte(c == 't');
        at_ += c == 't' ? 4 : 5;
        return;
      }
    }
    if (rest.starts_with("0x")) return bit_pattern(dtype, to);
    if (is_float(dtype)) {
      double value = 0;
      const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
      if (error == std::errc::result_out_of_range) value = std::strtod(std::string(rest.data(), end).c_str(), nullptr);
      if (error == std::errc::invalid_argument || rest[rest[0] == '-'] > '9') fail("malformed element, expected a number");
      at_ += static_cast<size_t>(end - rest.data());
      store_double(dtype, to, value);
      return;
    }
    integer(dtype, rest, to);
  }

  void integer(DType dtype, std::string_view rest, std::byte* to) {
    int64_t value = 0;
    auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (error == std::errc::result_out_of_range && dtype_class(dtype) == DTypeClass::Unsigned) {
      uint64_t large = 0;
      auto again = std::from_chars(rest.data(), rest.data() + rest.size(), large);
      error = again.ec;
      value = static_cast<int64_t>(large);
    }
    if (error == std::errc::result_out_of_range) fail("integer does not fit, expected one of type " + std::string(name(dtype)));
    if (error != std::errc()) fail("malformed element, expected an integer");
    store_int(dtype, to, value);
    const bool fits = load_int(dtype, to) == value || (dtype == DType::I1 && (value == 0 || value == 1));
    if (!fits && !(dtype_class(dtype) == DTypeClass::Unsigned && value < 0)) fail("integer does not fit, expected one of type " + std::string(name(dtype)));
    at_ += static_cast<size_t>(end - rest.data());
  }

  // 0x7FC0: the bits of a float, or an integer.
  void bit_pattern(DType dtype, std::byte* to) {
    uint64_t bits = 0;
    const char* first = text_.data() + at_ + 2;
    const auto [end, error] = std::from_chars(first, text_.data() + end_, bits, 16);
    if (error != std::errc()) fail("malformed element, expected hexadecimal digits of at most 64 bits");
    const auto bytes = static_cast<size_t>(byte_size(dtype));
    if (bytes < 8 && bits >> (8 * bytes)) fail("bit pattern does not fit, expected one of type " + std::string(name(dtype)));
    std::memcpy(to, &bits, bytes);
    at_ += 2 + static_cast<size_t>(end - first);
  }

  // "0x…": raw little-endian bytes of every element or of one that stands for all; i1 also as packed bits.
  void hex() {
    const std::string_view body = text_.substr(at_, end_ - at_);
    if (body.size() < 4 || body.substr(1, 2) != "0x" || body.back() != '"') fail("malformed constant, expected \"0x…\"");
    const std::string_view digits = body.substr(3, body.size() - 4);
    if (digits.size() % 2) fail("odd number of hexadecimal digits, expected two a byte");
    const size_t bytes = digits.size() / 2, whole = static_cast<size_t>(size_) * step_, packed = static_cast<size_t>(size_ + 7) / 8;
    const bool bits = type_.dtype == DType::I1 && bytes != whole && bytes == packed;
    if (bytes != whole && bytes != step_ && !bits)
      fail("constant has " + std::to_string(bytes) + " bytes, expected " + std::to_string(whole) + " or " + std::to_string(step_));
    std::vector<std::byte> data(bytes);
    for (size_t i = 0; i < bytes; ++i) {
      const int value = kHex[static_cast<unsigned char>(digits[2 * i])] * 16 | kHex[static_cast<unsigned char>(digits[2 * i + 1])];
      if (value < 0) {
        at_ += 3 + 2 * i;
        fail("not a hexadecimal digit");
      }
      data[i] = static_cast<std::byte>(value);
    }
    at_ = end_;
    // One byte for two to eight booleans: all or none is a splat in either reading.
    if (bits && !(bytes == 1 && (data[0] == std::byte{0xFF} || data[0] == std::byte{0})))
      unpack(data);
    else
      keep(std::move(data), bytes != whole);
  }

  void unpack(const std::vector<std::byte>& packed) {
    literal_->data.resize(static_cast<size_t>(size_));
    for (size_t i = 0; i < literal_->data.size(); ++i) literal_->data[i] = (packed[i / 8] >> (i % 8)) & std::byte{1};
  }

  void keep(std::vector<std::byte> data, bool splat) {
    if (type_.dtype == DType::I1)
      for (auto& b : data) b = std::byte(b != std::byte{0});
    literal_->data = std::move(data);
    literal_->splat = splat;
  }

  const Lexer& lexer_;
  std::string_view text_;
  size_t at_, end_;
  const Type& type_;
  int64_t size_;
  size_t step_;
  std::shared_ptr<Literal> literal_;
};

}  // namespace

// The type stands behind the elements, so the body's end is looked for first: no element holds a '>'.
LiteralPtr Parser::dense() {
  lexer_.expect_word("dense");
  if (!lexer_.peek().is('<')) lexer_.fail_expected("'<'");
  const std::string_view text = lexer_.text();
  const size_t begin = lexer_.peek().begin + 1;
  const void* close = std::memchr(text.data() + begin, '>', text.size() - begin);
  if (!close) lexer_.fail(begin, "constant is never closed, expected '>'");
  const auto end = static_cast<size_t>(static_cast<const char*>(close) - text.data());
  lexer_.seek(end + 1);
  lexer_.expect(':');
  const Token at = lexer_.peek();
  Type of = type();
  if (!of.is_tensor() || of.text.starts_with('!')) lexer_.fail(at.begin, "not a plain tensor type, expected tensor<…>");
  for (int64_t d : of.dims)
    if (d == kDynamic) lexer_.fail(at.begin, "constant of dynamic shape, expected sizes");
  size_t last = end;
  while (last > begin && (text[last - 1] == ' ' || text[last - 1] == '\n')) --last;
  return DenseReader(lexer_, begin, last, of).read();
}

// i64 tensors are lists of numbers to their ops, vectors of i1 lists of flags.
Attribute Parser::dense_attribute() {
  const size_t begin = lexer_.peek().begin;
  const size_t close = std::min(lexer_.text().find('>', begin), lexer_.text().size());
  const std::string_view type_text = lexer_.text().substr(close, lexer_.text().find('>', close + 1) - close);
  if (type_text.ends_with("xindex")) {  // layouts; no tensor of ours has this element type
    lexer_.take();
    lexer_.take_balanced();
    lexer_.expect(':');
    lexer_.take();
    lexer_.take_balanced();
    return raw(begin, lexer_.taken_end());
  }
  const LiteralPtr literal = dense();
  if (literal->type.size() > 1 << 20) return literal;  // no list that an op has is that long
  if (literal->type.dtype == DType::I1 && literal->type.rank() == 1) {
    std::vector<bool> flags;
    for (int64_t i = 0; i < literal->type.size(); ++i) flags.push_back(to_int(*literal, i) != 0);
    return flags;
  }
  if (literal->type.dtype != DType::S64 || literal->type.rank() == 0) return literal;
  Dims values;
  for (int64_t i = 0; i < literal->type.size(); ++i) values.push_back(to_int(*literal, i));
  return Attribute(values, to_string(literal->type));
}

}  // namespace thalweg::ir
