// Cases that have broken allocators, by number, on the simulated device under every scheduler.
//
// Elsewhere: 18, 22, 23, 60 (need threads of the host) with the CPU device; 40 to 51, 53 to 57 with DLPack, in C++ and in Python; 74 to 77 with the soak and
// the mutation suite, whose build can break the rules; 19, 32, 35, 37, 63 (second half), 70 to 73 with the CUDA device, whose driver has default streams,
// streams of others, captures and pages: over the pretended driver, and on a GPU. Where a case names what Thalweg does not have (events that users record,
// priorities, managed memory), the test shows what stands in its place.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "runtime/dlpack.h"
#include "tests/runtime/sim/world.h"

namespace thalweg::runtime::sim {
namespace {

ErrorKind kind_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.kind();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorKind::Internal;
}

// --- The seed, and streams

TEST(AdversarialTest, Case01CopyLandsInFreedTemporary) {
  under_all([](World& w) {
    BufferPtr temporary = w.allocate(w.compute());
    w.stamp(w.compute(), temporary, 1);
    w.expect(w.compute(), temporary, 1);
    w.free(temporary);
    BufferPtr input = w.allocate(w.copy());
    w.stamp(w.copy(), input, 2);
    w.expect(w.compute(), input, 2);
  });
}

TEST(AdversarialTest, Case02SourceOfACopyFreedAtEnqueue) {
  under_all([](World& w) {
    BufferPtr result = w.allocate(w.compute()), landing = w.allocate(w.copy());
    w.stamp(w.compute(), result, 1);
    w.move(w.copy(), result, landing, 1);
    w.free(result);
    BufferPtr next = w.allocate(w.compute());
    w.stamp(w.compute(), next, 2);
    w.host_expect(landing, 1);
  });
}

TEST(AdversarialTest, Case03SendBufferOfACollectiveFreed) {
  under_all([](World& w) {
    auto collective = w.stream("collective");
    BufferPtr gradient = w.allocate(w.compute()), sum = w.allocate(*collective);
    w.stamp(w.compute(), gradient, 1);
    w.move(*collective, gradient, sum, 1);
    w.free(gradient);
    BufferPtr temporary = w.allocate(w.compute());
    w.stamp(w.compute(), temporary, 2);
    w.expect(w.compute(), sum, 1);
  });
}

TEST(AdversarialTest, Case04ReceiveBufferOfACollectiveFreedBeforeTheJoin) {
  under_all([](World& w) {
    auto collective = w.stream("collective");
    BufferPtr received = w.allocate(w.compute());
    w.stamp(*collective, received, 1);
    w.free(received);
    BufferPtr next = w.allocate(w.compute());
    w.stamp(w.compute(), next, 2);
    w.expect(w.compute(), next, 2);
  });
}

TEST(AdversarialTest, Case05ScratchOfAThirdStream) {
  under_all([](World& w) {
    auto tuner = w.stream("tuner");
    BufferPtr live = w.allocate(w.compute());
    w.stamp(w.compute(), live, 1);
    w.expect(w.copy(), live, 1);
    w.free(live);
    BufferPtr scratch = w.allocate(*tuner);
    w.stamp(*tuner, scratch, 2);
    w.free(scratch);
    BufferPtr after = w.allocate(w.compute());
    w.stamp(w.compute(), after, 3);
    w.expect(*tuner, after, 3);
  });
}

TEST(AdversarialTest, Case06ErrorBetweenStartAndEndOfACollective) {
  under_all([](World& w) {
    auto collective = w.stream("collective");
    BufferPtr gradient = w.allocate(w.compute()), sum = w.allocate(*collective);
    w.stamp(w.compute(), gradient, 1);
    Submission(*collective).read(gradient).write(sum).run([](void*) { raise(ErrorKind::Vendor, "the peer is gone"); });
    w.expect(*collective, gradient, 1);
    w.free(gradient);
    BufferPtr next = w.allocate(w.compute());
    w.stamp(w.compute(), next, 2);
    w.expect(w.compute(), next, 2);
    EXPECT_EQ(kind_of([&] { sum->wait_written(); }), ErrorKind::Vendor);
  });
}

TEST(AdversarialTest, Case07ErrorAfterAPartialLaunch) {
  under_all([](World& w) {
    BufferPtr kept = w.allocate(w.compute());
    w.stamp(w.compute(), kept, 1);
    try {
      BufferPtr a = w.allocate(w.compute()), b = w.allocate(w.copy());
      w.move(w.compute(), kept, a, 1);
      w.stamp(w.copy(), b, 3);
      raise(ErrorKind::Internal, "the host gives up in the middle");
    } catch (const Error&) {
    }
    BufferPtr c = w.allocate(w.copy()), d = w.allocate(w.compute());
    w.stamp(w.copy(), c, 4);
    w.stamp(w.compute(), d, 5);
    w.host_expect(c, 4);
    w.host_expect(d, 5);
    w.host_expect(kept, 1);
  });
}

// Memory of one page, so that nobody gets fresh memory; a and c are the only streams that want it.
Options one_page() { return {.page_bytes = 4096, .range_bytes = 1 << 20, .memory_bytes = 4096}; }
constexpr AllocFlags kNoWaits{.no_hidden_wait = true, .deterministic = true};

TEST(AdversarialTest, Case08AnEdgeThroughAThirdStreamIsEnough) {
  under_all(
      [](World& w) {
        auto b = w.stream("b"), c = w.stream("c");
        BufferPtr x = w.allocate(w.compute(), 2048), y = w.allocate(*b, 2048);
        w.stamp(w.compute(), x, 1);
        w.move(*b, x, y, 1);  // after the stamp
        w.expect(*c, y, 1);   // after the move
        void* address = x->data();
        w.free(x);
        BufferPtr z = w.allocate(*c, 2048, kNoWaits);
        if (z->data() != address) w.set_fault("not the freed memory");
        w.stamp(*c, z, 2);
        w.expect(*c, z, 2);
        if (w.device().memory_counts().hidden_waits != 0) w.set_fault("a wait was made that was not needed");
      },
      one_page());
}

TEST(AdversarialTest, Case09WithoutTheEdgeTheStreamWaits) {
  under_all(
      [](World& w) {
        auto b = w.stream("b"), c = w.stream("c");
        BufferPtr x = w.allocate(w.compute(), 2048), y = w.allocate(*b, 2048);
        w.stamp(w.compute(), x, 1);
        w.move(*b, x, y, 1);
        w.free(x);
        EXPECT_EQ(kind_of([&] { c->allocate(2048, kNoWaits); }), ErrorKind::OutOfMemory);
        BufferPtr z = w.allocate(*c, 2048, {.deterministic = true});
        w.stamp(*c, z, 2);
        w.expect(*c, z, 2);
        w.host_expect(y, 1);
        if (w.device().memory_counts().hidden_waits != 1) w.set_fault("the stream was not made to wait");
      },
      one_page());
}

TEST(AdversarialTest, Case10AnEdgeFromBeforeTheLastUseIsNotEnough) {
  under_all(
      [](World& w) {
        auto b = w.stream("b"), c = w.stream("c");
        BufferPtr x = w.allocate(*b, 2048), y = w.allocate(*b, 1024);
        w.stamp(*b, x, 1);
        w.stamp(*b, y, 2);
        w.expect(*c, y, 2);  // the edge
        w.expect(*b, x, 1);  // the last use, after it
        w.free(x);
        EXPECT_EQ(kind_of([&] { c->allocate(2048, kNoWaits); }), ErrorKind::OutOfMemory);
        BufferPtr z = w.allocate(*c, 2048, {.deterministic = true});
        w.stamp(*c, z, 3);
        w.host_expect(z, 3);
      },
      one_page());
}

// A stream that waited for an early point of another one knows what was ordered before that point, not what that stream waited for later.
TEST(AdversarialTest, Case11AWaitTeachesOnlyWhatWasKnownAtItsPoint) {
  under_all(
      [](World& w) {
        auto b = w.stream("b"), c = w.stream("c");
        BufferPtr early = w.allocate(*b, 1024), x = w.allocate(w.compute(), 2048);
        w.stamp(*b, early, 1);
        w.stamp(w.compute(), x, 2);
        w.expect(*b, x, 2);      // b is after compute only from here on
        w.expect(*c, early, 1);  // c is after the first step of b
        w.expect(w.compute(), x, 2);
        BufferPtr own = w.allocate(w.compute(), 256);
        w.stamp(w.compute(), own, 7);
        w.expect(*b, own, 7);  // b is now after every use of x but its own, which is earlier
        w.free(x);
        EXPECT_EQ(kind_of([&] { c->allocate(2048, kNoWaits); }), ErrorKind::OutOfMemory);
        BufferPtr z = w.allocate(*b, 2048, kNoWaits);  // b itself may have it
        w.stamp(*b, z, 3);
        w.host_expect(z, 3);
      },
      one_page());
}

TEST(AdversarialTest, Case11bAStaleWaitDoesNotHideAReuse) {
  under_all([](World& w) {
    auto b = w.stream("b"), c = w.stream("c");
    BufferPtr early = w.allocate(*b);
    w.stamp(*b, early, 1);
    BufferPtr x = w.allocate(w.compute());
    w.stamp(w.compute(), x, 2);
    w.expect(*b, x, 2);
    w.expect(*c, early, 1);
    w.expect(*c, x, 2);  // must still wait for compute
  });
}

// There are no events to wait for too early: a wait names a point, and one that no work has reached yet cannot be named.
TEST(AdversarialTest, Case12NothingWaitsForAStreamThatHasDoneNothing) {
  under_all([](World& w) {
    auto idle = w.stream("idle");
    BufferPtr never_written = w.allocate(*idle), out = w.allocate(w.compute());
    Submission(w.compute()).read(never_written).write(out).run([](void*) {});
    w.stamp(w.compute(), out, 1);
    w.host_expect(out, 1);
    never_written->wait_written();
    never_written->wait_unused();
    w.stamp(*idle, never_written, 2);  // after the read
    w.expect(w.copy(), never_written, 2);
  });
}

TEST(AdversarialTest, Case13AWaitReachesAcrossDevices) {
  World first({}), second({.ordinal = 1});
  BufferPtr made = first.allocate(first.compute()), copied = second.allocate(second.compute());
  first.stamp(first.compute(), made, 1);
  Submission(second.compute()).read(made).write(copied).run([from = made->data(), to = copied->data()](void*) { std::memcpy(to, from, 256); });
  second.sim().run_all();
  EXPECT_EQ(second.sim().tasks_run(), 0u) << "did not wait for the other device";
  EXPECT_FALSE(copied->is_written());
  first.stamp(first.compute(), made, 2);  // waits for the other device's read
  first.sim().run_all();
  EXPECT_EQ(first.sim().tasks_run(), 1u);
  second.sim().run_all();
  second.host_expect(copied, 1);
  first.host_expect(made, 2);
  EXPECT_EQ(first.fault() + second.fault(), "");
}

TEST(AdversarialTest, Case14ALongStreamDoesNotBlockTheOthersMemory) {
  World w({.page_bytes = 4096, .memory_bytes = 16384});
  auto slow = w.stream("slow");
  std::vector<BufferPtr> used;
  for (int i = 0; i < 8; ++i) used.push_back(w.allocate(w.compute(), 1024));
  for (BufferPtr& buffer : used) w.stamp(*slow, buffer, 1);
  used.clear();  // all wait for the slow stream
  for (int i = 0; i < 8; ++i) used.push_back(w.allocate(w.compute(), 1024));
  for (BufferPtr& buffer : used) w.stamp(w.copy(), buffer, 2);
  for (BufferPtr& buffer : used) buffer.reset();
  uint64_t before = w.sim().tasks_run();
  w.copy().allocate(64);
  for (int i = 0; i < 8; ++i) used[i] = w.allocate(w.copy(), 1024, {.no_growth = true, .deterministic = true});
  EXPECT_EQ(w.sim().tasks_run(), before) << "the host waited";
}

TEST(AdversarialTest, Case15MemoryOfAnIdleStreamIsFoundUnderPressure) {
  World w({.page_bytes = 4096, .memory_bytes = 8192});
  {
    std::vector<BufferPtr> many;
    for (int i = 0; i < 8; ++i) many.push_back(w.allocate(w.copy(), 1024));
  }
  std::vector<BufferPtr> many;
  for (int i = 0; i < 8; ++i) many.push_back(w.allocate(w.compute(), 1024));
  EXPECT_EQ(w.device().memory_counts().failures, 0u);
}

TEST(AdversarialTest, Case16AStreamEndsWithPendingWork) {
  under_all([](World& w) {
    BufferPtr kept;
    {
      auto shorter = w.stream("short");
      kept = w.allocate(*shorter);
      BufferPtr gone = w.allocate(*shorter);
      w.stamp(*shorter, gone, 1);
      w.move(*shorter, gone, kept, 1);
    }
    BufferPtr next = w.allocate(w.compute());
    w.stamp(w.compute(), next, 2);
    w.host_expect(kept, 1);
    w.host_expect(next, 2);
  });
}

TEST(AdversarialTest, Case17AStreamInTheSlotOfAnother) {
  under_all([](World& w) {
    auto first = w.stream("first");
    BufferPtr kept = w.allocate(*first), pending = w.allocate(*first);
    w.stamp(*first, kept, 1);
    w.stamp(*first, pending, 2);
    w.expect(w.compute(), pending, 2);
    first.reset();
    auto second = w.stream("second");
    w.free(pending);  // last used on compute, allocated in the slot that is now another's
    BufferPtr fresh = w.allocate(*second);
    w.stamp(*second, fresh, 3);
    w.expect(w.copy(), kept, 1);
    w.free(kept);
    BufferPtr other = w.allocate(*second);
    w.stamp(*second, other, 4);
    w.expect(w.compute(), fresh, 3);
    w.host_expect(other, 4);
  });
}

// The stream that everybody needs runs only when nothing else can: those who wait for its memory, on the device or on the host, get it all the same.
TEST(AdversarialTest, Case20TheStreamThatIsNeededIsTheLastToRun) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    auto scheduler = make_scheduler("starve", seed);
    World w({.page_bytes = 4096, .range_bytes = 1 << 20, .memory_bytes = 8192, .scheduler = scheduler.get()});
    auto third = w.stream("third"), fourth = w.stream("fourth");
    Stream* streams[] = {&w.compute(), &w.copy(), third.get(), fourth.get()};
    std::vector<BufferPtr> results;
    for (uint64_t i = 0; i < 40; ++i) {
      BufferPtr scratch = w.allocate(*streams[i % 4], 4096);
      w.stamp(*streams[i % 4], scratch, i + 1);
      w.expect(*streams[(i + 1) % 4], scratch, i + 1);
      if (i % 8 == 0) w.host_expect(scratch, i + 1);
    }
    w.finish();
    EXPECT_EQ(w.fault(), "") << "seed " << seed;
    EXPECT_EQ(w.device().memory_counts().failures, 0u);
  }
}

