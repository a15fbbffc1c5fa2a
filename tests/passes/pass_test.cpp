// Every pass and the whole pipeline on random programs: the interpreter gives the same bits before and after, and the verifier agrees.
#include "passes/pass.h"

#include <gtest/gtest.h>

#include "interp/interpreter.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "passes/canonicalize.h"
#include "passes/cse.h"
#include "passes/dce.h"
#include "passes/fold.h"
#include "tests/passes/random_program.h"

namespace thalweg::passes {
namespace {

constexpr uint32_t kSeed = 1000;
constexpr int kPrograms = 400;

size_t op_count(const ir::Function& function) { return function.body.ops.size(); }

void check_pass(const char* name, PassFn pass) {
  int changed = 0;
  for (int i = 0; i < kPrograms; ++i) {
    RandomProgram program(kSeed + static_cast<uint32_t>(i));
    auto before = interp::run(*program.function, program.inputs);
    auto original = ir::clone(*program.function);
    changed += pass(*program.function, nullptr);
    ASSERT_NO_THROW(ir::verify(*program.function)) << name << " seed " << kSeed + i << "\n" << ir::print(*original) << "\n" << ir::print(*program.function);
    auto after = interp::run(*program.function, program.inputs);
    ASSERT_EQ(bit_difference(before, after), "") << name << " seed " << kSeed + i << "\n" << ir::print(*original) << "\n" << ir::print(*program.function);
  }
  std::printf("%s changed %d of %d programs\n", name, changed, kPrograms);
  EXPECT_GT(changed, kPrograms / 4);
}

TEST(Passes, DceKeepsTheMeaning) { check_pass("dce", dce); }
TEST(Passes, CseKeepsTheMeaning) { check_pass("cse", cse); }
TEST(Passes, FoldKeepsTheMeaning) { check_pass("fold", fold); }
TEST(Passes, CanonicalizeKeepsTheMeaning) { check_pass("canonicalize", canonicalize); }

TEST(Passes, SimplifyKeepsTheMeaningVerifiesAfterEachPassAndSettles) {
  size_t before_ops = 0, after_ops = 0;
  for (int i = 0; i < kPrograms; ++i) {
    RandomProgram program(kSeed + 100000 + static_cast<uint32_t>(i), 50);
    auto before = interp::run(*program.function, program.inputs);
    before_ops += op_count(*program.function);
    simplify(*program.function, nullptr, [](const Pass& pass, const ir::Function& function) { ASSERT_NO_THROW(ir::verify(function)) << pass.name; });
    after_ops += op_count(*program.function);
    ASSERT_EQ(bit_difference(before, interp::run(*program.function, program.inputs)), "") << "seed " << kSeed + 100000 + i;
  }
  std::printf("%zu ops became %zu\n", before_ops, after_ops);
  EXPECT_LT(after_ops, before_ops * 3 / 4);
}

}  // namespace
}  // namespace thalweg::passes
