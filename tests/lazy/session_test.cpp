// The session end to end: recording, flushing, reading, caching, failing and going on.
#include "lazy/session.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <thread>

#include "lazy/row.h"

namespace thalweg::lazy {
namespace {

// A float tensor on the device as PyTorch's side would hold it.
struct Tensor {
  explicit Tensor(ir::Dims dims) : view(ir::DType::F32, dims), storage(new Storage(static_cast<size_t>(view.count()) * 4)) {}
  Tensor(ir::Dims dims, std::vector<float> values) : Tensor(std::move(dims)) { Session::get().upload(*storage, values.data(), view); }
  std::vector<float> read() const {
    const std::shared_ptr<const void> bytes = Session::get().read(*storage, "test");
    const float* data = static_cast<const float*>(bytes.get());
    return {data, data + view.count()};
  }
  View view;
  StoragePtr storage;
};

constexpr uint64_t kTensor = static_cast<uint64_t>(ArgKind::Tensor) | 1 << 8;
constexpr uint64_t kScalar = static_cast<uint64_t>(ArgKind::Scalar) | 1 << 8;

void record(const char* row, std::vector<const Tensor*> tensors, std::vector<double> numbers, const Tensor& result, bool backward = false) {
  std::vector<TensorArg> arguments;
  std::vector<uint64_t> words;
  for (const Tensor* t : tensors) {
    arguments.push_back({t->storage.get(), t->view});
    words.push_back(kTensor);
  }
  std::vector<Scalar> scalars;
  for (double number : numbers) {
    scalars.push_back({true, std::bit_cast<uint64_t>(number)});
    words.push_back(kScalar);
  }
  const ResultArg results[] = {{result.storage.get(), result.view}};
  Record r;
  r.row = find_row(row);
  ASSERT_NE(r.row, nullptr) << row;
  r.tensors = arguments;
  r.words = words;
  r.scalars = scalars;
  r.results = results;
  r.backward = backward;
  Session::get().record(r);
}

int64_t compiles() {
  std::lock_guard guard(Session::get().counters_lock());
  return Session::get().counters().counts["UncachedCompile"];
}

TEST(Session, RunsWhatWasRecorded) {
  Tensor a({2, 3}, {1, 2, 3, 4, 5, 6}), b({3}, {10, 20, 30}), sum({2, 3});
  record("aten::add.Tensor", {&a, &b}, {}, sum);
  EXPECT_EQ(sum.read(), (std::vector<float>{11, 22, 33, 14, 25, 36}));
}

TEST(Session, NumbersAreArguments) {
  Tensor a({4}, {1, 2, 3, 4});
  int64_t before = 0;
  for (double factor : {0.5, 1.0, 0.0, 3.0}) {
    Tensor scaled({4});
    record("aten::mul.Tensor", {&a}, {factor}, scaled);
    const std::vector<float> got = scaled.read();
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(got[i], static_cast<float>(factor) * static_cast<float>(i + 1));
    if (factor == 0.5) before = compiles();
  }
  EXPECT_EQ(compiles(), before);
}

TEST(Session, InPlaceWritesMakeVersions) {
  Tensor x({3}, {1, 2, 3}), y({3});
  record("aten::mul.Tensor", {&x}, {2.0}, y);   // reads the old version
  record("aten::add.Tensor", {&x}, {10.0}, x);  // x += 10
  record("aten::mul.Tensor", {&x, &y}, {}, x);  // x *= y
  EXPECT_EQ(y.read(), (std::vector<float>{2, 4, 6}));
  EXPECT_EQ(x.read(), (std::vector<float>{22, 48, 78}));
}

TEST(Session, WritesThroughWindows) {
  Tensor x({2, 3}, {1, 2, 3, 4, 5, 6});
  Tensor column = x;
  const int64_t dims[] = {2}, strides[] = {3};
  column.view = View(ir::DType::F32, dims, strides, 1);
  record("aten::mul.Tensor", {&column}, {100.0}, column);
  EXPECT_EQ(x.read(), (std::vector<float>{1, 200, 3, 4, 500, 6}));
}

TEST(Session, UpdatesInALoopCompileOnce) {
  Tensor weight({64}, std::vector<float>(64, 1)), grad({64}, std::vector<float>(64, 0.5f));
  int64_t after_first = 0;
  for (int step = 0; step < 20; ++step) {
    Tensor scaled({64});
    record("aten::mul.Tensor", {&grad}, {0.1 * step}, scaled);
    record("aten::sub.Tensor", {&weight, &scaled}, {}, weight);
    Session::get().sync("sync", false);
    if (step == 1) after_first = compiles();
  }
  EXPECT_EQ(compiles(), after_first);
  float expected = 1;
  for (int step = 0; step < 20; ++step) expected -= static_cast<float>(0.1 * step) * 0.5f;
  EXPECT_NEAR(weight.read()[0], expected, 1e-5);
  EXPECT_GE(Session::get().flushes().back().donated, 1);
}

TEST(Session, DonationNeverTouchesWhatIsStillRead) {
  Tensor x({3}, {1, 2, 3}), alias({3});
  Session::get().share(*alias.storage, *x.storage);
  record("aten::add.Tensor", {&x}, {1.0}, x);
  Session::get().sync("sync", true);
  EXPECT_EQ(alias.read(), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(x.read(), (std::vector<float>{2, 3, 4}));
}

TEST(Session, ExplainsACompile) {
  auto step = [](int64_t n) {
    Tensor a({n}, std::vector<float>(static_cast<size_t>(n), 1)), c({n});
    record("aten::sin", {&a}, {}, c);
    record("aten::mul.Tensor", {&c, &a}, {}, c);
    record("aten::cos", {&c}, {}, c);
    Session::get().sync("sync", true);
    return Session::get().flushes().back().compiled;
  };
  EXPECT_NE(step(37), "");
  EXPECT_EQ(step(37), "");
  EXPECT_EQ(step(35), "input 0 changed from f32[37] to f32[35]");
}

TEST(Session, OutOfRangeIndexRaisesAndLeavesTheStateAlone) {
  Tensor table({4, 2}, {0, 1, 2, 3, 4, 5, 6, 7}), weight({2}, {1, 1}), picked({2});
  Tensor index({1});
  index.view.dtype = ir::DType::S64;
  index.storage = StoragePtr(new Storage(8));
  auto lookup = [&](int64_t at) {
    Session::get().upload(*index.storage, &at, index.view);
    Tensor rows({1, 2});
    const TensorArg arguments[] = {{table.storage.get(), table.view}, {index.storage.get(), index.view}};
    const uint64_t words[] = {kTensor,
                              kTensor,
                              static_cast<uint64_t>(ArgKind::Int) | 1 << 8,
                              static_cast<uint64_t>(-1),
                              static_cast<uint64_t>(ArgKind::Bool) | 1 << 8,
                              0,
                              static_cast<uint64_t>(ArgKind::Bool) | 1 << 8,
                              0};
    const ResultArg results[] = {{rows.storage.get(), rows.view}};
    Record r;
    r.row = find_row("aten::embedding");
    r.tensors = arguments;
    r.words = words;
    r.results = results;
    Session::get().record(r);
    rows.view = picked.view;
    record("aten::add.Tensor", {&weight, &rows}, {}, weight);
  };
  lookup(3);
  Session::get().sync("sync", true);
  EXPECT_EQ(weight.read(), (std::vector<float>{7, 8}));
  lookup(9);
  try {
    Session::get().sync("sync", true);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Index);
    EXPECT_NE(std::string(error.what()).find("9"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("aten::embedding"), std::string::npos) << error.what();
  }
  EXPECT_EQ(weight.read(), (std::vector<float>{7, 8}));
  lookup(0);
  Session::get().sync("sync", true);
  EXPECT_EQ(weight.read(), (std::vector<float>{7, 9}));
}

TEST(Session, BudgetFlushesAtTheSameOperation) {
  Session::get().sync("sync", true);
  Session::get().set_budget(5);
  Tensor x({2}, {0, 0});
  for (int i = 0; i < 12; ++i) record("aten::add.Tensor", {&x}, {1.0}, x);
  Session::get().set_budget(20000);
  EXPECT_EQ(x.read(), (std::vector<float>{12, 12}));
  int cuts = 0;
  for (const FlushRecord& flush : Session::get().flushes()) cuts += flush.reason == "budget";
  EXPECT_EQ(cuts, 2);
}

TEST(Session, LongChainsAreFreedWithoutRecursion) {
  Session::get().set_budget(1000000);
  {
    Tensor x({1}, {0});
    for (int i = 0; i < 200000; ++i) record("aten::add.Tensor", {&x}, {1.0}, x);
  }
  Session::get().set_budget(20000);
}

TEST(Session, BackwardJoinsTheTraceOfItsInputsAndLoadersDoNotMix) {
  Session::get().sync("sync", true);
  Tensor a({2}, {1, 2}), forward({2}), gradient({2}), loader({2});
  record("aten::mul.Tensor", {&a}, {3.0}, forward);
  std::thread engine([&] { record("aten::add.Tensor", {&forward}, {1.0}, gradient, true); });
  engine.join();
  std::thread other([&] { record("aten::add.Tensor", {&a}, {5.0}, loader); });
  other.join();
  Session::get().sync("sync", true);
  const FlushRecord step = Session::get().flushes().back();
  EXPECT_EQ(step.operations, 2);  // forward and backward, not the loader's
  EXPECT_EQ(gradient.read(), (std::vector<float>{4, 7}));
  EXPECT_EQ(loader.read(), (std::vector<float>{6, 7}));
}

TEST(Session, ThreadsRecordAndReadAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([t] {
      for (int round = 0; round < 25; ++round) {
        Tensor x({8}, std::vector<float>(8, static_cast<float>(t)));
        for (int i = 0; i < 10; ++i) record("aten::add.Tensor", {&x}, {1.0}, x);
        ASSERT_EQ(x.read()[7], static_cast<float>(t + 10));
      }
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace thalweg::lazy
