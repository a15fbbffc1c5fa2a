// Broken text: programs with random pieces deleted, doubled, moved and changed are refused with an error or read back as they print; nothing crashes.
#include <gtest/gtest.h>

#include <chrono>
#include <random>

#include "tests/fuzz/text_round_trip.h"
#include "tests/ir/corpus.h"

namespace thalweg::ir {
namespace {

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  std::string mutated(const std::vector<std::string>& texts) {
    std::string text = texts[below(texts.size())];
    for (size_t n = 1 + below(4); n > 0 && !text.empty(); --n) once(text, texts[below(texts.size())]);
    return text;
  }

 private:
  size_t below(size_t n) { return static_cast<size_t>(random_() % std::max<size_t>(n, 1)); }

  void once(std::string& text, const std::string& other) {
    static const char* const kPieces[] = {"<",  ">",        "[",    "]",       "{",  "}",    "(", ")",  "-1",     "9223372036854775807",
                                          "0x", "\"",       "%0",   "tensor<", "?x", ":",    ",", "->", "dense<", "#",
                                          "@",  "f8E4M3FN", "true", "loc(",    "\n", "1e999"};
    const size_t at = below(text.size());
    switch (below(6)) {
      case 0:
        text.erase(at, 1 + below(20));
        break;
      case 1:
        text.insert(at, text.substr(below(text.size()), 1 + below(40)));
        break;
      case 2:
        text.insert(at, other.substr(below(other.size()), 1 + below(60)));
        break;
      case 3:
        text[at] = static_cast<char>(random_());
        break;
      case 4:
        text.insert(at, kPieces[below(std::size(kPieces))]);
        break;
      case 5:
        text.resize(at);
        break;
    }
  }

  std::mt19937_64 random_;
};

TEST(Mutations, BrokenTextIsRefusedOrReadsBack) {
  std::vector<std::string> texts;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(__FILE__).parent_path().parent_path() / "fuzz/corpus"))
    texts.push_back(tests::read_file(entry.path()));
  ASSERT_FALSE(texts.empty());
  const uint64_t seed = std::getenv("THALWEG_SEED") ? std::strtoull(std::getenv("THALWEG_SEED"), nullptr, 10) : 1;
  std::cout << "seed " << seed << "\n";
  Mutator mutator(seed);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(3);
  int64_t good = 0, all = 0;
  for (; std::chrono::steady_clock::now() < end; ++all) good += tests::text_round_trip(mutator.mutated(texts));
  std::cout << all << " texts, " << good << " of them programs\n";
  EXPECT_GT(good, 0);
  EXPECT_LT(good, all);
}

}  // namespace
}  // namespace thalweg::ir
