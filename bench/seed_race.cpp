// The races that started Thalweg, as real programs: a block freed by the host is handed to another stream while queued work still uses it.
//
//   seed_race copy|nccl|export [--runs N] [--only blind|ours]
//
// copy    compute reads a temporary; the host frees it; a copy from the host lands in memory that is handed out next
// nccl    an all-reduce reads a gradient; the host frees it; compute fills memory that is handed out next (on two GPUs, or one)
// export  another library's kernels read a tensor it got over DLPack; it lets go before they have run; our next computation fills memory handed out next
//
// Each runs with a pool that knows no streams and with Thalweg's allocator, and prints in how many runs the data were corrupt. Exit status: 0 when ours were 0.
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "libs/cuda/nccl.h"
#include "runtime/cuda/staging.h"
#include "runtime/dlpack.h"
#include "support/error.h"
#include "tests/runtime/cuda/test_kernels.h"

namespace thalweg::runtime::cuda {
namespace {

// Hands out what was freed last, whoever may still be using it: the rule of allocators that leave the ordering to one compute stream.
class BlindPool {
 public:
  explicit BlindPool(Device& device) : device_(device) {}
  void* allocate(size_t bytes) {
    auto& free = free_[bytes];
    if (free.empty()) {
      blocks_.push_back(device_.compute_stream().allocate(bytes));
      blocks_.back()->wait_unused();
      return blocks_.back()->data();
    }
    void* block = free.back();
    free.pop_back();
    return block;
  }
  void release(void* block, size_t bytes) { free_[bytes].push_back(block); }

 private:
  Device& device_;
  std::vector<BufferPtr> blocks_;
  std::map<size_t, std::vector<void*>> free_;
};

// Memory from one of the two allocators. With the blind pool nothing is declared to the runtime, so that nothing orders the streams.
class Memory {
 public:
  Memory(BlindPool* pool, Stream& stream, size_t bytes) : pool_(pool), bytes_(bytes) {
    if (pool_) {
      data_ = pool_->allocate(bytes);
    } else {
      buffer_ = stream.allocate(bytes);
      data_ = buffer_->data();
    }
  }
  ~Memory() { release(); }
  Memory(const Memory&) = delete;
  void release() {
    if (pool_ && data_) pool_->release(data_, bytes_);
    data_ = nullptr;
    buffer_.reset();
  }
  void* data() const { return data_; }
  size_t words() const { return bytes_ / 4; }
  const BufferPtr& buffer() const { return buffer_; }

 private:
  BlindPool* pool_;
  size_t bytes_;
  void* data_ = nullptr;
  BufferPtr buffer_;
};

// A submission that declares the memory it uses, where somebody wants to know.
Submission uses(Stream& stream, std::initializer_list<const Memory*> reads, std::initializer_list<const Memory*> writes, const char* label) {
  Submission submission(stream);
  submission.label(label);
  for (const Memory* memory : reads) {
    if (memory->buffer()) submission.read(memory->buffer());
  }
  for (const Memory* memory : writes) {
    if (memory->buffer()) submission.write(memory->buffer());
  }
  return submission;
}

// One GPU with its kernels and counters of wrong words.
struct Bench {
  explicit Bench(int ordinal, bool blind) : device(make_device(ordinal)), kernels(*device), counters(device->compute_stream().allocate(4)) {
    if (blind) pool = std::make_unique<BlindPool>(*device);
  }
  Stream& compute() { return device->compute_stream(); }
  void fill(Stream& stream, const Memory& to, uint32_t value) {
    uses(stream, {}, {&to}, "fill").run([&, at = to.data(), n = to.words(), value](void* native) {
      launch_with(kernels.fill_words, kWide, native, at, value, uint64_t{n});
    });
  }
  void spin(Stream& stream, uint64_t clocks) {
    Submission(stream).label("spin").run([&, clocks](void* native) { launch_with(kernels.spin, kSingle, native, clocks); });
  }
  // Counts words other than `want`, in stream order; the counter is set to 0 by reset().
  void count(Stream& stream, const Memory& in, uint32_t want) {
    uses(stream, {&in}, {}, "count").write(counters).run([&, at = in.data(), n = in.words(), want, to = counters->data()](void* native) {
      launch_with(kernels.count_other, kWide, native, at, uint64_t{n}, want, to);
    });
  }
  void reset(Stream& stream) {
    Submission(stream).write(counters).label("reset").run([to = counters->data()](void* native) {
      check(driver().fill_bytes(reinterpret_cast<DevicePtr>(to), 0, 4, static_cast<StreamHandle>(native)), "fill memory");
    });
  }
  uint32_t wrong() {
    uint32_t value = 0;
    copy_to_host(compute(), counters, 0, &value, 4);
    return value;
  }

