// Collectives of NCCL on the GPUs of this machine, two if there are two.
#include "libs/cuda/nccl.h"

#include <random>
#include <thread>

#include "runtime/cuda/staging.h"
#include "support/error.h"
#include "tests/runtime/cuda/skip_without_gpu.h"

namespace thalweg::libs::cuda {
namespace {

using runtime::cuda::device_count;

TEST(NcclTest, SumsOverTheGpusOfTheMachine) {
  SKIP_WITHOUT_GPU();
  std::string why;
  if (!has_nccl(&why)) GTEST_SKIP() << why;
  EXPECT_GT(nccl_version(), 22000);
  int count = std::min(2, device_count());
  std::vector<std::shared_ptr<runtime::Device>> devices;
  std::vector<runtime::Device*> pointers;
  for (int i = 0; i < count; ++i) pointers.push_back(devices.emplace_back(runtime::cuda::make_device(i)).get());
  auto ends = make_communicators(pointers);
  unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  constexpr size_t kCount = 100'003;
  std::vector<std::vector<int32_t>> values(count, std::vector<int32_t>(kCount));
  std::vector<int32_t> expected(kCount);
  for (auto& part : values) {
    for (size_t i = 0; i < kCount; ++i) expected[i] += part[i] = static_cast<int32_t>(random() % 1000);
  }
  std::vector<std::thread> threads;
  std::vector<std::vector<int32_t>> sums(count, std::vector<int32_t>(kCount)), gathered(count, std::vector<int32_t>(kCount * count));
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      runtime::Device& device = *pointers[i];
      auto communication = device.make_stream("collectives");
      runtime::BufferPtr from = device.compute_stream().allocate(kCount * 4), to = communication->allocate(kCount * 4),
                         all = communication->allocate(kCount * 4 * count);
      runtime::cuda::copy_from_host(device.copy_stream(), from, 0, values[i].data(), kCount * 4);
      runtime::Submission(*communication).read(from).write(to).run([&, a = from->data(), b = to->data()](void* native) {
        ends[i]->all_reduce(a, b, kCount, NcclType::Int32, NcclReduction::Sum, native);
      });
      runtime::Submission(*communication).read(from).write(all).run([&, a = from->data(), b = all->data()](void* native) {
        ends[i]->all_gather(a, b, kCount, NcclType::Int32, native);
      });
      runtime::cuda::copy_to_host(device.copy_stream(), to, 0, sums[i].data(), kCount * 4);
      runtime::cuda::copy_to_host(device.copy_stream(), all, 0, gathered[i].data(), kCount * 4 * count);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < count; ++i) {
    EXPECT_EQ(sums[i], expected) << "GPU " << i;
    for (int j = 0; j < count; ++j) EXPECT_TRUE(std::equal(values[j].begin(), values[j].end(), gathered[i].begin() + static_cast<int64_t>(j * kCount)));
  }
}

TEST(NcclTest, MissingNcclIsAnErrorThatSaysSo) {
  std::string why;
  if (has_nccl(&why)) GTEST_SKIP() << "NCCL is here";
  try {
    nccl_version();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Missing);
    EXPECT_EQ(error.what(), why);
  }
}

}  // namespace
}  // namespace thalweg::libs::cuda
