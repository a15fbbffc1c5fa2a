// The frame of random programs: choices, inputs, values and the order of ops.
#include "tools_cli/random_drawer.h"

#include <cmath>
#include <cstring>

namespace thalweg::tools_cli {

Drawer::Drawer(uint64_t seed, const RandomOptions& options) : random_(seed), options_(options) {
  program_.function = std::make_unique<ir::Function>();
  program_.function->name = "main";
}

RandomProgram Drawer::draw() {
  ir::Block& body = program_.function->body;
  builder_.emplace(body);
  for (int64_t i = below(4) + 1; i > 0; --i) argument(random_type());
  argument(ir::tensor(DType::S32));
  for (int i = 0; i < options_.ops; ++i) step();
  builder_->ret(results());
  return std::move(program_);
}

Dims Drawer::random_dims() {
  Dims dims;
  int64_t size = 1;
  for (int64_t rank = below(5); rank > 0; --rank) {
    int64_t d = chance(4) ? 0 : kSizes[1 + below(std::size(kSizes) - 1)];
    if (options_.largest > 10000 && chance(50)) d = d * 37 + 5;
    if (size * d > options_.largest) break;
    dims.push_back(d);
    size *= d;
  }
  return dims;
}

double Drawer::random_float() {
  constexpr double kSpecial[] = {0.0,    -0.0, 1.0,  -1.0,   0.5,   INFINITY, -INFINITY,    NAN,     1e-310,
                                 -1e-40, 1e-5, 3e38, -1e300, 65504, 1e-7,     2147483648.0, -9.3e18, 0.1};
  if (chance(15)) return one_of(kSpecial);
  const double unit = static_cast<double>(random_() >> 11) * 0x1p-53;
  return chance(20) ? std::ldexp(unit - 0.5, static_cast<int>(below(60)) - 30) : 8 * (unit - 0.5);
}

Literal Drawer::random_literal(const Type& type) {
  Literal literal(type);
  const int64_t bytes = byte_size(type.dtype);
  for (int64_t i = 0; i < type.size(); ++i) {
    std::byte* to = literal.data.data() + i * bytes;
    if (is_complex(type.dtype))
      store_complex(type.dtype, to, random_float(), random_float());
    else if (is_float(type.dtype))
      store_double(type.dtype, to, random_float());
    else if (type.dtype == DType::I1)
      store_int(type.dtype, to, below(2));
    else
      store_int(type.dtype, to, chance(60) ? below(9) - 2 : static_cast<int64_t>(random_()));
  }
  return literal;
}

Value* Drawer::argument(const Type& type) {
  Value* value = program_.function->body.add_arg(type);
  program_.inputs.push_back(random_literal(type));
  return keep(value);
}

Value* Drawer::keep(Value* value) {
  values_.push_back(value);
  return value;
}

Value* Drawer::any() {
  return find([](const Type&) { return true; });
}

Value* Drawer::exactly(const Type& type) {
  Value* found = find([&](const Type& t) { return t == type; });
  if (found && !chance(20)) return found;
  if (Value* other = find([&](const Type& t) { return t.dims == type.dims && !is_complex(t.dtype); }); other && chance(50))
    return b().convert(other, type.dtype);
  if (Value* scalar = find([&](const Type& t) { return t.rank() == 0 && t.dtype == type.dtype; }); scalar && chance(60))
    return b().broadcast(scalar, type.dims, {});
  if (chance(40)) return b().constant(std::make_shared<const Literal>(constant_literal(type)));
  return argument(type);
}

Literal Drawer::constant_literal(const Type& type) {
  if (chance(60)) return *ir::make_splat(type, is_float(type.dtype) ? random_float() : static_cast<double>(below(5)));
  return random_literal(type);
}

std::vector<Value*> Drawer::results() {
  std::vector<Value*> out{values_.back()};
  for (Value* value : values_)
    if (value->def && chance(15) && out.size() < 6 && value != out[0]) out.push_back(value);
  return out;
}

void Drawer::step() {
  using Draw = Value* (Drawer::*)();
  static constexpr Draw kDraws[] = {
      &Drawer::unary,         &Drawer::unary,
      &Drawer::binary,        &Drawer::binary,
      &Drawer::binary,        &Drawer::compare,
      &Drawer::select,        &Drawer::clamp,
      &Drawer::convert,       &Drawer::bitcast,
      &Drawer::part,          &Drawer::broadcast,
      &Drawer::broadcast,     &Drawer::reshape,
      &Drawer::transpose,     &Drawer::transpose,
      &Drawer::slice,         &Drawer::reverse,
      &Drawer::concatenate,   &Drawer::pad,
      &Drawer::dynamic_slice, &Drawer::dynamic_update_slice,
      &Drawer::gather,        &Drawer::scatter,
      &Drawer::reduce,        &Drawer::reduce,
      &Drawer::reduce,        &Drawer::arg_reduce,
      &Drawer::reduce_window, &Drawer::sort,
      &Drawer::dot,           &Drawer::dot,
      &Drawer::iota,          &Drawer::random_bits,
      &Drawer::convolution,   &Drawer::loop,
      &Drawer::branches,      &Drawer::reduce_precision,
      &Drawer::softmax,       &Drawer::select_and_scatter,
  };
  if (Value* value = (this->*kDraws[below(std::size(kDraws))])()) keep(value);
}

RandomProgram random_program(uint64_t seed, const RandomOptions& options) { return Drawer(seed, options).draw(); }

bool same_bits(const Literal& a, const Literal& b) {
  if (a.type != b.type) return false;
  const Literal x = expand(a), y = expand(b);
  if (x.data == y.data) return true;
  const DType part = real_dtype(a.type.dtype);
  if (!is_float(part)) return false;
  const int64_t bytes = byte_size(part);
  for (size_t at = 0; at < x.data.size(); at += static_cast<size_t>(bytes)) {
    if (std::memcmp(x.data.data() + at, y.data.data() + at, static_cast<size_t>(bytes)) == 0) continue;
    if (!std::isnan(ir::load_double(part, x.data.data() + at)) || !std::isnan(ir::load_double(part, y.data.data() + at))) return false;
  }
  return true;
}

}  // namespace thalweg::tools_cli
