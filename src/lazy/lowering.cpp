// Access to a node's arguments for lowering functions.
#include "lazy/lowering.h"

#include <bit>

#include "lazy/row.h"
#include "support/error.h"

namespace thalweg::lazy {

Lowering::Lowering(ir::Builder& builder, const Node& n, std::vector<ir::Value*> tensors, std::vector<ir::Value*> scalars)
    : b(builder), node(n), tensors_(std::move(tensors)), scalars_(std::move(scalars)) {
  size_t tensor = 0, scalar = 0;
  for (size_t at = 0; at < node.words.size();) {
    Arg arg{static_cast<ArgKind>(node.words[at] & 0xFF), node.words[at] >> 8, at + 1, tensor, scalar};
    args_.push_back(arg);
    ++at;
    switch (arg.kind) {
      case ArgKind::None:
        break;
      case ArgKind::Tensor:
      case ArgKind::Tensors:
        tensor += arg.count;
        break;
      case ArgKind::Scalar:
      case ArgKind::Scalars:
        scalar += arg.count;
        break;
      case ArgKind::Int:
      case ArgKind::Double:
      case ArgKind::Bool:
        ++at;
        break;
      case ArgKind::Ints:
        at += arg.count;
        break;
      case ArgKind::String:
        at += (arg.count + 7) / 8;
        break;
    }
  }
}

ArgKind Lowering::kind(size_t arg) const { return arg < args_.size() ? args_[arg].kind : ArgKind::None; }

bool Lowering::has(size_t arg) const {
  if (kind(arg) == ArgKind::None) return false;
  return kind(arg) != ArgKind::Tensor || (args_[arg].count > 0 && tensors_[args_[arg].tensor] != nullptr);
}

bool Lowering::is_number(size_t arg) const {
  const ArgKind k = kind(arg);
  return k == ArgKind::Scalar || k == ArgKind::Int || k == ArgKind::Double || k == ArgKind::Bool;
}

ir::DType Lowering::promoted(std::initializer_list<size_t> args) const {
  // Strength 2: tensors with dims, 1: rank-0 tensors, 0: numbers. A weaker argument changes the dtype only by a higher class.
  ir::DType best = ir::DType::I1;
  int best_strength = -1;
  auto rank = [](ir::DType d) { return ir::is_complex(d) ? 3 : ir::is_float(d) ? 2 : d == ir::DType::I1 ? 0 : 1; };
  auto combine = [&](ir::DType a, ir::DType c) {
    if (rank(a) != rank(c)) return rank(a) > rank(c) ? a : c;
    if (a == c) return a;
    if (ir::byte_size(a) == ir::byte_size(c)) return ir::is_float(a) ? ir::DType::F32 : ir::byte_size(a) == 1 ? ir::DType::S16 : a;
    return ir::byte_size(a) > ir::byte_size(c) ? a : c;
  };
  for (int strength = 2; strength >= 0; --strength) {
    for (size_t arg : args) {
      if (kind(arg) == ArgKind::None) continue;
      const int s = is_number(arg) ? 0 : t(arg)->type.rank() > 0 ? 2 : 1;
      if (s != strength) continue;
      const ir::DType d = s > 0 ? t(arg)->type.dtype : kind(arg) == ArgKind::Bool ? ir::DType::I1 : is_floating_number(arg) ? ir::DType::F32 : ir::DType::S64;
      if (best_strength < 0 || best_strength == strength) {
        best = best_strength < 0 ? d : combine(best, d);
      } else if (rank(d) > rank(best)) {
        best = d;
      }
      best_strength = std::max(best_strength, strength);
    }
  }
  return best;
}

ir::Value* Lowering::t(size_t arg) const {
  if (is_number(arg)) return number(arg, is_floating_number(arg) ? ir::DType::F64 : ir::DType::S64);
  THALWEG_ASSERT(kind(arg) == ArgKind::Tensor, row_name(), " argument ", arg, " is not a tensor");
  THALWEG_ASSERT(has(arg), row_name(), " argument ", arg, " is absent");
  return tensors_[args_[arg].tensor];
}

std::vector<ir::Value*> Lowering::list(size_t arg) const {
  if (kind(arg) == ArgKind::None) return {};
  const Arg& a = args_[arg];
  return {tensors_.begin() + static_cast<int64_t>(a.tensor), tensors_.begin() + static_cast<int64_t>(a.tensor + a.count)};
}

const char* Lowering::row_name() const { return node.row->name; }

bool Lowering::is_floating_number(size_t arg) const {
  const Arg& a = args_.at(arg);
  if (a.kind == ArgKind::Scalar) return node.scalars[a.scalar].floating;
  return a.kind == ArgKind::Double;
}

ir::Value* Lowering::number(size_t arg, ir::DType dtype) const {
  const Arg& a = args_.at(arg);
  if (a.kind == ArgKind::Scalar) return b.convert(scalars_[a.scalar], dtype);
  if (a.kind == ArgKind::Int || a.kind == ArgKind::Bool) return b.constant(ir::make_splat_int(ir::tensor(dtype), integer(arg)));
  return b.splat(ir::tensor(dtype), real(arg));
}

std::vector<ir::Value*> Lowering::numbers(size_t arg, ir::DType dtype) const {
  const Arg& a = args_.at(arg);
  THALWEG_ASSERT(a.kind == ArgKind::Scalars, row_name(), " argument ", arg);
  std::vector<ir::Value*> out;
  for (size_t i = 0; i < a.count; ++i) out.push_back(b.convert(scalars_[a.scalar + i], dtype));
  return out;
}

int64_t Lowering::integer(size_t arg) const {
  const Arg& a = args_.at(arg);
  THALWEG_ASSERT(a.kind == ArgKind::Int || a.kind == ArgKind::Bool, row_name(), " argument ", arg, " is not an integer");
  return static_cast<int64_t>(node.words[a.word]);
}

double Lowering::real(size_t arg) const {
  const Arg& a = args_.at(arg);
  if (a.kind == ArgKind::Double) return std::bit_cast<double>(node.words[a.word]);
  return static_cast<double>(integer(arg));
}

bool Lowering::boolean(size_t arg) const { return kind(arg) != ArgKind::None && integer(arg) != 0; }

ir::Dims Lowering::ints(size_t arg) const {
  if (kind(arg) == ArgKind::None) return {};
  const Arg& a = args_[arg];
  if (a.kind == ArgKind::Int) return {integer(arg)};
  THALWEG_ASSERT(a.kind == ArgKind::Ints, row_name(), " argument ", arg, " is not a list of integers");
  ir::Dims out;
  for (size_t i = 0; i < a.count; ++i) out.push_back(static_cast<int64_t>(node.words[a.word + i]));
  return out;
}

std::string Lowering::string(size_t arg) const {
  const Arg& a = args_.at(arg);
  THALWEG_ASSERT(a.kind == ArgKind::String, row_name(), " argument ", arg, " is not a string");
  return std::string(reinterpret_cast<const char*>(&node.words[a.word]), a.count);
}

ir::Value* Lowering::rng_state() const {
  const size_t n = scalars_.size();
  THALWEG_ASSERT(n >= 2, row_name());
  ir::Value* seed = b.reshape(b.convert(scalars_[n - 2], ir::DType::U64), {1});
  ir::Value* offset = b.reshape(b.convert(scalars_[n - 1], ir::DType::U64), {1});
  return b.concatenate({seed, offset}, 0);
}

ir::DType Lowering::compute_dtype(ir::DType dtype) { return ir::is_float(dtype) && ir::byte_size(dtype) < 4 ? ir::DType::F32 : dtype; }

ir::Value* Lowering::fit(ir::Value* a, ir::DType dtype, const ir::Dims& shape) const {
  if (a->type.dtype != dtype) {
    const bool to_bool = dtype == ir::DType::I1;
    a = to_bool ? b.compare(ir::Comparison::NE, a, b.splat(a->type, 0)) : b.convert(a, dtype);
  }
  return b.broadcast_to(a, shape);
}

ir::Value* Lowering::as(size_t arg, ir::DType dtype) const {
  return fit(is_number(arg) && dtype != ir::DType::I1 ? number(arg, dtype) : t(arg), dtype, shape());
}

}  // namespace thalweg::lazy
