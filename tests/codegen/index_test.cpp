// Index arithmetic against plain integer arithmetic over all values of the loop variables.
#include "codegen/index.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

namespace thalweg::codegen {
namespace {

// A space of variables x0, x1, … and an evaluator of its affine indices; computed atoms are evaluated by the formulas they were made from.
struct Fixture {
  IndexSpace space;
  std::vector<int64_t> extents, values;
  size_t vars = 0;

  explicit Fixture(std::vector<int64_t> e) : extents(std::move(e)), values(extents.size()), vars(extents.size()) {
    for (size_t i = 0; i < vars; ++i) space.add_atom({"x" + std::to_string(i), 0, extents[i] - 1, 1, static_cast<int>(i), 1});
  }
  Index linear() const {
    Index index;
    int64_t stride = 1;
    for (size_t i = vars; i-- > 0;) index = index + space.var(static_cast<int>(i)) * stride, stride *= extents[i];
    return index;
  }
  // Only affine indices over the variables.
  std::optional<int64_t> value(const Index& index) const {
    int64_t sum = index.constant;
    for (auto [atom, c] : index.terms) {
      if (atom >= static_cast<int>(vars)) return {};
      sum += c * values[static_cast<size_t>(atom)];
    }
    return sum;
  }
  void each(const std::function<void()>& fn, size_t k = 0) {
    if (k == vars) return fn();
    for (values[k] = 0; values[k] < extents[k]; ++values[k]) each(fn, k + 1);
  }
};

TEST(Index, UnflattenAgreesWithDivision) {
  Fixture f({3, 4, 5});
  const Index linear = f.linear();
  const std::vector<std::vector<int64_t>> shapes{{60}, {3, 20}, {12, 5}, {3, 4, 5}, {1, 12, 1, 5}, {3, 1, 20}};
  for (const auto& shape : shapes) {
    std::vector<Index> parts = f.space.unflatten(linear, shape);
    EXPECT_TRUE(f.space.requests().empty());
    f.each([&] {
      int64_t rest = *f.value(linear);
      for (size_t k = shape.size(); k-- > 0;) {
        ASSERT_EQ(f.value(parts[k]).value_or(-1), rest % shape[k]);
        rest /= shape[k];
      }
    });
  }
}

TEST(Index, AsksForTheSplitThatMakesItAffine) {
  Fixture f({2, 24});
  f.space.unflatten(f.linear(), {2, 3, 8});
  ASSERT_EQ(f.space.requests().size(), 1u);
  EXPECT_EQ(*f.space.requests().begin(), (std::pair<int, int64_t>(1, 8)));
  BaseDim dim{24, {}};
  EXPECT_TRUE(add_split(dim, 8));
  EXPECT_FALSE(add_split(dim, 8));
  EXPECT_FALSE(add_split(dim, 3)) << "3 and 8 are no chain";
  EXPECT_TRUE(add_split(dim, 4));
  EXPECT_FALSE(add_split(dim, 24));
  EXPECT_FALSE(add_split(dim, 5));
}

TEST(Index, ConstantsStayInRange) {
  Fixture f({8, 64});
  // Columns 64…127 of rows of 192.
  const Index at = f.space.var(0) * 192 + f.space.var(1) + Index(64);
  auto [row, column] = f.space.div_mod(at, 192);
  f.each([&] {
    ASSERT_EQ(f.value(row), f.values[0]);
    ASSERT_EQ(f.value(column), f.values[1] + 64);
  });
  EXPECT_EQ(f.space.range(column), (std::pair<int64_t, int64_t>(64, 127)));
}

TEST(Index, SumsAndProducts) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  Fixture f({3, 2, 4});
  for (int round = 0; round < 100; ++round) {
    Index a(static_cast<int64_t>(random() % 7) - 3), b(static_cast<int64_t>(random() % 7) - 3);
    for (int k = 0; k < 3; ++k)
      a = a + f.space.var(k) * (static_cast<int64_t>(random() % 5) - 2), b = b + f.space.var(k) * (static_cast<int64_t>(random() % 5) - 2);
    const int64_t factor = static_cast<int64_t>(random() % 5) - 2;
    const Index sum = a + b * factor;
    auto [low, high] = f.space.range(sum);
    f.each([&] {
      ASSERT_EQ(*f.value(sum), *f.value(a) + factor * *f.value(b));
      ASSERT_LE(low, *f.value(sum));
      ASSERT_GE(high, *f.value(sum));
    });
  }
}

}  // namespace
}  // namespace thalweg::codegen