  std::shared_ptr<Device> device;
  TestKernels kernels;
  BufferPtr counters;
  std::unique_ptr<BlindPool> pool;
};

constexpr uint64_t kSpin = 1'000'000;  // clocks: about half a millisecond

struct Outcome {
  int corrupt = 0;
  uint64_t hidden_waits = 0;
  double seconds = 0;
};

// Under a limit of one block the two streams have to share it, so that the order is really needed; without, each finds its own.
void tighten(Bench& bench, int run, size_t bytes) {
  bench.device->set_memory_limit(run % 2 ? bytes : 0);
  if (run % 2) bench.device->trim();
}

Outcome copy_race(int runs, bool blind) {
  constexpr size_t kBytes = size_t{64} << 20;
  Bench bench(0, blind);
  Stream& copies = bench.device->copy_stream();
  std::shared_ptr<char> host = pinned_memory(*bench.device, kBytes);
  std::fill_n(reinterpret_cast<uint32_t*>(host.get()), kBytes / 4, 7);
  Outcome outcome;
  for (int run = 0; run < runs; ++run) {
    if (!blind) tighten(bench, run, kBytes + kBytes / 2);
    bench.reset(bench.compute());
    Memory temporary(bench.pool.get(), bench.compute(), kBytes);
    bench.fill(bench.compute(), temporary, 3);
    bench.spin(bench.compute(), kSpin);
    bench.count(bench.compute(), temporary, 3);
    temporary.release();  // the host is done with it; the stream is not
    Memory input(bench.pool.get(), copies, kBytes);
    uses(copies, {}, {&input}, "copy from host").run([&, to = input.data()](void* native) {
      check(driver().copy_to_device(reinterpret_cast<DevicePtr>(to), host.get(), kBytes, static_cast<StreamHandle>(native)), "copy from the host");
    });
    if (blind) bench.device->synchronize();
    bench.count(bench.compute(), input, 7);
    outcome.corrupt += bench.wrong() != 0;
    if (blind) bench.device->synchronize();
  }
  outcome.hidden_waits = bench.device->memory_counts().hidden_waits;
  return outcome;
}

Outcome export_race(int runs, bool blind) {
  constexpr size_t kBytes = size_t{4} << 20;
  Bench bench(0, blind);
  ContextScope scope(context(*bench.device));
  StreamHandle theirs = nullptr;
  check(driver().stream_create(&theirs, kStreamNonBlocking, 0), "create a stream");
  Outcome outcome;
  {
    std::unique_ptr<Stream> consumer = wrap_stream(*bench.device, theirs, "consumer");
    BufferPtr counter = bench.compute().allocate(4);
    for (int run = 0; run < runs; ++run) {
      bench.reset(bench.compute());
      if (!blind) tighten(bench, run, kBytes + kBytes / 2);
      Memory tensor(bench.pool.get(), bench.compute(), kBytes);
      bench.fill(bench.compute(), tensor, 3);
      void* data = tensor.data();
      auto launch_theirs = [&] {
        launch_with(bench.kernels.spin, kSingle, theirs, kSpin / 10);
        launch_with(bench.kernels.count_other, kWide, theirs, data, uint64_t{kBytes / 4}, uint32_t{3}, bench.counters->data());
      };
      order_after(*consumer, bench.compute());
      if (blind) {
        launch_theirs();
        tensor.release();
      } else {
        dlpack::Array array;
        array.buffer = tensor.buffer();
        array.shape = {static_cast<int64_t>(kBytes / 4)};
        array.strides = {1};
        Stream* consumers[] = {consumer.get()};
        dlpack::ManagedTensorVersioned* managed = dlpack::export_versioned(array, {dlpack::kCuda, 0}, consumers);
        array.buffer.reset();
        tensor.release();
        data = managed->tensor.data;
        launch_theirs();
        managed->deleter(managed);  // with their kernels still queued
      }
      Memory next(bench.pool.get(), bench.compute(), kBytes);
      bench.fill(bench.compute(), next, 9);
      order_after(bench.compute(), *consumer);
      outcome.corrupt += bench.wrong() != 0;
    }
    bench.device->synchronize();
  }
  outcome.hidden_waits = bench.device->memory_counts().hidden_waits;
  driver().stream_destroy(theirs);
  return outcome;
}

Outcome nccl_race(int runs, bool blind) {
  constexpr size_t kBytes = size_t{32} << 20;
  std::vector<std::unique_ptr<Bench>> benches;
  std::vector<Device*> devices;
  const int ranks = std::min(2, device_count());
  const uint32_t total = ranks == 2 ? 3 : 1;
  for (int i = 0; i < ranks; ++i) devices.push_back(benches.emplace_back(std::make_unique<Bench>(i, blind))->device.get());
  auto ends = libs::cuda::make_communicators(devices);
  std::vector<std::vector<char>> corrupt(static_cast<size_t>(ranks), std::vector<char>(static_cast<size_t>(runs)));
  std::barrier together(ranks);
  std::vector<std::thread> threads;
  for (int gpu = 0; gpu < ranks; ++gpu) {
    threads.emplace_back([&, gpu] {
      Bench& bench = *benches[static_cast<size_t>(gpu)];
      auto collectives = bench.device->make_stream("collectives");
      for (int run = 0; run < runs; ++run) {
        if (!blind) tighten(bench, run, kBytes * 5 / 2);
        bench.reset(bench.compute());
        Memory sum(bench.pool.get(), *collectives, kBytes + 4096), gradient(bench.pool.get(), bench.compute(), kBytes);
        bench.fill(bench.compute(), gradient, static_cast<uint32_t>(gpu + 1));
        if (blind) bench.compute().synchronize();  // the data's own order is right; only the memory's is not
        bench.spin(*collectives, kSpin);
        uses(*collectives, {&gradient}, {&sum}, "all-reduce").run([&, from = gradient.data(), to = sum.data()](void* native) {
          ends[static_cast<size_t>(gpu)]->all_reduce(from, to, kBytes / 4, libs::cuda::NcclType::Int32, libs::cuda::NcclReduction::Sum, native);
        });
        gradient.release();
        Memory next(bench.pool.get(), bench.compute(), kBytes);
        bench.fill(bench.compute(), next, 99);
        if (blind) bench.device->synchronize();
        uses(bench.compute(), {&sum}, {}, "count").write(bench.counters).run([&, at = sum.data(), to = bench.counters->data()](void* native) {
          launch_with(bench.kernels.count_other, kWide, native, at, uint64_t{kBytes / 4}, total, to);
        });
        corrupt[static_cast<size_t>(gpu)][static_cast<size_t>(run)] = bench.wrong() != 0;
        together.arrive_and_wait();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Outcome outcome;
  for (size_t run = 0; run < static_cast<size_t>(runs); ++run) outcome.corrupt += corrupt.front()[run] || corrupt.back()[run];
  for (auto& bench : benches) outcome.hidden_waits += bench->device->memory_counts().hidden_waits;
  return outcome;
}

int run(const std::string& which, int runs, const std::string& only) {
  Outcome (*race)(int, bool) = which == "copy" ? copy_race : which == "export" ? export_race : which == "nccl" ? nccl_race : nullptr;
  THALWEG_CHECK(race != nullptr, Invalid, "no such race: ", which, "; there are copy, nccl and export");
  if (which == "nccl" && device_count() < 2) {
    std::printf("NCCL %d on ONE GPU: a group of one, so its all-reduce meets nobody; the race between two GPUs is not run here\n", libs::cuda::nccl_version());
  } else if (which == "nccl") {
    std::printf("NCCL %d on two GPUs\n", libs::cuda::nccl_version());
  }
  int ours = 0;
  for (bool blind : {true, false}) {
    if (only == (blind ? "ours" : "blind")) continue;
    int count = blind ? std::min(runs, 100) : runs;
    auto start = std::chrono::steady_clock::now();
    Outcome outcome = race(count, blind);
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::printf("%s%s, %s: %d of %d runs corrupt (%.1f s, %llu hidden waits)\n", which.c_str(), which == "nccl" && device_count() < 2 ? " on one GPU" : "",
                blind ? "a pool that knows no streams" : "Thalweg's allocator", outcome.corrupt, count, seconds,
                static_cast<unsigned long long>(outcome.hidden_waits));
    std::fflush(stdout);
    if (!blind) ours = outcome.corrupt;
  }
  return ours == 0 ? 0 : 1;
}

}  // namespace
}  // namespace thalweg::runtime::cuda

int main(int argc, char** argv) {
  std::string which = argc > 1 ? argv[1] : "", only;
  int runs = 1000;
  for (int i = 2; i + 1 < argc; i += 2) {
    if (!std::strcmp(argv[i], "--runs")) runs = std::atoi(argv[i + 1]);
    if (!std::strcmp(argv[i], "--only")) only = argv[i + 1];
  }
  try {
    return thalweg::runtime::cuda::run(which, runs, only);
  } catch (const thalweg::Error& error) {
    std::fprintf(stderr, "seed_race: %s\n", error.what());
    return 2;
  }
}