TEST(AdversarialTest, Case21FreedInsideWork) {
  under_all([](World& w) {
    auto held = std::make_shared<BufferPtr>(w.allocate(w.compute()));
    w.stamp(w.compute(), *held, 1);
    w.expect(w.copy(), *held, 1);
    Submission(w.compute()).run([held](void*) { held->reset(); });
    held.reset();
    BufferPtr next = w.allocate(w.compute());
    w.stamp(w.compute(), next, 2);
    w.expect(w.copy(), next, 2);
  });
}

TEST(AdversarialTest, Case24TheHostRunsFarAhead) {
  World w({});
  BufferPtr value = w.allocate(w.compute());
  w.stamp(w.compute(), value, 1);
  for (int i = 0; i < 50'000; ++i) {
    BufferPtr next = w.allocate(i % 2 ? w.compute() : w.copy());
    w.move(i % 2 ? w.compute() : w.copy(), value, next, 1);
    value = next;
  }
  w.host_expect(value, 1);
  EXPECT_EQ(w.fault(), "");
  EXPECT_LT(w.device().memory().reserved, size_t{8} << 20);
}

// --- Frontiers

TEST(AdversarialTest, Case25ManyStreamsUseOneBuffer) {
  for (int streams : {1, 2, 4, 5, 64, 1000}) {
    RaceChecker checker;
    if (streams < 1000) check_races(&checker);
    auto scheduler = make_scheduler("newest-first", 1);
    Options options{.scheduler = scheduler.get()};
    {
      World w(options);
      std::vector<std::unique_ptr<Stream>> made;
      for (int i = 0; i < streams; ++i) made.push_back(w.stream("reader"));
      BufferPtr shared = w.allocate(w.compute());
      w.stamp(w.compute(), shared, 1);
      for (auto& stream : made) w.expect(*stream, shared, 1);
      w.free(shared);
      BufferPtr next = w.allocate(w.compute());
      w.stamp(w.compute(), next, 2);
      w.finish();
      EXPECT_EQ(w.fault(), "") << streams << " streams";
    }
    check_races(nullptr);
    EXPECT_EQ(checker.count(), 0u) << streams << " streams";
  }
}

