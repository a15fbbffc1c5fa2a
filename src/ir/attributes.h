// Attributes of ops, functions and arguments: a small sorted map from names to values.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "ir/literal.h"

namespace thalweg::ir {

struct Attribute;
using AttributeList = std::vector<Attribute>;

// Names to attributes, sorted by name.
class Attributes {
 public:
  const Attribute* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  void set(std::string name, Attribute value);
  void erase(std::string_view name);
  using Entry = std::pair<std::string, Attribute>;
  const Entry* begin() const;
  const Entry* end() const;
  bool empty() const { return begin() == end(); }
  size_t size() const;
  bool operator==(const Attributes&) const;

  // Typed reads. With a fallback: the fallback when absent; without: throws Error(Internal). A wrong kind throws Error(Internal).
  int64_t integer(std::string_view name) const;
  int64_t integer(std::string_view name, int64_t fallback) const;
  double real(std::string_view name) const;
  bool boolean(std::string_view name, bool fallback) const;
  const std::string& string(std::string_view name) const;  // a string, enum word or symbol
  std::string string(std::string_view name, std::string fallback) const;
  const Dims& ints(std::string_view name) const;  // array<i64: …>, dense<…> : tensor<nxi64> and [1, 2] are all stored so
  Dims ints(std::string_view name, Dims fallback) const;
  const LiteralPtr& literal(std::string_view name) const;
  const Attributes& dict(std::string_view name) const;

 private:
  std::vector<Entry> entries_;
};

// An enum word such as `LT` or `PHILOX` (printed `#stablehlo<kind WORD>` or bare), kept apart from strings.
struct EnumWord {
  std::string kind, word;
  bool operator==(const EnumWord&) const = default;
};
// `@name`.
struct Symbol {
  std::string name;
  bool operator==(const Symbol&) const = default;
};
// Anything that is carried without being understood, as written.
struct OpaqueText {
  std::string text;
  bool operator==(const OpaqueText&) const = default;
};

// One attribute. Integer widths other than i64 are kept beside the value so that text round-trips.
struct Attribute {
  using Value = std::variant<std::monostate /* unit */, bool, int64_t, double, std::string, EnumWord, Symbol, OpaqueText, Dims, std::vector<bool>, LiteralPtr,
                             Type, std::shared_ptr<const AttributeList>, std::shared_ptr<const Attributes>>;
  Value value;
  // How the text spells it. Integers and floats: their type, e.g. "i32" (empty: i64, f64). Dims: "i32" for array<i32: …>, "tensor<…>" for dense<…>, "list" for
  // [1, 2] (empty: array<i64: …>). Dicts: "#stablehlo.gather" and such (empty: {…}).
  std::string type;

  Attribute() = default;
  template <class T>
  Attribute(T v, std::string type_text = {}) : value(std::move(v)), type(std::move(type_text)) {}
  Attribute(const char* s) : value(std::string(s)) {}
  Attribute(int v) : value(static_cast<int64_t>(v)) {}
  bool operator==(const Attribute&) const;
};

inline const Attributes::Entry* Attributes::begin() const { return entries_.data(); }
inline const Attributes::Entry* Attributes::end() const { return entries_.data() + entries_.size(); }
inline size_t Attributes::size() const { return entries_.size(); }

}  // namespace thalweg::ir
