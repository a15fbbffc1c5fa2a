// Mixing 64-bit words into hashes: one multiply a word, good enough for keys that are compared by 128 bits of it.
#pragma once

#include <cstdint>

namespace thalweg {

// Folds `word` into the hash `h`; order matters. The full 128-bit product of the two, halves xored.
inline uint64_t mix(uint64_t h, uint64_t word) {
  const unsigned __int128 product = static_cast<unsigned __int128>(h ^ 0x2D358DCCAA6C78A5ull) * (word ^ 0x8BB84B93962EACC9ull);
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64) ^ (word << 1);
}

}  // namespace thalweg