TEST(AdversarialTest, Case27JoinedAndSplitBlocksKeepTheirFrontiers) {
  // Two neighbours, one used on compute alone and one on another stream as well; together they make a block that both uses hold back.
  under_all(
      [](World& w) {
        auto other = w.stream("other");
        BufferPtr a = w.allocate(w.compute(), 1024), b = w.allocate(w.compute(), 1024), c = w.allocate(w.compute(), 2048);
        w.stamp(w.compute(), a, 1);
        w.stamp(w.compute(), b, 2);
        w.expect(*other, a, 1);
        w.expect(*other, b, 2);
        w.free(a);
        w.free(b);
        BufferPtr joined = w.allocate(w.copy(), 2048);
        w.stamp(w.copy(), joined, 3);
        w.host_expect(joined, 3);
        w.free(joined);
        w.stamp(*other, c, 5);
        w.free(c);
        std::vector<BufferPtr> parts;
        for (int i = 0; i < 4; ++i) {
          parts.push_back(w.allocate(w.copy(), 512));
          w.stamp(w.copy(), parts.back(), 10 + i);
        }
        for (int i = 0; i < 4; ++i) w.expect(w.copy(), parts[i], 10 + i);
      },
      one_page());
}

TEST(AdversarialTest, Case27bPartsOfAPendingBlockGoToDifferentStreams) {
  under_all(
      [](World& w) {
        auto other = w.stream("other");
        BufferPtr whole = w.allocate(w.compute(), 4096);
        w.stamp(w.compute(), whole, 1);
        w.expect(w.compute(), whole, 1);
        w.free(whole);
        BufferPtr a = w.allocate(w.copy(), 2048), b = w.allocate(*other, 2048);
        w.stamp(w.copy(), a, 2);
        w.stamp(*other, b, 3);
        w.expect(w.copy(), a, 2);
        w.expect(*other, b, 3);
      },
      one_page());
}

