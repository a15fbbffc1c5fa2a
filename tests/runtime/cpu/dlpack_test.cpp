// DLPack: cases 40 to 54 as far as they concern memory and layout, with a foreign library played by the test.
#include "runtime/dlpack.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>

#include "runtime/cpu/cpu_device.h"
#include "support/error.h"

namespace thalweg::runtime::dlpack {
namespace {

constexpr DeviceId kHost{kCpu, 0};

// An array of a foreign library that counts the calls of its deleter.
template <class Managed>
struct Foreign {
  Managed managed{};
  std::vector<float> memory;
  std::vector<int64_t> shape, strides;
  std::atomic<int> deleted = 0;

  Foreign(std::vector<int64_t> sizes, std::vector<int64_t> steps, size_t elements, bool with_strides = true)
      : memory(elements), shape(std::move(sizes)), strides(std::move(steps)) {
    std::iota(memory.begin(), memory.end(), 0.0f);
    managed.tensor = {.data = memory.data(),
                      .device = kHost,
                      .rank = static_cast<int32_t>(shape.size()),
                      .dtype = {kFloat, 32, 1},
                      .shape = shape.empty() ? nullptr : shape.data(),
                      .strides = with_strides && !shape.empty() ? strides.data() : nullptr,
                      .byte_offset = 0};
    managed.owner = this;
    managed.deleter = [](Managed* self) { ++static_cast<Foreign*>(self->owner)->deleted; };
    if constexpr (std::is_same_v<Managed, ManagedTensorVersioned>) managed.version = {kMajorVersion, kMinorVersion};
  }
  ~Foreign() { cpu::device().synchronize(); }  // deleters run on a thread of the device
  int deletions() {
    cpu::device().synchronize();
    return deleted;
  }
  Array import() {
    if constexpr (std::is_same_v<Managed, ManagedTensorVersioned>)
      return import_versioned(cpu::device(), kHost, &managed);
    else
      return import_legacy(cpu::device(), kHost, &managed);
  }
  // Imports it, which must fail, calling the deleter once.
  std::string refusal() {
    try {
      import();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Invalid);
      EXPECT_EQ(deleted, 1) << error.what();
      return error.what();
    }
    ADD_FAILURE() << "it was taken";
    return "";
  }
};
using Versioned = Foreign<ManagedTensorVersioned>;
using Legacy = Foreign<ManagedTensor>;

TEST(DlpackTest, Case40RankZero) {
  Versioned scalar({}, {}, 1);
  {
    Array array = scalar.import();
    EXPECT_TRUE(array.shape.empty());
    EXPECT_EQ(array.buffer->size(), 4u);
    EXPECT_EQ(array.buffer->data(), scalar.memory.data());
    ManagedTensorVersioned* out = export_versioned(array, kHost);
    EXPECT_EQ(out->tensor.rank, 0);
    EXPECT_EQ(out->tensor.data, scalar.memory.data());
    out->deleter(out);
  }
  EXPECT_EQ(scalar.deletions(), 1);
}

TEST(DlpackTest, Case41NoElements) {
  for (size_t dimension = 0; dimension < 3; ++dimension) {
    std::vector<int64_t> shape{2, 3, 4};
    shape[dimension] = 0;
    Legacy empty(shape, {12, 4, 1}, 0);
    empty.managed.tensor.data = nullptr;
    Array array = empty.import();
    EXPECT_EQ(array.shape, shape);
    EXPECT_EQ(array.buffer->size(), 0u);
    ManagedTensor* out = export_legacy(array, kHost);
    EXPECT_EQ(out->tensor.data, nullptr);
    out->deleter(out);
  }
}

TEST(DlpackTest, Case42StridesOfSizeOneMeanNothing) {
  Versioned column({77, 1}, {1, 1}, 77);
  Array array = column.import();
  EXPECT_EQ(array.strides, (std::vector<int64_t>{1, 1}));
  Versioned row({1, 77}, {1, 1}, 77), strange({1, 77}, {-5, 1}, 77);
  EXPECT_EQ(row.import().strides, (std::vector<int64_t>{77, 1}));
  EXPECT_EQ(strange.import().strides, (std::vector<int64_t>{77, 1}));
}

TEST(DlpackTest, Case43Strides) {
  Versioned transposed({3, 4}, {1, 3}, 12), sliced({2, 3}, {8, 2}, 16);
  EXPECT_EQ(transposed.import().strides, (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(sliced.import().buffer->size(), (8 + 2 * 2 + 1) * 4u);
  EXPECT_NE(Versioned({3, 4}, {0, 1}, 4).refusal().find("overlap"), std::string::npos);
  EXPECT_NE(Versioned({4}, {-1}, 4).refusal().find("backwards"), std::string::npos);
  EXPECT_NE(Versioned({3, 3}, {1, 1}, 5).refusal().find("overlap"), std::string::npos);
  EXPECT_NE(Versioned({int64_t{1} << 40, int64_t{1} << 40}, {int64_t{1} << 40, 1}, 1).refusal().find("larger than memory"), std::string::npos);
  EXPECT_NE(Versioned({-1}, {1}, 1).refusal().find("negative size"), std::string::npos);
}

// Random permutations of padded arrays keep each element at its place.
TEST(DlpackTest, Case43bRandomStridesAddressTheSameElements) {
  uint64_t seed = std::random_device{}();
  std::mt19937_64 random(seed);
  SCOPED_TRACE(seed);
  for (int round = 0; round < 200; ++round) {
    std::vector<int64_t> shape(random() % 5), order(shape.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    std::vector<int64_t> strides(shape.size());
    int64_t step = 1;
    for (int64_t i : order) {
      shape[i] = static_cast<int64_t>(1 + random() % 4);
      strides[i] = step;
      step *= shape[i] + static_cast<int64_t>(random() % 2);
    }
    Versioned foreign(shape, strides, static_cast<size_t>(step));
    Array array = foreign.import();
    ManagedTensorVersioned* out = export_versioned(array, kHost);
    std::vector<int64_t> index(shape.size(), 0);
    for (int probe = 0; probe < 20; ++probe) {
      int64_t expected = 0, found = 0;
      for (size_t i = 0; i < shape.size(); ++i) {
        index[i] = static_cast<int64_t>(random() % static_cast<uint64_t>(shape[i]));
        expected += index[i] * strides[i];
        found += index[i] * out->tensor.strides[i];
      }
      EXPECT_EQ(static_cast<float*>(out->tensor.data)[found], foreign.memory[expected]);
    }
    array.buffer.reset();
    EXPECT_EQ(foreign.deletions(), 0);
    out->deleter(out);
    EXPECT_EQ(foreign.deletions(), 1);
  }
}

TEST(DlpackTest, Case44NullPointers) {
  Legacy no_strides({2, 3}, {}, 6, false);
  EXPECT_EQ(no_strides.import().strides, (std::vector<int64_t>{3, 1}));
  Versioned no_shape({2}, {1}, 2), no_data({2}, {1}, 2), no_deleter({2}, {1}, 2);
  no_shape.managed.tensor.shape = nullptr;
  no_shape.refusal();
  no_data.managed.tensor.data = nullptr;
  no_data.refusal();
  no_deleter.managed.deleter = nullptr;
  no_deleter.import();
}

TEST(DlpackTest, Case45Offsets) {
  Versioned shifted({4}, {1}, 8), crooked({4}, {1}, 8);
  shifted.managed.tensor.byte_offset = 16;
  Array array = shifted.import();
  EXPECT_EQ(array.buffer->data(), shifted.memory.data() + 4);
  crooked.managed.tensor.byte_offset = 2;
  EXPECT_NE(crooked.refusal().find("aligned"), std::string::npos);
  array.byte_offset = 8;
  ManagedTensorVersioned* out = export_versioned(array, kHost);
  EXPECT_EQ(out->tensor.byte_offset, 8u);
  out->deleter(out);
}

TEST(DlpackTest, Case46ElementTypes) {
  struct Type {
    DataType dtype;
    bool padded;
    uint64_t bytes;  // of four elements; 0: refused
  };
  for (const Type& type : std::initializer_list<Type>{{{kBool, 8, 1}, false, 4},
                                                      {{kBfloat, 16, 1}, false, 8},
                                                      {{kFloat, 16, 1}, false, 8},
                                                      {{kComplex, 64, 1}, false, 32},
                                                      {{kComplex, 128, 1}, false, 64},
                                                      {{kFloat8_e4m3fn, 8, 1}, false, 4},
                                                      {{kFloat8_e8m0fnu, 8, 1}, false, 4},
                                                      {{kFloat4_e2m1fn, 4, 1}, false, 2},
                                                      {{kFloat4_e2m1fn, 4, 1}, true, 4},
                                                      {{kFloat6_e3m2fn, 6, 1}, false, 3},
                                                      {{kInt, 4, 1}, false, 2},
                                                      {{kUInt, 64, 1}, false, 32},
                                                      {{kFloat, 32, 4}, false, 0},
                                                      {{kBool, 1, 1}, false, 0},
                                                      {{kOpaque, 64, 1}, false, 0},
                                                      {{kInt, 24, 1}, false, 0},
                                                      {{99, 8, 1}, false, 0}}) {
    Versioned foreign({4}, {1}, 64);
    foreign.managed.tensor.dtype = type.dtype;
    foreign.managed.flags = type.padded ? kSubBytePadded : 0;
    if (type.bytes == 0) {
      foreign.refusal();
    } else {
      EXPECT_EQ(foreign.import().buffer->size(), type.bytes) << int{type.dtype.code} << " " << int{type.dtype.bits};
    }
  }
}

TEST(DlpackTest, Case47AStrangeVersionIsOnlyDeleted) {
  Versioned newer({4}, {1}, 4);
  newer.managed.version.major = 2;
  newer.managed.tensor.shape = reinterpret_cast<int64_t*>(1);  // touching it would be a fault
  EXPECT_NE(newer.refusal().find("version 2."), std::string::npos);
}

TEST(DlpackTest, Case48ReadOnly) {
  Versioned foreign({4}, {1}, 4);
  foreign.managed.flags = kReadOnly | kIsCopied;
  Array array = foreign.import();
  EXPECT_TRUE(array.read_only);
  EXPECT_TRUE(array.is_copied);
  ManagedTensorVersioned* out = export_versioned(array, kHost);
  EXPECT_EQ(out->flags, kReadOnly | kIsCopied);
  out->deleter(out);
  EXPECT_THROW(export_legacy(array, kHost), Error);
}

TEST(DlpackTest, Case50DeletersOnOtherThreadsAndAfterTheEnd) {
  Stream& stream = cpu::device().compute_stream();
  BufferPtr ours = stream.allocate(64);
  Submission(stream).write(ours).run([to = ours->data()](void*) { *static_cast<float*>(to) = 3; });
  ours->wait_written();
  ManagedTensorVersioned* out = export_versioned({ours, 0, {kFloat, 32, 1}, {16}, {1}}, kHost);
  ours.reset();
  EXPECT_EQ(*static_cast<float*>(out->tensor.data), 3);
  std::thread([out] { out->deleter(out); }).join();

  Versioned late({4}, {1}, 4);
  set_release_guard([] { return false; });
  late.import();
  EXPECT_EQ(late.deletions(), 0);
  EXPECT_EQ(leaked_releases(), 1u);
  set_release_guard(nullptr);
}

TEST(DlpackTest, Case53AnImportIsKeptUntilQueuedWorkHasReadIt) {
  Versioned foreign({256}, {1}, 256);
  Stream& stream = cpu::device().compute_stream();
  BufferPtr copy = stream.allocate(1024);
  std::atomic<bool> open{false};
  {
    Array array = foreign.import();
    Submission(stream).read(array.buffer).write(copy).run([&, from = array.buffer->data(), to = copy->data()](void*) {
      while (!open) std::this_thread::yield();
      std::memcpy(to, from, 1024);
    });
  }
  EXPECT_EQ(foreign.deleted, 0);
  open = true;
  copy->wait_written();
  EXPECT_EQ(static_cast<float*>(copy->data())[200], 200);
  cpu::device().synchronize();
  EXPECT_EQ(foreign.deleted, 1);
}

// A deleter that waits for a lock which the dropping thread holds, as one that takes Python's lock would.
TEST(DlpackTest, Case50bADeleterMayWaitForALockOfWhoeverDrops) {
  static std::mutex lock;
  Versioned foreign({4}, {1}, 4);
  foreign.managed.deleter = [](ManagedTensorVersioned* self) {
    std::lock_guard guard(lock);
    ++static_cast<Versioned*>(self->owner)->deleted;
  };
  {
    std::lock_guard guard(lock);
    foreign.import();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_EQ(foreign.deleted, 0);
  }
  EXPECT_EQ(foreign.deletions(), 1);
}

TEST(DlpackTest, Case54PinnedHostMemoryIsMemoryOfTheCpu) {
  for (int32_t type : {kCpu, kCudaHost, kRocmHost}) {
    Versioned foreign({4}, {1}, 4);
    foreign.managed.tensor.device = {type, 3};
    EXPECT_EQ(foreign.import().buffer->data(), foreign.memory.data());
  }
}

// Ranks on both sides of what an export keeps in itself.
TEST(DlpackTest, Case43cManyDimensions) {
  for (size_t rank = 1; rank <= 12; ++rank) {
    std::vector<int64_t> shape(rank, 2), strides(rank);
    for (size_t i = 0; i < rank; ++i) strides[i] = int64_t{1} << i;
    Versioned foreign(shape, strides, size_t{1} << rank);
    ManagedTensorVersioned* out = export_versioned(foreign.import(), kHost);
    EXPECT_EQ(std::vector<int64_t>(out->tensor.shape, out->tensor.shape + rank), shape);
    EXPECT_EQ(std::vector<int64_t>(out->tensor.strides, out->tensor.strides + rank), strides);
    out->deleter(out);
  }
}

TEST(DlpackTest, Case55AnotherDevice) {
  Versioned foreign({4}, {1}, 4);
  foreign.managed.tensor.device = {kCuda, 1};
  EXPECT_NE(foreign.refusal().find("lies on device 2:1"), std::string::npos);
}

}  // namespace
}  // namespace thalweg::runtime::dlpack
