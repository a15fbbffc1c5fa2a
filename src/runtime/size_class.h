// Size classes of memory blocks: steps of 256 bytes up to 8 KiB, then 32 steps a doubling, so that rounding up costs at most 3 %.
#pragma once

#include <bit>
#include <cstddef>

namespace thalweg::runtime {

inline constexpr size_t kGranule = 256;                        // every block's size and offset is a multiple
inline constexpr size_t kLargeGranule = 32 << 10;              // … and of this one for blocks above kSmallBytes
inline constexpr size_t kSmallBytes = 2 << 20;                 // blocks up to this size live apart from larger ones
inline constexpr size_t kLargestBytes = size_t{1} << 40;       // nothing larger is ever allocated
inline constexpr unsigned kSizeClasses = 32 + 32 * (40 - 13);  // classes of kLargestBytes and less

// The bytes of a block of class `index`.
constexpr size_t class_bytes(unsigned index) {
  if (index < 32) return (index + 1) * kGranule;
  unsigned doubling = (index - 32) / 32, step = (index - 32) % 32;
  return (size_t{256} << doubling) * (33 + step);
}

// The largest class whose blocks fit into `bytes`, at least kGranule.
constexpr unsigned class_within(size_t bytes) {
  if (bytes < 8192 + kGranule) return static_cast<unsigned>(bytes / kGranule) - 1;
  unsigned log = std::bit_width(bytes) - 1;
  unsigned step = static_cast<unsigned>(bytes >> (log - 5)) - 32;  // 0: exactly 2^log, the last class of the doubling below
  return 32 * (log - 13) + 31 + step;
}

// The smallest class whose blocks hold `bytes`, at most kLargestBytes.
constexpr unsigned class_for(size_t bytes) {
  if (bytes <= kGranule) return 0;
  unsigned index = class_within(bytes);
  return class_bytes(index) == bytes ? index : index + 1;
}

}  // namespace thalweg::runtime