TEST(AdversarialTest, Case28ALaterPointCoversEarlierOnes) {
  World w({});
  BufferPtr a = w.allocate(w.compute()), b = w.allocate(w.compute()), c = w.allocate(w.copy());
  w.stamp(w.compute(), a, 1);
  w.stamp(w.compute(), b, 2);
  w.move(w.copy(), b, c, 2);
  w.expect(w.copy(), a, 1);  // nothing more to wait for
  w.host_expect(c, 2);
  EXPECT_EQ(w.sim().tasks_run(), 3u);
}

TEST(AdversarialTest, Case29FailedWorkStillFreesItsMemory) {
  World w({.page_bytes = 4096, .memory_bytes = 4096});
  for (int i = 0; i < 10; ++i) {
    BufferPtr a = w.allocate(w.compute(), 4096);
    Submission(w.copy()).write(a).run([](void*) { raise(ErrorKind::Device, "on purpose"); });
  }
  EXPECT_EQ(w.device().memory().live, 0u);
}

TEST(AdversarialTest, Case30DeterministicAllocationsHaveTheSameAddressesInEverySchedule) {
  std::set<std::vector<size_t>> seen;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    auto scheduler = make_scheduler("random", seed);
    World w({.scheduler = scheduler.get()});
    std::mt19937_64 random(7);
    std::vector<BufferPtr> buffers(8);
    std::vector<size_t> offsets;
    const char* base = nullptr;
    for (int i = 0; i < 200; ++i) {
      BufferPtr& buffer = buffers[random() % buffers.size()];
      Stream& stream = random() % 2 ? w.compute() : w.copy();
      if (!buffer) {
        buffer = w.allocate(stream, 256 << random() % 5, {.deterministic = true});
        if (!base) base = static_cast<const char*>(buffer->data());
        offsets.push_back(static_cast<size_t>(static_cast<const char*>(buffer->data()) - base));
      } else if (random() % 2) {
        w.stamp(stream, buffer, i);
      } else {
        w.free(buffer);
      }
    }
    seen.insert(offsets);
  }
  EXPECT_EQ(seen.size(), 1u);
}

TEST(AdversarialTest, Case31OnlyCompletionThatTheHostSawCounts) {
  World w({});
  BufferPtr a = w.allocate(w.compute(), 1024);
  void* address = a->data();
  w.stamp(w.copy(), a, 1);
  a.reset();
  BufferPtr b = w.allocate(w.compute(), 1024);
  EXPECT_NE(b->data(), address);
  w.sim().run_all();
  BufferPtr c = w.allocate(w.compute(), 1024);
  EXPECT_EQ(c->data(), address);
  EXPECT_EQ(w.device().memory_counts().foreign, 1u);
}

// --- What needs completion

TEST(AdversarialTest, Case33TrimLeavesMemoryInUse) {
  under_all(
      [](World& w) {
        BufferPtr a = w.allocate(w.compute(), 4096), b = w.allocate(w.compute(), 8192);
        w.stamp(w.compute(), a, 1);
        w.expect(w.copy(), a, 1);
        w.free(a);
        w.sim().host_step(true);
        w.device().trim();
        w.stamp(w.compute(), b, 2);
        w.free(b);
        w.sim().host_step(true);
        w.device().trim();
        BufferPtr c = w.allocate(w.compute(), 4096);
        w.stamp(w.compute(), c, 3);
        w.host_expect(c, 3);
      },
      {.page_bytes = 4096});
}

TEST(AdversarialTest, Case34ForeignMemoryIsReleasedAfterItsLastUse) {
  under_all([](World& w) {
    auto memory = std::make_shared<std::vector<uint64_t>>(32, 1);
    auto released = std::make_shared<int>(0);
    auto written = std::make_shared<int>(0);
    BufferPtr wrapped = w.device().wrap(memory->data(), 256, [&w, memory, released, written] {
      ++*released;
      if (*written != 2) w.set_fault("released under a kernel");
    });
    Submission(w.copy()).write(wrapped).run([written](void*) { ++*written; });
    Submission(w.compute()).read(wrapped).run([written](void*) { ++*written; });
    w.free(wrapped);
    w.finish();
    if (*released != 1) w.set_fault("released " + std::to_string(*released) + " times");
  });
}

TEST(AdversarialTest, CaseHostReadsAndWritesWait) {
  under_all([](World& w) {
    BufferPtr a = w.allocate(w.compute()), b = w.allocate(w.copy());
    w.stamp(w.compute(), a, 1);
    w.host_expect(a, 1);
    w.move(w.copy(), a, b, 1);
    w.host_stamp(a, 2);
    w.expect(w.copy(), a, 2);
    w.host_expect(b, 1);
    w.stamp(w.compute(), a, 3);
    w.stamp(w.copy(), a, 4);
    w.host_expect(a, 4);
  });
}

