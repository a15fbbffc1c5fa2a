// The attribute map and its typed reads.
#include "ir/attributes.h"

#include <algorithm>
#include <bit>

#include "support/error.h"

namespace thalweg::ir {
namespace {

bool same_value(const LiteralPtr& a, const LiteralPtr& b) { return a == b || (a && b && *a == *b); }
template <class T>
bool same_value(const std::shared_ptr<const T>& a, const std::shared_ptr<const T>& b) {
  return a == b || (a && b && *a == *b);
}
bool same_value(double a, double b) { return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b); }
template <class T>
bool same_value(const T& a, const T& b) {
  return a == b;
}

// The attribute's value as T, or Error(Internal) naming it.
template <class T>
const T& read(const Attributes& attrs, std::string_view name) {
  const Attribute* found = attrs.find(name);
  THALWEG_CHECK(found, Internal, "missing attribute: ", name);
  const T* value = std::get_if<T>(&found->value);
  THALWEG_CHECK(value, Internal, "attribute of another kind than its op takes: ", name);
  return *value;
}

}  // namespace

const Attribute* Attributes::find(std::string_view name) const {
  auto at = std::lower_bound(entries_.begin(), entries_.end(), name, [](const Entry& e, std::string_view n) { return e.first < n; });
  return at != entries_.end() && at->first == name ? &at->second : nullptr;
}

void Attributes::set(std::string name, Attribute value) {
  auto at = std::lower_bound(entries_.begin(), entries_.end(), name, [](const Entry& e, const std::string& n) { return e.first < n; });
  if (at != entries_.end() && at->first == name)
    at->second = std::move(value);
  else
    entries_.insert(at, Entry(std::move(name), std::move(value)));
}

void Attributes::erase(std::string_view name) {
  std::erase_if(entries_, [&](const Entry& e) { return e.first == name; });
}

bool Attributes::operator==(const Attributes& other) const { return entries_ == other.entries_; }

bool Attribute::operator==(const Attribute& other) const {
  if (type != other.type || value.index() != other.value.index()) return false;
  return std::visit([&](const auto& mine) { return same_value(mine, std::get<std::decay_t<decltype(mine)>>(other.value)); }, value);
}

int64_t Attributes::integer(std::string_view name) const { return read<int64_t>(*this, name); }
int64_t Attributes::integer(std::string_view name, int64_t fallback) const { return has(name) ? integer(name) : fallback; }
double Attributes::real(std::string_view name) const { return read<double>(*this, name); }
bool Attributes::boolean(std::string_view name, bool fallback) const {
  const Attribute* found = find(name);
  if (!found) return fallback;
  if (std::holds_alternative<std::monostate>(found->value)) return true;  // a unit attribute: present means true
  return read<bool>(*this, name);
}

const std::string& Attributes::string(std::string_view name) const {
  const Attribute* found = find(name);
  if (found)
    if (auto* word = std::get_if<EnumWord>(&found->value)) return word->word;
  if (found)
    if (auto* symbol = std::get_if<Symbol>(&found->value)) return symbol->name;
  return read<std::string>(*this, name);
}
std::string Attributes::string(std::string_view name, std::string fallback) const { return has(name) ? string(name) : std::move(fallback); }

const Dims& Attributes::ints(std::string_view name) const { return read<Dims>(*this, name); }
Dims Attributes::ints(std::string_view name, Dims fallback) const { return has(name) ? ints(name) : std::move(fallback); }
const LiteralPtr& Attributes::literal(std::string_view name) const { return read<LiteralPtr>(*this, name); }
const Attributes& Attributes::dict(std::string_view name) const { return *read<std::shared_ptr<const Attributes>>(*this, name); }

}  // namespace thalweg::ir
