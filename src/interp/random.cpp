// Random numbers. rng_bit_generator: THREE_FRY as XLA defines it, PHILOX (and DEFAULT) as Philox4x32-10; rng: numbers of a fixed Philox sequence.
#include <cmath>
#include <numbers>

#include "interp/indexing.h"
#include "interp/machine.h"
#include "ir/scalar.h"

namespace thalweg::interp {
namespace {

using ir::Dims;
using ir::DType;
using ir::Literal;
using ir::OpCode;

struct Pair {
  uint32_t first, second;
};

uint32_t rotated(uint32_t v, int by) { return v << by | v >> (32 - by); }

// Threefry-2x32 with 20 rounds (Salmon and others, 2011).
Pair three_fry(uint64_t key, uint64_t counter) {
  constexpr int kRotations[8] = {13, 15, 26, 6, 17, 29, 16, 24};
  const auto k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  const uint32_t keys[3] = {k0, k1, 0x1BD11BDAu ^ k0 ^ k1};
  uint32_t x0 = static_cast<uint32_t>(counter) + keys[0], x1 = static_cast<uint32_t>(counter >> 32) + keys[1];
  for (uint32_t round = 0; round < 20; ++round) {
    x0 += x1;
    x1 = rotated(x1, kRotations[round % 8]) ^ x0;
    if (round % 4 != 3) continue;
    const uint32_t injection = round / 4 + 1;
    x0 += keys[injection % 3];
    x1 += keys[(injection + 1) % 3] + injection;
  }
  return {x0, x1};
}

// Words of 32 bits, two from each counter: they are neighbours along the first even dimension, or the longest one.
void three_fry_words(uint64_t key, uint64_t counter, const Dims& dims, Literal& out, uint64_t& used) {
  Dims shape = dims.empty() ? Dims{1} : dims;
  size_t split = shape.size();
  for (size_t i = 0; i < shape.size() && split == shape.size(); ++i)
    if (shape[i] % 2 == 0) split = i;
  if (split == shape.size()) {
    split = 0;
    for (size_t i = 1; i < shape.size(); ++i)
      if (shape[i] > shape[split]) split = i;
  }
  Dims half = shape;
  half[split] = (half[split] + 1) / 2;
  const Dims strides = strides_of(half);
  used = static_cast<uint64_t>(ir::tensor(DType::U32, half).size());
  for_each_index(shape, [&](const Dims& index, int64_t i) {
    Dims at = index;
    at[split] /= 2;
    const Pair words = three_fry(key, counter + static_cast<uint64_t>(offset_of(at, strides)));
    ir::store_int(out.type.dtype, element(out, i), index[split] % 2 == 0 ? words.first : words.second);
  });
}

std::vector<Literal> three_fry_bits(const Literal& state, Literal out) {
  const auto key = state.get<uint64_t>(0), counter = state.get<uint64_t>(1);
  uint64_t used = static_cast<uint64_t>(out.type.size());
  if (byte_size(out.type.dtype) == 8) {
    for (int64_t i = 0; i < out.type.size(); ++i) {
      const Pair words = three_fry(key, counter + static_cast<uint64_t>(i));
      out.set<uint64_t>(i, words.first | static_cast<uint64_t>(words.second) << 32);
    }
  } else {
    three_fry_words(key, counter, out.type.dims, out, used);
  }
  Literal next = state;
  next.set<uint64_t>(1, counter + used);
  std::vector<Literal> results = one(std::move(next));
  results.push_back(std::move(out));
  return results;
}

std::vector<Literal> philox_bits(const Literal& state, Literal out) {
  const auto seed = state.get<uint64_t>(0), offset = state.get<uint64_t>(1);
  const bool wide = byte_size(out.type.dtype) == 8;
  const auto word = [&](int64_t i) { return scalar::s_philox_u32(seed, offset, static_cast<uint64_t>(i)); };
  for (int64_t i = 0; i < out.type.size(); ++i) {
    if (wide)
      out.set<uint64_t>(i, word(2 * i) | static_cast<uint64_t>(word(2 * i + 1)) << 32);
    else
      ir::store_int(out.type.dtype, element(out, i), word(i));
  }
  const int64_t words = out.type.size() * (wide ? 2 : 1);
  Literal next = state;
  next.set<uint64_t>(1, offset + static_cast<uint64_t>((words + 3) / 4));
  std::vector<Literal> results = one(std::move(next));
  results.push_back(std::move(out));
  return results;
}

std::vector<Literal> rng_bit_generator(const Call& call) {
  const Literal& state = call.in(0);
  THALWEG_CHECK(state.type.size() >= 2, Unsupported, "rng_bit_generator needs a state of at least two numbers: ", to_string(state.type));
  if (call.attrs().string("rng_algorithm") == "THREE_FRY") return three_fry_bits(state, Literal(call.type(1)));
  return philox_bits(state, Literal(call.type(1)));
}

// A number in [0, 1) of 53 bits.
double uniform(uint64_t stream, int64_t i) {
  const uint64_t high = scalar::s_philox_u32(stream, 0, static_cast<uint64_t>(2 * i)), low = scalar::s_philox_u32(stream, 0, static_cast<uint64_t>(2 * i + 1));
  return std::ldexp(static_cast<double>(high << 21 | low >> 11), -53);
}

// UNIFORM: [a, b); NORMAL: mean a, standard deviation b. Which numbers is left open by the definition; ours depend on the op's place in the program alone.
std::vector<Literal> rng(const Call& call) {
  const bool normal = call.attrs().string("rng_distribution") == "NORMAL";
  const double a = to_double(call.in(0), 0), b = to_double(call.in(1), 0);
  const uint64_t stream = call.machine.next_random_stream();
  Literal out(call.type());
  for (int64_t i = 0; i < out.type.size(); ++i) {
    double value = a + (b - a) * uniform(stream, i);
    if (normal) value = a + b * std::sqrt(-2 * std::log(1 - uniform(stream, 2 * i))) * std::cos(2 * std::numbers::pi * uniform(stream, 2 * i + 1));
    ir::store_double(out.type.dtype, element(out, i), is_float(out.type.dtype) ? value : std::floor(value));
  }
  return one(std::move(out));
}

}  // namespace

OpFn random_function(OpCode code) {
  switch (code) {
    case OpCode::Rng:
      return rng;
    case OpCode::RngBitGenerator:
      return rng_bit_generator;
    default:
      return nullptr;
  }
}

}  // namespace thalweg::interp