// There is no managed memory; this is the host's other way to memory that work has used.
TEST(AdversarialTest, Case39TheHostWritesIntoARecycledBlock) {
  under_all([](World& w) {
    BufferPtr used = w.allocate(w.copy());
    w.stamp(w.copy(), used, 1);
    w.expect(w.compute(), used, 1);
    w.free(used);
    w.sim().host_step(true);
    BufferPtr host = w.copy().allocate_for_host(256);
    w.host_stamp(host, 2);
    w.expect(w.compute(), host, 2);
    w.free(host);
    BufferPtr next = w.allocate(w.copy());
    w.host_stamp(next, 3);
    w.host_expect(next, 3);
  });
}

// Guest mode: another allocator lends its memory in slabs, and must get back only what no work uses any more.
struct Lender {
  explicit Lender(World& world) : world(world) {
    SlabLender functions;
    functions.slab_bytes = 8192;
    functions.take = [this](size_t bytes) -> Slab {
      EXPECT_TRUE(ordering_lock().try_lock()) << "called under our lock";
      ordering_lock().unlock();
      size_t reserved = bytes;
      if (lent + bytes > most) return {};
      char* base = this->world.sim().device().backend().reserve(reserved);
      if (!this->world.sim().device().backend().commit(base, bytes)) return {};
      lent += bytes;
      slabs[base] = bytes;
      return {base, bytes, std::exchange(after, {})};
    };
    functions.give = [this](char* base) {
      EXPECT_TRUE(ordering_lock().try_lock()) << "called under our lock";
      ordering_lock().unlock();
      this->world.sim().device().backend().decommit(base, slabs.at(base));  // whoever still uses it faults
      lent -= slabs.at(base);
      slabs.erase(base);
    };
    world.sim().device().set_lender(functions);
  }
  World& world;
  size_t lent = 0, most = ~size_t{0};
  Frontier after;
  std::map<char*, size_t> slabs;
};

TEST(AdversarialTest, Case36SlabsGoBackToTheirOwnerWhenNothingUsesThem) {
  under_all(
      [](World& w) {
        Lender lender(w);
        BufferPtr a = w.allocate(w.compute(), 4096), b = w.allocate(w.compute(), 4096);
        w.stamp(w.compute(), a, 1);
        w.expect(w.copy(), a, 1);
        w.free(a);
        w.sim().host_step(true);
        EXPECT_EQ(w.device().trim(), 0u);  // b is in it
        w.stamp(w.compute(), b, 2);
        w.expect(w.copy(), b, 2);
        w.free(b);
        w.sim().host_step(true);
        const size_t before = lender.lent, given = w.device().trim();
        EXPECT_EQ(before - lender.lent, given);
        BufferPtr c = w.allocate(w.copy(), 8192);
        w.stamp(w.copy(), c, 3);
        w.host_expect(c, 3);
        MemoryInfo info = w.device().memory();
        EXPECT_EQ(info.reserved, lender.lent);
        EXPECT_EQ(info.live + info.pending + info.cached, info.reserved);
        w.free(c);
        w.finish();
        w.device().trim();
        EXPECT_EQ(lender.lent, 0u);
      },
      {.page_bytes = 4096});
}

// What the owner had queued on the memory before it lent it comes before our first use.
TEST(AdversarialTest, Case36bASlabThatItsOwnersWorkStillUses) {
  under_all(
      [](World& w) {
        auto owner = w.stream("owner");
        Lender lender(w);
        char* slab = nullptr;
        {
          // The owner's work on what it is about to lend.
          size_t bytes = 8192;
          slab = w.sim().device().backend().reserve(bytes);
          ASSERT_TRUE(w.sim().device().backend().commit(slab, 8192));
          auto work = [slab](void*) {
            for (int i = 0; i < 1024; ++i) reinterpret_cast<uint64_t*>(slab)[i] = 77;
          };
          Submission(*owner).label("of the owner").run(work);
        }
        SlabLender once;
        once.slab_bytes = 8192;
        once.take = [&, lent = false](size_t) mutable -> Slab {
          if (std::exchange(lent, true)) return {};
          Frontier after;
          after.add({&owner->axis(), owner->axis().submitted.load()});
          return {slab, 8192, std::move(after)};
        };
        once.give = [](char*) {};
        w.sim().device().set_lender(once);
        BufferPtr a = w.allocate(w.compute(), 4096), b = w.allocate(w.copy(), 4096);
        w.stamp(w.compute(), a, 1);
        w.stamp(w.copy(), b, 2);
        w.host_expect(a, 1);
        w.host_expect(b, 2);
      },
      {.page_bytes = 4096});
}

TEST(AdversarialTest, Case36cMoreThanTheOwnerLendsIsOutOfMemory) {
  World w({.page_bytes = 4096});
  Lender lender(w);
  lender.most = 16384;
  BufferPtr a = w.allocate(w.compute(), 4096), b = w.allocate(w.compute(), 12288);
  w.stamp(w.compute(), a, 1);
  EXPECT_EQ(kind_of([&] { w.compute().allocate(16384); }), ErrorKind::OutOfMemory);
  EXPECT_EQ(kind_of([&] { w.compute().allocate(12288, {.no_growth = true}); }), ErrorKind::OutOfMemory);
  w.host_expect(a, 1);
  w.free(a);
  w.free(b);
  BufferPtr all = w.allocate(w.copy(), 16384);  // only by giving both slabs back, and borrowing them in one piece
  w.stamp(w.copy(), all, 2);
  w.host_expect(all, 2);
  EXPECT_EQ(lender.lent, 16384u);
  EXPECT_EQ(kind_of([&] { w.sim().device().set_lender({}); }), ErrorKind::Invalid);
  w.free(all);
  w.finish();
  EXPECT_EQ(w.device().trim(), 16384u);
  EXPECT_EQ(lender.lent, 0u);
}

