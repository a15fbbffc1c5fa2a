// Splits program text into tokens, one at a time, without copying; positions become file:line:column in errors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace thalweg::ir {

enum class TokenKind : uint8_t {
  End,
  Word,     // add, stablehlo.add, i32
  Value,    // %name, text without the percent sign
  Symbol,   // @name or @"name", text without the at sign and quotes
  Block,    // ^bb0
  Hash,     // #name
  Bang,     // !name
  Integer,  // 12, -12, 0x1F
  Float,    // 1.5, -2.0e+10
  String,   // text between the quotes, escapes still in it
  Arrow,    // ->
  Punct,    // any other single character
};

struct Token {
  TokenKind kind = TokenKind::End;
  std::string_view text;
  size_t begin = 0;  // offset of its first character in the text

  bool is(char c) const { return kind == TokenKind::Punct && text[0] == c; }
  bool is_word(std::string_view word) const { return kind == TokenKind::Word && text == word; }
};

// Holds one token of look-ahead. Comments (`// …`) are blanks.
class Lexer {
 public:
  Lexer(std::string_view text, std::string file) : text_(text), file_(std::move(file)) { advance(); }

  const Token& peek() const { return token_; }
  // The current token, then moves on.
  Token take();
  // Moves on when the current token is `c`.
  bool accept(char c);
  bool accept_word(std::string_view word);
  void expect(char c);
  void expect_word(std::string_view word);
  void expect_arrow();
  Token expect(TokenKind kind, const char* what);

  // Raw access for dimension lists, dense data and text that is only carried. `seek` makes the token at `offset` current.
  std::string_view text() const { return text_; }
  void seek(size_t offset);
  // Offset past what was taken last, before the blanks and comments that follow it.
  size_t taken_end() const { return taken_end_; }
  // Text from the current token, which must open a bracket, to past the bracket that closes it; moves past it.
  std::string_view take_balanced();
  // End of the bracketed text that opens at `offset`.
  size_t balanced_end(size_t offset) const;

  // Throws Error(Parse) "file:line:column: message, expected …".
  [[noreturn]] void fail(size_t offset, const std::string& message) const;
  [[noreturn]] void fail_expected(const std::string& what) const;
  int line(size_t offset) const;
  const std::string& file() const { return file_; }

 private:
  void advance();
  void skip_blanks();
  size_t scan_word(size_t at) const;
  size_t scan_number(size_t at, TokenKind& kind) const;
  size_t scan_string(size_t at) const;
  void set(TokenKind kind, size_t begin, size_t text_begin, size_t text_end, size_t next);

  std::string_view text_;
  std::string file_;
  size_t next_ = 0, taken_end_ = 0;
  Token token_;
  // Line counting goes on from the last asked offset, so asking in order costs one pass.
  mutable size_t counted_to_ = 0;
  mutable int counted_lines_ = 1;
};

}  // namespace thalweg::ir
