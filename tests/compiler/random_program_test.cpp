// The CPU compiler against the reference interpreter on random programs: equal bits.
#include "tests/compiler/random_program.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "interp/interpreter.h"
#include "tests/compiler/run_program.h"

namespace thalweg {
namespace {

uint64_t seed() {
  if (const char* text = std::getenv("THALWEG_TEST_SEED")) return std::strtoull(text, nullptr, 10);
  return std::random_device{}();
}

void compare(const ir::Literal& got, const ir::Literal& want, uint64_t seed, size_t output) {
  ASSERT_EQ(got.type, want.type) << "seed " << seed;
  for (int64_t i = 0; i < got.type.size(); ++i) {
    double g = ir::to_double(got, i), w = ir::to_double(want, i);
    ASSERT_EQ(g, w) << "seed " << seed << ", output " << output << " of type " << ir::to_string(got.type) << ", element " << i;
  }
}

TEST(RandomProgram, EqualsTheInterpreter) {
  const uint64_t first = seed();
  std::printf("THALWEG_TEST_SEED=%llu\n", static_cast<unsigned long long>(first));
  const char* count = std::getenv("THALWEG_TEST_PROGRAMS");
  const int programs = count ? std::atoi(count) : 40;
  for (int n = 0; n < programs; ++n) {
    const uint64_t s = first + static_cast<uint64_t>(n);
    testing::RandomProgram random(s);
    std::unique_ptr<ir::Function> function = random.make(4 + n % 24);
    std::vector<ir::Literal> inputs;
    for (const auto& arg : function->body.args) inputs.push_back(random.input(arg->type));
    std::vector<ir::Literal> want = interp::run(*function, inputs), got;
    try {
      got = testing::compile_and_run(*function, inputs);
    } catch (const std::exception& e) {
      FAIL() << "seed " << s << ": " << e.what();
    }
    for (size_t i = 0; i < want.size(); ++i) compare(got[i], want[i], s, i);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace thalweg