// A stream of another device has still to read memory that its own device has freed.
TEST(AdversarialTest, Case38APeerStillReadsFreedMemory) {
  World owner({}), peer({.ordinal = 1});
  BufferPtr shared = owner.allocate(owner.compute(), 1024);
  void* address = shared->data();
  owner.stamp(owner.compute(), shared, 1);
  owner.finish();
  uint64_t seen = 0;
  Submission(peer.compute()).read(shared).run([&, address](void*) {
    if (owner.sim().is_mapped(address, 1024)) std::memcpy(&seen, address, sizeof seen);
  });
  owner.free(shared);
  BufferPtr next = owner.compute().allocate(1024, {.no_hidden_wait = true});
  EXPECT_NE(next->data(), address);
  owner.stamp(owner.compute(), next, 2);
  owner.finish();
  owner.device().trim();
  peer.finish();
  EXPECT_EQ(seen, 1u) << "memory that a peer reads was reused or given back";
  EXPECT_EQ(owner.compute().allocate(1024)->data(), address);
}

// A consumer's kernel is still queued on its stream when it gives a lent buffer back.
TEST(AdversarialTest, Case52TheConsumerOfAnExportIsStillReading) {
  under_all([](World& w) {
    auto consumer = w.stream("consumer");
    BufferPtr lent = w.allocate(w.compute());
    w.host_stamp(lent, 1);
    Stream* consumers[] = {consumer.get()};
    dlpack::ManagedTensorVersioned* array = dlpack::export_versioned({lent, 0, {dlpack::kInt, 64, 1}, {32}, {1}}, {}, consumers);
    w.free(lent);
    w.foreign_expect(*consumer, array->tensor.data, 256, 1);
    array->deleter(array);
    BufferPtr next = w.allocate(w.compute());
    w.stamp(w.compute(), next, 2);
    w.expect(w.compute(), next, 2);
  });
}

// --- Out of memory and fragments

TEST(AdversarialTest, Case59TheHostWaitsForPendingFrees) {
  // Half the memory, freed but in use, lies in pieces on either side of the border: only completed and joined they make room.
  World w({.page_bytes = 4096, .memory_bytes = 8192});
  auto other = w.stream("other");
  BufferPtr a = w.allocate(w.compute(), 4096), b = w.allocate(w.copy(), 4096);
  w.stamp(*other, a, 1);
  w.stamp(w.compute(), b, 2);
  a.reset();
  b.reset();
  BufferPtr c = w.allocate(w.copy(), 8192);
  w.stamp(w.copy(), c, 3);
  w.host_expect(c, 3);
  EXPECT_EQ(w.fault(), "");
  EXPECT_EQ(w.device().memory_counts().failures, 0u);
}

// Whoever is asked for memory when there is none allocates from the very device that asks.
TEST(AdversarialTest, Case61AReliefThatAllocates) {
  World w({.page_bytes = 4096, .memory_bytes = 8192});
  BufferPtr cache = w.allocate(w.compute(), 4096), small = w.allocate(w.compute(), 1024);
  int calls = 0;
  w.sim().device().set_memory_relief([&](size_t) {
    ++calls;
    EXPECT_THROW(w.compute().allocate(1 << 20), Error);  // must not ask again without end
    bool had = cache != nullptr;
    cache.reset();
    return had;
  });
  BufferPtr wanted = w.allocate(w.compute(), 4096);
  w.stamp(w.compute(), wanted, 1);
  w.host_expect(wanted, 1);
  EXPECT_GE(calls, 1);
  EXPECT_LT(calls, 10);
  w.sim().device().set_memory_relief(nullptr);
}

TEST(AdversarialTest, Case62GrowingSizesDoNotPileUp) {
  World w({});
  size_t peak = 0;
  for (int i = 1; i <= 200; ++i) {
    BufferPtr a = w.allocate(w.compute(), 4096 * i), b = w.allocate(w.compute(), 4096 * i);
    w.stamp(w.compute(), a, 1);
    w.move(w.compute(), a, b, 1);
    peak = 2 * 4096 * i;
  }
  EXPECT_LT(w.device().memory().reserved, peak + peak / 10);
}

TEST(AdversarialTest, Case63MemoryThatCannotBeCommittedIsAnErrorAndNothingIsLost) {
  for (uint64_t failing = 1; failing <= 4; ++failing) {
    World w({.page_bytes = 4096, .failing_commit = failing});
    std::vector<BufferPtr> kept;
    for (int i = 0; i < 6; ++i) {
      try {
        kept.push_back(w.allocate(w.compute(), 4096 * (i + 1)));
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::OutOfMemory);
        continue;
      }
      w.stamp(w.compute(), kept.back(), 100 + i);
    }
    for (size_t i = 0; i < kept.size(); ++i) w.host_expect(kept[i], 100 + kept[i]->size() / 4096 - 1);
    kept.clear();
    MemoryInfo info = w.device().memory();
    EXPECT_EQ(info.live, 0u);
    EXPECT_EQ(info.pending + info.cached, info.reserved);
    EXPECT_EQ(w.device().trim(), info.reserved);
    EXPECT_EQ(w.fault(), "");
  }
}

TEST(AdversarialTest, Case63bNoAddressesAtFirstAndNoStream) {
  World w({.failing_reserve = 1});
  BufferPtr a = w.allocate(w.compute());  // asked for once more after memory was given back
  w.stamp(w.compute(), a, 1);
  w.host_expect(a, 1);
  World v({.failing_queue = 4});
  EXPECT_EQ(kind_of([&] { v.stream("fourth"); }), ErrorKind::Device);
  auto fifth = v.stream("fifth");
  BufferPtr b = v.allocate(*fifth);
  v.stamp(*fifth, b, 1);
  v.host_expect(b, 1);
}

