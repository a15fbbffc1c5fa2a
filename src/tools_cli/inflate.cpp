// Deflate: stored blocks, fixed and dynamic Huffman codes.
#include "tools_cli/inflate.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "support/error.h"

namespace thalweg::tools_cli {
namespace {

// Canonical Huffman codes of at most 15 bits, decoded by counting codes a length.
class Huffman {
 public:
  explicit Huffman(std::span<const uint8_t> lengths) {
    for (uint8_t length : lengths) ++count_[length];
    count_[0] = 0;
    std::array<uint16_t, 17> next{};
    for (size_t i = 1; i < 16; ++i) next[i + 1] = static_cast<uint16_t>(next[i] + count_[i]);
    symbols_.resize(lengths.size());
    for (size_t s = 0; s < lengths.size(); ++s)
      if (lengths[s]) symbols_[next[lengths[s]]++] = static_cast<uint16_t>(s);
  }

  // The next symbol; `bit` gives one bit a call.
  template <class Bit>
  unsigned decode(const Bit& bit) const {
    int code = 0, first = 0, index = 0;
    for (size_t length = 1; length < 16; ++length) {
      code |= static_cast<int>(bit());
      const int count = count_[length];
      if (code - count < first) return symbols_[static_cast<size_t>(index + code - first)];
      index += count;
      first = (first + count) << 1;
      code <<= 1;
    }
    raise(ErrorKind::Invalid, "compressed data is broken: no such code");
  }

 private:
  std::array<uint16_t, 16> count_{};
  std::vector<uint16_t> symbols_;
};

constexpr uint16_t kLengthBase[29] = {3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
constexpr uint8_t kLengthBits[29] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
constexpr uint16_t kDistanceBase[30] = {1,   2,   3,   4,   5,   7,    9,    13,   17,   25,   33,   49,   65,    97,    129,
                                        193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};

class Inflater {
 public:
  Inflater(std::span<const std::byte> in, size_t size) : in_(in), size_(size) { out_.reserve(size); }

  std::vector<std::byte> run() {
    bool last;
    do {
      last = bits(1);
      const unsigned kind = bits(2);
      if (kind == 0)
        stored();
      else if (kind == 1)
        fixed();
      else if (kind == 2)
        dynamic();
      else
        raise(ErrorKind::Invalid, "compressed data is broken: unknown kind of block");
    } while (!last);
    THALWEG_CHECK(out_.size() == size_, Invalid, "compressed data has the wrong size: ", out_.size(), ", expected: ", size_);
    return std::move(out_);
  }

 private:
  unsigned bits(int n) {
    while (held_ < n) {
      THALWEG_CHECK(at_ < in_.size(), Invalid, "compressed data ends too early");
      buffer_ |= static_cast<uint32_t>(in_[at_++]) << held_;
      held_ += 8;
    }
    const unsigned value = buffer_ & ((1u << n) - 1);
    buffer_ >>= n;
    held_ -= n;
    return value;
  }

  void put(std::byte b) {
    THALWEG_CHECK(out_.size() < size_, Invalid, "compressed data holds more than it says: ", size_);
    out_.push_back(b);
  }

  void stored() {
    buffer_ = 0;
    held_ = 0;
    const unsigned length = bits(16), check = bits(16);
    THALWEG_CHECK((length ^ check) == 0xFFFF, Invalid, "compressed data is broken: length of a stored block");
    for (unsigned i = 0; i < length; ++i) put(static_cast<std::byte>(bits(8)));
  }

  void fixed() {
    std::array<uint8_t, 288> lengths;
    for (size_t i = 0; i < lengths.size(); ++i) lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
    std::array<uint8_t, 30> distances;
    distances.fill(5);
    codes(Huffman(lengths), Huffman(distances));
  }

  void dynamic() {
    constexpr uint8_t kOrder[19] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    const size_t literals = bits(5) + 257, distances = bits(5) + 1, lengths = bits(4) + 4;
    std::array<uint8_t, 19> meta{};
    for (size_t i = 0; i < lengths; ++i) meta[kOrder[i]] = static_cast<uint8_t>(bits(3));
    const Huffman lengths_code(meta);
    std::vector<uint8_t> all;
    while (all.size() < literals + distances) {
      const unsigned symbol = lengths_code.decode([this] { return bits(1); });
      if (symbol < 16) {
        all.push_back(static_cast<uint8_t>(symbol));
        continue;
      }
      THALWEG_CHECK(symbol != 16 || !all.empty(), Invalid, "compressed data is broken: nothing to repeat");
      const uint8_t value = symbol == 16 ? all.back() : 0;
      const unsigned times = symbol == 16 ? 3 + bits(2) : symbol == 17 ? 3 + bits(3) : 11 + bits(7);
      all.insert(all.end(), times, value);
    }
    THALWEG_CHECK(all.size() == literals + distances, Invalid, "compressed data is broken: too many code lengths");
    codes(Huffman(std::span(all).first(literals)), Huffman(std::span(all).subspan(literals)));
  }

  void codes(const Huffman& literals, const Huffman& distances) {
    const auto bit = [this] { return bits(1); };
    while (true) {
      const unsigned symbol = literals.decode(bit);
      if (symbol < 256) {
        put(static_cast<std::byte>(symbol));
        continue;
      }
      if (symbol == 256) return;
      THALWEG_CHECK(symbol < 286, Invalid, "compressed data is broken: no such length");
      const size_t length = kLengthBase[symbol - 257] + bits(kLengthBits[symbol - 257]);
      const unsigned d = distances.decode(bit);
      THALWEG_CHECK(d < 30, Invalid, "compressed data is broken: no such distance");
      const size_t distance = kDistanceBase[d] + bits(d < 4 ? 0 : static_cast<int>(d) / 2 - 1);
      THALWEG_CHECK(distance <= out_.size(), Invalid, "compressed data is broken: distance goes before the start");
      for (size_t i = 0; i < length; ++i) put(out_[out_.size() - distance]);
    }
  }

  std::span<const std::byte> in_;
  size_t size_, at_ = 0;
  uint32_t buffer_ = 0;
  int held_ = 0;
  std::vector<std::byte> out_;
};

}  // namespace

std::vector<std::byte> inflate(std::span<const std::byte> compressed, size_t size) { return Inflater(compressed, size).run(); }

}  // namespace thalweg::tools_cli
