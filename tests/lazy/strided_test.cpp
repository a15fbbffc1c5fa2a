// Strided reads and writes as IR, run by the interpreter, against plain loops.
#include "lazy/strided.h"

#include <gtest/gtest.h>

#include "interp/interpreter.h"
#include "random_views.h"

namespace thalweg::lazy {
namespace {

ir::Literal numbers(ir::Dims dims, float first) {
  ir::Literal literal(ir::tensor(ir::DType::F32, std::move(dims)));
  for (int64_t i = 0; i < literal.type.size(); ++i) literal.set<float>(i, first + static_cast<float>(i));
  return literal;
}

int64_t extent(const View& view) {
  int64_t most = view.offset;
  for (int64_t at : positions(view)) most = std::max(most, at);
  return most + 1;
}

// Storage content with a few elements to spare, in one or two dims.
ir::Dims storage_dims(const View& view, std::mt19937& random) {
  const int64_t n = extent(view) + static_cast<int64_t>(random() % 5);
  if (random() % 2 && n % 2 == 0) return {2, n / 2};
  return {n};
}

ir::Literal run(const ir::Module& module, std::vector<ir::Literal> arguments) { return interp::run(module, module.main(), arguments).at(0); }

TEST(Strided, ReadsLikeLoops) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 400; ++round) {
    const View view = random_view(random);
    const ir::Literal storage = numbers(storage_dims(view, random), 1);
    ir::Module module;
    module.functions.push_back(std::make_unique<ir::Function>());
    ir::Function& f = *module.functions.back();
    f.name = "main";
    ir::Builder b(f.body);
    b.ret({strided_read(b, f.body.add_arg(storage.type), view)});
    const ir::Literal got = run(module, {storage});
    const std::vector<int64_t> at = positions(view);
    ASSERT_EQ(got.type.size(), static_cast<int64_t>(at.size())) << describe(view);
    for (size_t i = 0; i < at.size(); ++i) ASSERT_EQ(got.get<float>(static_cast<int64_t>(i)), storage.get<float>(at[i])) << describe(view) << " element " << i;
  }
}

TEST(Strided, WritesLikeLoops) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 400; ++round) {
    const View view = random_view(random);
    std::vector<int64_t> at = positions(view), sorted = at;
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) continue;  // PyTorch refuses writes to overlapping windows
    const ir::Literal storage = numbers(storage_dims(view, random), 1);
    const ir::Literal update = numbers(ir::Dims(view.dims().begin(), view.dims().end()), 1000);
    ir::Module module;
    module.functions.push_back(std::make_unique<ir::Function>());
    ir::Function& f = *module.functions.back();
    f.name = "main";
    ir::Builder b(f.body);
    ir::Value* memory = f.body.add_arg(storage.type);
    b.ret({strided_write(b, memory, view, f.body.add_arg(update.type))});
    const ir::Literal got = run(module, {storage, update});
    ir::Literal expected = storage;
    for (size_t i = 0; i < at.size(); ++i) expected.set<float>(at[i], update.get<float>(static_cast<int64_t>(i)));
    ASSERT_EQ(got, expected) << describe(view);
  }
}

TEST(Strided, ReadsBytesAsAnotherDtype) {
  ir::Literal storage = numbers({2, 3}, 1);
  ir::Module module;
  module.functions.push_back(std::make_unique<ir::Function>());
  ir::Function& f = *module.functions.back();
  f.name = "main";
  ir::Builder b(f.body);
  const int64_t dims[] = {12};
  b.ret({strided_read(b, f.body.add_arg(storage.type), View(ir::DType::U16, dims))});
  const ir::Literal got = run(module, {storage});
  ASSERT_EQ(got.data, storage.data);
}

}  // namespace
}  // namespace thalweg::lazy