TEST(AdversarialTest, Case64ARequestBeyondTheDevice) {
  World w({.page_bytes = 4096, .memory_bytes = 1 << 20});
  for (size_t bytes : {size_t{2} << 20, size_t{1} << 39, size_t{1} << 41, ~size_t{0}}) {
    EXPECT_EQ(kind_of([&] { w.compute().allocate(bytes); }), ErrorKind::OutOfMemory) << bytes;
  }
  BufferPtr all = w.allocate(w.compute(), 1 << 20);
  w.stamp(w.compute(), all, 1);
  w.host_expect(all, 1);
}

// Two pools near one limit: what another library holds in buffers of ours leaves less for us.
TEST(AdversarialTest, Case58AdoptedMemoryCountsAgainstTheLimit) {
  World w({});
  w.device().set_memory_limit(size_t{2} << 20);
  std::vector<char> theirs(size_t{3} << 19);
  BufferPtr adopted = w.device().wrap(theirs.data(), theirs.size(), [] {});
  EXPECT_EQ(w.device().memory().adopted, theirs.size());
  EXPECT_EQ(w.device().memory().live, 0u);
  EXPECT_EQ(kind_of([&] { w.compute().allocate(1 << 20); }), ErrorKind::OutOfMemory);
  BufferPtr small = w.compute().allocate(1 << 18);
  EXPECT_EQ(w.device().memory().peak_live, theirs.size() + (1 << 18));
  adopted.reset();
  EXPECT_EQ(w.device().memory().adopted, 0u);
  EXPECT_EQ(w.compute().allocate(1 << 20)->size(), size_t{1} << 20);
}

TEST(AdversarialTest, Case66TotalsReturnToZero) {
  std::mt19937_64 random(11);
  World w({});
  auto third = w.stream("third");
  Stream* streams[] = {&w.compute(), &w.copy(), third.get()};
  std::vector<BufferPtr> buffers(40);
  for (int i = 0; i < 5000; ++i) {
    BufferPtr& buffer = buffers[random() % buffers.size()];
    Stream& stream = *streams[random() % 3];
    if (!buffer) {
      buffer = w.allocate(stream, 1 + random() % 3'000'000);
    } else if (random() % 2) {
      Submission(stream).write(buffer).run([](void*) {});
    } else {
      buffer.reset();
    }
    if (i % 500 == 0) {
      MemoryInfo info = w.device().memory();
      EXPECT_EQ(info.live + info.pending + info.cached, info.reserved);
    }
  }
  buffers.clear();
  w.device().synchronize();
  MemoryInfo info = w.device().memory();
  EXPECT_EQ(info.live, 0u);
  EXPECT_EQ(info.pending, 0u);
  EXPECT_EQ(info.cached, info.reserved);
  EXPECT_EQ(w.device().trim(), info.reserved);
  EXPECT_EQ(w.device().memory().reserved, 0u);
}

// --- Collectives

// Two ranks, each with a stream for each of two communicators. A collective runs on both ranks or on neither.
struct Ranks {
  static bool arrive(std::map<std::string, int>& arrived, int rank, const Task& task) {
    if (std::string(task.label) != "X" && std::string(task.label) != "Y") return true;
    arrived[task.label] |= 1 << rank;
    return arrived[task.label] == 3;
  }
  explicit Ranks(size_t memory_bytes) {
    for (int rank : {0, 1}) {
      Options options{.page_bytes = 4096, .memory_bytes = memory_bytes};
      options.may_run = [this, rank](const Task& task) { return arrive(arrived, rank, task); };
      options.ordinal = rank;
      worlds.push_back(std::make_unique<World>(options));
      for (const char* name : {"X", "Y"}) streams[rank].push_back(worlds.back()->stream(name));
    }
  }
  // Puts a collective with scratch of a page on the rank's stream for it; `flags` say how the scratch may be had.
  void submit(int rank, int which, AllocFlags flags) {
    Stream& stream = *streams[rank][which];
    BufferPtr scratch = stream.allocate(4096, flags);
    Submission(stream).write(scratch).label(which ? "Y" : "X").run([this](void*) { ++done; });
  }
  // Runs whatever can run on either rank until nothing can.
  void run() {
    for (int before = -1; before != done;) {
      before = done;
      for (auto& world : worlds) world->sim().run_all();
      for (auto& world : worlds) world->sim().run_all();
    }
  }
  // Lets everything run whoever is missing, so that the devices can end.
  ~Ranks() {
    for (const char* name : {"X", "Y"}) arrived[name] = 3;
    run();
  }
  std::map<std::string, int> arrived;
  int done = 0;
  std::vector<std::unique_ptr<World>> worlds;
  std::vector<std::unique_ptr<Stream>> streams[2];
};

// The ranks submit two collectives in opposite orders. That is fine as long as the allocator does not make the later one wait for the earlier one.
TEST(AdversarialTest, Case67OppositeOrdersOnTwoRanksWithScratch) {
  Ranks enough(8192);
  for (int rank : {0, 1}) {
    for (int step : {0, 1}) enough.submit(rank, rank == 0 ? step : 1 - step, {.no_hidden_wait = true});
  }
  enough.run();
  EXPECT_EQ(enough.done, 4);

  Ranks scarce(4096);
  for (int rank : {0, 1}) {
    scarce.submit(rank, rank, {.no_hidden_wait = true});
    EXPECT_EQ(kind_of([&] { scarce.submit(rank, 1 - rank, {.no_hidden_wait = true}); }), ErrorKind::OutOfMemory);
  }
}

// What the flag is for: with hidden waits the two ranks wait for each other.
TEST(AdversarialTest, Case67bHiddenWaitsBetweenCollectivesDeadlock) {
  Ranks scarce(4096);
  for (int rank : {0, 1}) {
    for (int step : {0, 1}) scarce.submit(rank, rank == 0 ? step : 1 - step, {});
  }
  scarce.run();
  EXPECT_EQ(scarce.done, 0);
}

