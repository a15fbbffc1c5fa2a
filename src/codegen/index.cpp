// Affine index arithmetic over loop variables.
#include "codegen/index.h"

#include <algorithm>
#include <cmath>

#include "support/error.h"

namespace thalweg::codegen {
namespace {

int64_t floor_div(int64_t a, int64_t n) { return a >= 0 ? a / n : -((-a + n - 1) / n); }

}  // namespace

Index operator+(const Index& a, const Index& b) {
  Index sum(a.constant + b.constant);
  auto i = a.terms.begin(), j = b.terms.begin();
  while (i != a.terms.end() || j != b.terms.end()) {
    if (j == b.terms.end() || (i != a.terms.end() && i->first < j->first)) {
      sum.terms.push_back(*i++);
    } else if (i == a.terms.end() || j->first < i->first) {
      sum.terms.push_back(*j++);
    } else {
      if (int64_t c = i->second + j->second) sum.terms.emplace_back(i->first, c);
      ++i, ++j;
    }
  }
  return sum;
}

Index operator*(const Index& a, int64_t factor) {
  if (factor == 0) return Index();
  Index product = a;
  product.constant *= factor;
  for (auto& term : product.terms) term.second *= factor;
  return product;
}

int IndexSpace::add_atom(Atom atom) {
  by_text_[atom.text] = static_cast<int>(atoms.size());
  atoms.push_back(std::move(atom));
  return static_cast<int>(atoms.size()) - 1;
}

int IndexSpace::opaque(const std::string& text, int64_t low, int64_t high, int depth) {
  if (auto it = by_text_.find(text); it != by_text_.end()) return it->second;
  return add_atom({text, low, high, depth, -1, 1});
}

Index IndexSpace::var(int atom) const {
  Index index;
  if (atoms[atom].low == atoms[atom].high) return Index(atoms[atom].low);
  index.terms.emplace_back(atom, 1);
  return index;
}

std::pair<int64_t, int64_t> IndexSpace::range(const Index& index) const {
  int64_t low = index.constant, high = index.constant;
  for (auto [atom, c] : index.terms) {
    low += c * (c > 0 ? atoms[atom].low : atoms[atom].high);
    high += c * (c > 0 ? atoms[atom].high : atoms[atom].low);
  }
  return {low, high};
}

int IndexSpace::depth(const Index& index) const {
  int depth = 0;
  for (auto [atom, c] : index.terms) depth = std::max(depth, atoms[atom].depth);
  return depth;
}

std::string IndexSpace::text(const Index& index) const {
  std::string out;
  double size = std::abs(static_cast<double>(index.constant));
  for (auto [atom, c] : index.terms) {
    size += std::abs(static_cast<double>(c)) * std::max(std::abs(static_cast<double>(atoms[atom].low)), std::abs(static_cast<double>(atoms[atom].high)));
    if (!out.empty()) out += " + ";
    out += atoms[atom].text;
    if (c != 1) out += "*" + std::to_string(c);
  }
  widest_ = std::max(widest_, static_cast<int64_t>(std::min(size, 0x1p62)));
  if (out.empty()) return std::to_string(index.constant);
  if (index.constant) out += " + " + std::to_string(index.constant);
  return out;
}

std::pair<Index, Index> IndexSpace::div_mod(const Index& index, int64_t n) {
  THALWEG_ASSERT(n >= 1);
  if (n == 1) return {index, Index()};
  Index whole, rest(index.constant);
  for (auto [atom, c] : index.terms) {
    if (c % n == 0) {
      whole.terms.emplace_back(atom, c / n);
    } else {
      rest.terms.emplace_back(atom, c);
    }
  }
  auto [low, high] = range(rest);
  if (int64_t k = floor_div(low, n); k == floor_div(high, n)) {
    whole.constant += k;
    rest.constant -= k * n;
    return {whole, rest};
  }
  for (auto [id, c] : rest.terms) {
    const Atom& atom = atoms[id];
    int64_t extent = atom.high + 1;
    if (atom.base < 0 || c <= 0 || n % c != 0) continue;
    int64_t block = n / c;
    if (extent > block && extent % block == 0) requests_.emplace(atom.base, atom.unit * block);
  }
  ++divisions_;
  std::string inner = "(" + text(rest) + ")";
  int d = depth(rest);
  Index quotient = whole + var(opaque("(" + inner + "/" + std::to_string(n) + ")", std::max<int64_t>(low, 0) / n, std::max<int64_t>(high, 0) / n, d));
  Index remainder = var(opaque("(" + inner + "%" + std::to_string(n) + ")", 0, n - 1, d));
  return {quotient, remainder};
}

std::vector<Index> IndexSpace::unflatten(const Index& linear, const std::vector<int64_t>& dims) {
  std::vector<Index> out(dims.size());
  Index rest = linear;
  bool outermost = true;
  size_t first = 0;
  while (first < dims.size() && dims[first] == 1) ++first;
  for (size_t k = dims.size(); k-- > 0;) {
    if (dims[k] <= 1) continue;
    outermost = k == first;
    if (outermost) {
      out[k] = rest;
      break;
    }
    std::tie(rest, out[k]) = div_mod(rest, dims[k]);
  }
  return out;
}

Index flatten(const std::vector<Index>& indices, const std::vector<int64_t>& dims) {
  Index linear;
  int64_t stride = 1;
  for (size_t k = dims.size(); k-- > 0;) {
    linear = linear + indices[k] * stride;
    stride *= dims[k];
  }
  return linear;
}

bool add_split(BaseDim& dim, int64_t block) {
  if (block <= 1 || block >= dim.extent || dim.extent % block != 0 || dim.splits.count(block)) return false;
  for (int64_t other : dim.splits)
    if (other % block != 0 && block % other != 0) return false;
  dim.splits.insert(block);
  return true;
}

}  // namespace thalweg::codegen
