// Random ops that move elements.
#include "tools_cli/random_drawer.h"

#include <cmath>
#include <cstring>

namespace thalweg::tools_cli {

Value* Drawer::broadcast() {
  Value* a = any();
  Dims shape, dims;
  int64_t size = std::max<int64_t>(a->type.size(), 1);
  for (int64_t i = 0; i <= a->type.rank(); ++i) {
    while (chance(30) && shape.size() < 5) {
      const int64_t d = one_of(kSizes);
      if (size * d > options_.largest) break;
      shape.push_back(d);
      size *= std::max<int64_t>(d, 1);
    }
    if (i == a->type.rank()) break;
    int64_t d = a->type.dims[static_cast<size_t>(i)];
    if (d == 1 && chance(50)) {
      const int64_t grown = kSizes[1 + below(std::size(kSizes) - 1)];
      if (size * grown <= options_.largest) {
        d = grown;
        size *= grown;
      }
    }
    dims.push_back(static_cast<int64_t>(shape.size()));
    shape.push_back(d);
  }
  return b().broadcast(a, shape, dims);
}

Value* Drawer::reshape() {
  Value* a = any();
  Dims dims = a->type.dims;
  for (int64_t i = below(4); i >= 0; --i) {
    const auto at = static_cast<size_t>(below(static_cast<int64_t>(dims.size()) + 1));
    if (chance(35)) {
      dims.insert(dims.begin() + static_cast<ptrdiff_t>(at), 1);
    } else if (at + 1 < dims.size() && chance(60)) {  // merge
      dims[at] *= dims[at + 1];
      dims.erase(dims.begin() + static_cast<ptrdiff_t>(at) + 1);
    } else if (at < dims.size()) {  // split
      for (int64_t f : {2, 3, 5})
        if (dims[at] > 1 && dims[at] % f == 0) {
          dims[at] /= f;
          dims.insert(dims.begin() + static_cast<ptrdiff_t>(at) + below(2), f);
          break;
        }
    }
  }
  return dims.size() > 6 ? nullptr : b().reshape(a, dims);
}

Dims Drawer::random_permutation(int64_t rank) {
  Dims p;
  for (int64_t i = 0; i < rank; ++i) p.push_back(i);
  std::shuffle(p.begin(), p.end(), random_);
  return p;
}

Value* Drawer::transpose() {
  Value* a = find([](const Type& t) { return t.rank() >= 2; });
  return a ? b().transpose(a, random_permutation(a->type.rank())) : nullptr;
}

Value* Drawer::slice() {
  Value* a = any();
  Dims start, limit, stride;
  for (int64_t d : a->type.dims) {
    start.push_back(chance(50) ? 0 : below(d + 1));
    limit.push_back(chance(50) ? d : start.back() + below(d - start.back() + 1));
    stride.push_back(chance(70) ? 1 : 1 + below(4));
    if (limit.back() < start.back()) limit.back() = start.back();
  }
  return b().slice(a, start, limit, stride);
}

Value* Drawer::reverse() {
  Value* a = any();
  Dims dims;
  for (int64_t i = 0; i < a->type.rank(); ++i)
    if (chance(50)) dims.push_back(i);
  return b().reverse(a, dims);
}

Value* Drawer::concatenate() {
  Value* a = find([](const Type& t) { return t.rank() >= 1; });
  if (!a || a->type.size() > options_.largest) return nullptr;
  const int64_t dim = below(a->type.rank());
  std::vector<Value*> parts{a};
  for (int64_t i = below(3) + 1; i > 0; --i) {
    Type type = a->type;
    if (chance(50)) type.dims[static_cast<size_t>(dim)] = below(4);
    parts.insert(parts.begin() + below(static_cast<int64_t>(parts.size()) + 1), exactly(type));
  }
  return b().concatenate(parts, dim);
}

Value* Drawer::pad() {
  Value* a = any();
  Dims low, high, interior;
  for (int64_t d : a->type.dims) {
    low.push_back(chance(50) ? 0 : below(4) - 1);
    high.push_back(chance(50) ? 0 : below(4) - 1);
    interior.push_back(chance(80) ? 0 : below(3));
    const int64_t inner = d == 0 ? 0 : d + (d - 1) * interior.back();
    if (low.back() + high.back() + inner < 0) low.back() = high.back() = 0;
  }
  if (a->type.size() > options_.largest) return nullptr;
  return b().pad(a, exactly(ir::tensor(a->type.dtype)), low, high, interior);
}

Dims Drawer::smaller(const Dims& dims) {
  Dims sizes;
  for (int64_t d : dims) sizes.push_back(chance(40) ? d : std::min<int64_t>(d, below(d + 1)));
  return sizes;
}

std::vector<Value*> Drawer::starts(int64_t rank) {
  std::vector<Value*> out;
  const DType dtype = chance(70) ? DType::S32 : DType::U8;
  for (int64_t i = 0; i < rank; ++i) out.push_back(exactly(ir::tensor(dtype)));
  return out;
}

Value* Drawer::dynamic_slice() {
  Value* a = any();
  return b().dynamic_slice(a, starts(a->type.rank()), smaller(a->type.dims));
}

Value* Drawer::dynamic_update_slice() {
  Value* a = any();
  Value* update = exactly(ir::tensor(a->type.dtype, smaller(a->type.dims)));
  return b().dynamic_update_slice(a, update, starts(a->type.rank()));
}

Value* Drawer::gather() {
  Value* a = find([](const Type& t) { return t.rank() >= 1 && t.size() > 0; });
  if (!a) return nullptr;
  const int64_t rank = a->type.rank(), dim = below(rank);
  ir::GatherDims d;
  Dims sizes = a->type.dims;
  Dims batch;
  for (int64_t i = below(3); i > 0; --i) batch.push_back(1 + below(5));
  int64_t count = 1;
  for (int64_t n : batch) count *= n;
  if (chance(70)) {
    sizes[static_cast<size_t>(dim)] = 1;
    d.collapsed_slice_dims = {dim};
  } else {
    sizes = smaller(sizes);
  }
  d.start_index_map = {dim};
  const int64_t kept = rank - static_cast<int64_t>(d.collapsed_slice_dims.size()), out_rank = kept + static_cast<int64_t>(batch.size());
  Dims places = random_permutation(out_rank);
  places.resize(static_cast<size_t>(kept));
  std::sort(places.begin(), places.end());
  d.offset_dims = places;
  Dims index_dims = batch;
  d.index_vector_dim = static_cast<int64_t>(batch.size());
  if (chance(50)) index_dims.push_back(1);
  if (ir::tensor(DType::U8, sizes).size() * count > 4 * options_.largest) return nullptr;
  return b().gather(a, indices(index_dims), d, sizes);
}

Value* Drawer::scatter() {
  Value* a = find([](const Type& t) { return t.rank() >= 1 && !ir::is_complex(t.dtype); });
  if (!a) return nullptr;
  const int64_t rank = a->type.rank(), dim = below(rank), n = below(6);
  ir::ScatterDims d;
  d.inserted_window_dims = {dim};
  d.scatter_dims_to_operand_dims = {dim};
  d.index_vector_dim = 1;
  Dims update_dims{n};
  for (int64_t i = 0; i < rank; ++i)
    if (i != dim) {
      d.update_window_dims.push_back(static_cast<int64_t>(update_dims.size()));
      update_dims.push_back(a->type.dims[static_cast<size_t>(i)]);
    }
  constexpr OpCode kCombine[] = {OpCode::Add, OpCode::Maximum, OpCode::Minimum};
  const OpCode code = one_of(kCombine);
  const bool overwrite = chance(30);
  Value* operand = is_float(a->type.dtype) ? small_integers(a) : a;
  Value* updates = exactly(ir::tensor(a->type.dtype, update_dims));
  if (is_float(a->type.dtype)) updates = small_integers(updates);
  return b().scatter(operand, indices({n, 1}), updates, d,
                     [&](ir::Builder& inner, Value* old_value, Value* new_value) { return overwrite ? new_value : inner.binary(code, old_value, new_value); });
}

}  // namespace thalweg::tools_cli