// Two ranks make the same symmetric allocations; everything else on them differs: other sizes, other schedules, other moments of completion, frees by other
// streams. The offsets are the same, and no value is ever wrong.
TEST(AdversarialTest, Case68SymmetricOffsetsAreEqualAcrossRanks) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    std::vector<std::vector<size_t>> offsets;
    for (uint64_t rank = 0; rank < 3; ++rank) {
      auto scheduler = make_scheduler(rank == 0 ? "newest-first" : "random", seed * 10 + rank);
      Options options{.page_bytes = 4096, .scheduler = rank < 2 ? scheduler.get() : nullptr, .ordinal = static_cast<int>(rank)};
      if (rank == 2) options.threads = seed;
      World w(options);
      auto collective = w.stream("collective");
      std::mt19937_64 common(seed), own(seed * 100 + rank);
      std::vector<BufferPtr> windows(6), others(6);
      std::vector<uint64_t> tags(6);
      std::vector<size_t>& mine = offsets.emplace_back();
      for (uint64_t i = 1; i <= 120; ++i) {
        const size_t index = common() % windows.size();
        BufferPtr& window = windows[index];
        const size_t bytes = 256 << common() % 6;
        Stream& stream = common() % 3 ? *collective : w.compute();
        if (!window) {
          window = w.allocate(stream, bytes, {.symmetric = true});
          mine.push_back(static_cast<size_t>(static_cast<char*>(window->data()) - w.sim().device().symmetric_base()));
          w.stamp(stream, window, tags[index] = i);
        } else if (common() % 2) {
          w.expect(stream, window, tags[index]);
          w.stamp(w.compute(), window, tags[index] = i);
        } else {
          w.expect(w.copy(), window, tags[index]);
          w.free(window);
        }
        // What only this rank does.
        for (uint64_t k = own() % 4; k > 0; --k) {
          BufferPtr& other = others[own() % others.size()];
          if (!other) {
            other = w.allocate(own() % 2 ? w.copy() : w.compute(), 256 << own() % 6);
          } else if (own() % 3 == 0) {
            w.free(other);
          } else {
            w.stamp(own() % 2 ? *collective : w.copy(), other, own());
          }
        }
        if (own() % 16 == 0) w.device().trim();
      }
      MemoryInfo info = w.device().memory();
      EXPECT_EQ(info.live + info.pending + info.cached, info.reserved);
      windows.clear();
      others.clear();
      w.finish();
      EXPECT_EQ(w.fault(), "") << "rank " << rank << ", seed " << seed;
      EXPECT_EQ(w.device().memory().live, 0u);
      w.device().trim();
      EXPECT_EQ(w.device().memory().reserved, 0u);
    }
    EXPECT_EQ(offsets[0], offsets[1]) << "seed " << seed;
    EXPECT_EQ(offsets[0], offsets[2]) << "seed " << seed;
  }
}

TEST(AdversarialTest, Case68bMemoryAtASymmetricAddressWaitsForWhoUsedItBefore) {
  under_all([](World& w) {
    auto collective = w.stream("collective");
    BufferPtr window = w.allocate(*collective, 512, {.symmetric = true});
    void* address = window->data();
    w.stamp(*collective, window, 1);
    w.expect(w.compute(), window, 1);
    w.free(window);
    BufferPtr half = w.allocate(*collective, 256, {.symmetric = true}), rest = w.allocate(w.copy(), 256, {.symmetric = true});
    EXPECT_EQ(half->data(), address);
    w.stamp(*collective, half, 2);
    w.stamp(w.copy(), rest, 3);
    w.expect(w.compute(), half, 2);
    w.expect(w.compute(), rest, 3);
  });
  World w({});
  BufferPtr window = w.allocate(w.copy(), 512, {.symmetric = true});
  w.stamp(w.compute(), window, 1);
  w.free(window);
  const AllocFlags no_waits{.no_hidden_wait = true, .symmetric = true};
  EXPECT_EQ(kind_of([&] { w.copy().allocate(512, no_waits); }), ErrorKind::OutOfMemory);
  EXPECT_EQ(kind_of([&] { w.copy().allocate(1 << 20, {.no_growth = true, .symmetric = true}); }), ErrorKind::OutOfMemory);
  w.sim().run_all();
  BufferPtr next = w.copy().allocate(512, no_waits);
  w.stamp(w.copy(), next, 2);
  w.host_expect(next, 2);
}

TEST(AdversarialTest, Case69ACommunicatorEndsWithBuffersInFlight) {
  bool aborted = false;
  Options options{.page_bytes = 4096, .memory_bytes = 8192};
  options.may_run = [&](const Task& task) { return std::string(task.label) != "all-reduce" || aborted; };
  World w(options);
  auto collective = w.stream("collective");
  BufferPtr gradient = w.allocate(w.compute(), 4096), sum = w.allocate(*collective, 4096);
  w.stamp(w.compute(), gradient, 1);
  Submission(*collective).read(gradient).write(sum).label("all-reduce").run([](void*) { raise(ErrorKind::Vendor, "the communicator was aborted"); });
  BufferPtr reader = sum;
  Submission(w.compute()).read(sum).label("optimizer").run([&](void*) { w.set_fault("ran on a sum that was never made"); });
  w.free(gradient);
  w.free(sum);
  w.finish();
  EXPECT_FALSE(reader->is_written());
  EXPECT_EQ(kind_of([&] { w.copy().allocate(4096, {.no_hidden_wait = true}); }), ErrorKind::OutOfMemory) << "memory of a collective in flight was reused";
  aborted = true;
  w.finish();
  EXPECT_EQ(kind_of([&] { reader->wait_written(); }), ErrorKind::Vendor);
  reader.reset();
  BufferPtr next = w.allocate(w.compute(), 8192);
  w.stamp(w.compute(), next, 2);
  w.host_expect(next, 2);
  EXPECT_EQ(w.fault(), "");
}

}  // namespace
}  // namespace thalweg::runtime::sim
