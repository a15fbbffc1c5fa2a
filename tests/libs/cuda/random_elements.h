// Random numbers that every float type of GPUs holds exactly, as doubles and as the bytes of a type.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

namespace thalweg::libs::cuda {

enum class Format { F32, F64, F16, BF16 };

struct Elements {
  std::vector<double> values;
  std::vector<char> bytes;
};

inline size_t bytes_of(Format format) { return format == Format::F64 ? 8 : format == Format::F32 ? 4 : 2; }

// The nearest value with `bits` bits of fraction.
inline double rounded(double x, int bits) {
  int exponent = 0;
  const double fraction = std::frexp(x, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(fraction, bits + 1)), exponent - bits - 1);
}

// Normally distributed within 4, some zero; f16 and bf16 hold all of them exactly, so that all types compute with the same numbers.
inline Elements random_elements(std::mt19937& random, size_t count, Format format) {
  Elements made;
  std::normal_distribution<double> normal;
  for (size_t i = 0; i < count; ++i) {
    double x = rounded(std::clamp(normal(random), -4.0, 4.0), 7) * (std::abs(normal(random)) < 0.01 ? 0 : 1);
    if (std::abs(x) < 0x1p-14) x = 0;
    made.values.push_back(x);
    const uint32_t bits = std::bit_cast<uint32_t>(static_cast<float>(x));
    uint64_t code = std::bit_cast<uint64_t>(x);
    if (format == Format::F32) code = bits;
    if (format == Format::BF16) code = bits >> 16;
    if (format == Format::F16) code = x == 0 ? bits >> 16 & 0x8000 : (bits >> 16 & 0x8000) | ((bits >> 13 & 0x3ffff) - (112u << 10));
    made.bytes.insert(made.bytes.end(), reinterpret_cast<const char*>(&code), reinterpret_cast<const char*>(&code) + bytes_of(format));
  }
  return made;
}

inline double element_at(const std::vector<char>& bytes, size_t i, Format format) {
  auto get = [&](auto raw) {
    std::memcpy(&raw, bytes.data() + i * sizeof raw, sizeof raw);
    return raw;
  };
  if (format == Format::F64) return get(double{});
  if (format == Format::F32) return get(float{});
  const uint16_t code = get(uint16_t{});
  if (format == Format::BF16) return std::bit_cast<float>(static_cast<uint32_t>(code) << 16);
  const int exponent = code >> 10 & 31;
  const double size = exponent ? std::ldexp(1024 + (code & 1023), exponent - 25) : std::ldexp(code & 1023, -24);
  return code >> 15 ? -size : size;
}

}  // namespace thalweg::libs::cuda
