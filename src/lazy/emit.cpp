// Short forms for lowering functions.
#include "lazy/emit.h"

#include <algorithm>
#include <numeric>

#include "lazy/lines.h"

namespace thalweg::lazy::emit {

Dims all_dims(int64_t rank) {
  Dims dims(static_cast<size_t>(rank));
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

Dims normal_dims(Dims dims, int64_t rank) {
  if (dims.empty()) return all_dims(rank);
  for (int64_t& d : dims)
    if (d < 0) d += rank;
  std::sort(dims.begin(), dims.end());
  if (rank == 0) dims.clear();
  return dims;
}

Dims other_dims(int64_t rank, const Dims& dims) {
  Dims out;
  for (int64_t d = 0; d < rank; ++d)
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) out.push_back(d);
  return out;
}

V spread(Builder& b, V reduced, const Dims& shape, const Dims& dims) {
  return b.broadcast(reduced, shape, other_dims(static_cast<int64_t>(shape.size()), dims));
}

V sum(Builder& b, V a, const Dims& dims) { return dims.empty() ? a : b.sum(a, dims); }

int64_t count_of(const Dims& shape, const Dims& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= shape[static_cast<size_t>(d)];
  return n;
}

V mean(Builder& b, V a, const Dims& dims) { return div(b, sum(b, a, dims), static_cast<double>(count_of(a->type.dims, dims))); }

V along(Builder& b, V a, const Dims& shape, int64_t dim) { return b.broadcast(a, shape, {dim}); }

void check_index(const Lowering& l, V indices, int64_t low, int64_t high, const std::string& what) {
  ir::Attributes config;
  config.set("low", low);
  config.set("high", high);
  std::string where = l.node.line ? " at " + line_text(l.node.line) : "";
  config.set("message", what + " out of range in " + l.row_name() + where + ": expected " + std::to_string(low) + " to " + std::to_string(high - 1));
  config.set("has_side_effect", true);
  l.b.custom_call("thalweg.check_index", {indices}, {ir::tensor(DType::I1)}, std::move(config));
}

V wrap_index(Builder& b, V indices, int64_t size) {
  V i = b.convert(indices, DType::S64);
  return b.select(b.compare(Comparison::LT, i, like(b, i, 0)), add(b, i, static_cast<double>(size)), i);
}

}  // namespace thalweg::lazy::emit
