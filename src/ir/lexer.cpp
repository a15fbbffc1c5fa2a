// The lexer.
#include "ir/lexer.h"

#include <algorithm>
#include <cstring>

#include "support/error.h"

namespace thalweg::ir {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_word_char(char c) { return is_letter(c) || is_digit(c) || c == '$' || c == '.'; }
bool is_name_char(char c) { return is_word_char(c) || c == '-'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

// A shortened, printable form of a token for messages.
std::string shown(std::string_view text) {
  std::string out(text.substr(0, 40));
  for (char& c : out)
    if (static_cast<unsigned char>(c) < 32) c = ' ';
  return text.size() > 40 ? out + "…" : out;
}

}  // namespace

Token Lexer::take() {
  Token token = token_;
  advance();
  return token;
}

bool Lexer::accept(char c) {
  if (!token_.is(c)) return false;
  advance();
  return true;
}

bool Lexer::accept_word(std::string_view word) {
  if (!token_.is_word(word)) return false;
  advance();
  return true;
}

void Lexer::expect(char c) {
  if (!accept(c)) fail_expected(std::string("'") + c + "'");
}

void Lexer::expect_word(std::string_view word) {
  if (!accept_word(word)) fail_expected("'" + std::string(word) + "'");
}

void Lexer::expect_arrow() {
  if (token_.kind != TokenKind::Arrow) fail_expected("'->'");
  advance();
}

Token Lexer::expect(TokenKind kind, const char* what) {
  if (token_.kind != kind) fail_expected(what);
  return take();
}

void Lexer::seek(size_t offset) {
  next_ = offset;
  advance();
}

size_t Lexer::balanced_end(size_t offset) const {
  std::string open;
  for (size_t i = offset; i < text_.size(); ++i) {
    const char c = text_[i];
    if (c == '"') {
      i = scan_string(i) - 1;
    } else if (c == '(' || c == '[' || c == '{' || c == '<') {
      open += c;
    } else if (c == ')' || c == ']' || c == '}' || (c == '>' && text_[i - 1] != '-')) {
      const char opener = c == ')' ? '(' : c == ']' ? '[' : c == '}' ? '{' : '<';
      if (open.empty() || open.back() != opener) fail(i, std::string("unbalanced '") + c + "'");
      open.pop_back();
      if (open.empty()) return i + 1;
    }
  }
  fail(offset, "bracket is never closed, expected its other half before the end of the text");
}

std::string_view Lexer::take_balanced() {
  const size_t begin = token_.begin, end = balanced_end(begin);
  seek(end);
  return text_.substr(begin, end - begin);
}

void Lexer::fail(size_t offset, const std::string& message) const {
  offset = std::min(offset, text_.size());
  const size_t line_begin = offset == 0 ? 0 : text_.rfind('\n', offset - 1) + 1;
  const auto lines = 1 + std::count(text_.begin(), text_.begin() + static_cast<ptrdiff_t>(offset), '\n');
  raise(ErrorKind::Parse, file_, ":", lines, ":", offset - line_begin + 1, ": ", message);
}

void Lexer::fail_expected(const std::string& what) const {
  const std::string found = token_.kind == TokenKind::End ? "the end of the text" : "'" + shown(token_.text) + "'";
  fail(token_.begin, "found " + found + ", expected " + what);
}

int Lexer::line(size_t offset) const {
  if (offset < counted_to_) {
    counted_to_ = 0;
    counted_lines_ = 1;
  }
  while (const void* hit = std::memchr(text_.data() + counted_to_, '\n', offset - counted_to_)) {
    counted_to_ = static_cast<size_t>(static_cast<const char*>(hit) - text_.data()) + 1;
    ++counted_lines_;
  }
  return counted_lines_;
}

void Lexer::skip_blanks() {
  for (; next_ < text_.size(); ++next_) {
    const char c = text_[next_];
    if (c == ' ' || c == '\n' || c == '\t' || c == '\r') continue;
    if (c != '/' || next_ + 1 >= text_.size() || text_[next_ + 1] != '/') return;
    next_ = std::min(text_.find('\n', next_), text_.size() - 1);
  }
}

size_t Lexer::scan_word(size_t at) const {
  while (at < text_.size() && is_word_char(text_[at])) ++at;
  return at;
}

size_t Lexer::scan_number(size_t at, TokenKind& kind) const {
  kind = TokenKind::Integer;
  if (text_[at] == '-') ++at;
  if (text_.substr(at, 2) == "0x" && at + 2 < text_.size() && is_hex(text_[at + 2])) {
    for (at += 2; at < text_.size() && is_hex(text_[at]);) ++at;
    return at;
  }
  while (at < text_.size() && is_digit(text_[at])) ++at;
  if (at >= text_.size() || text_[at] != '.') return at;
  kind = TokenKind::Float;
  for (++at; at < text_.size() && is_digit(text_[at]);) ++at;
  if (at < text_.size() && (text_[at] == 'e' || text_[at] == 'E')) {
    size_t exponent = at + 1;
    if (exponent < text_.size() && (text_[exponent] == '-' || text_[exponent] == '+')) ++exponent;
    if (exponent < text_.size() && is_digit(text_[exponent])) {
      for (at = exponent; at < text_.size() && is_digit(text_[at]);) ++at;
    }
  }
  return at;
}

// Past the closing quote of the string that opens at `at`.
size_t Lexer::scan_string(size_t at) const {
  for (size_t i = at + 1; i < text_.size(); ++i) {
    const char c = text_[i];
    if (c == '"') return i + 1;
    if (c == '\\') ++i;
  }
  fail(at, "string is never closed, expected '\"'");
}

void Lexer::set(TokenKind kind, size_t begin, size_t text_begin, size_t text_end, size_t next) {
  token_ = {kind, text_.substr(text_begin, text_end - text_begin), begin};
  next_ = next;
}

void Lexer::advance() {
  taken_end_ = next_;
  skip_blanks();
  const size_t at = next_;
  if (at >= text_.size()) return set(TokenKind::End, text_.size(), text_.size(), text_.size(), text_.size());
  const char c = text_[at], after = at + 1 < text_.size() ? text_[at + 1] : '\0';
  if (is_letter(c)) {
    const size_t end = scan_word(at);
    return set(TokenKind::Word, at, at, end, end);
  }
  if (is_digit(c) || (c == '-' && is_digit(after))) {
    TokenKind kind;
    const size_t end = scan_number(at, kind);
    return set(kind, at, at, end, end);
  }
  if (c == '-' && after == '>') return set(TokenKind::Arrow, at, at, at + 2, at + 2);
  if (c == '"') {
    const size_t end = scan_string(at);
    return set(TokenKind::String, at, at + 1, end - 1, end);
  }
  if (c == '@' && after == '"') {
    const size_t end = scan_string(at + 1);
    return set(TokenKind::Symbol, at, at + 2, end - 1, end);
  }
  const TokenKind sigil = c == '%'   ? TokenKind::Value
                          : c == '@' ? TokenKind::Symbol
                          : c == '^' ? TokenKind::Block
                          : c == '#' ? TokenKind::Hash
                                     : TokenKind::Bang;
  if ((c == '%' || c == '@' || c == '^' || c == '#' || c == '!') && is_name_char(after)) {
    size_t end = at + 1;
    // `->` may follow a name without a blank; a name that starts with a digit holds digits only.
    if (is_digit(after))
      while (end < text_.size() && is_digit(text_[end])) ++end;
    else
      while (end < text_.size() && is_name_char(text_[end]) && text_.substr(end, 2) != "->") ++end;
    return set(sigil, at, at + 1, end, end);
  }
  set(TokenKind::Punct, at, at, at + 1, at + 1);
}

}  // namespace thalweg::ir
