// Pinned memory and the copies through it.
#include "runtime/cuda/staging.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <tuple>
#include <vector>

#include "runtime/cuda/stream_queue.h"
#include "runtime/spin_lock.h"
#include "support/error.h"

namespace thalweg::runtime::cuda {
namespace {

constexpr size_t kPieceBytes = size_t{4} << 20;   // a large copy goes piece by piece, so that filling one overlaps sending another
constexpr size_t kKeptBytes = size_t{256} << 20;  // pinned memory kept for reuse
constexpr int kReadsAhead = 2;                    // of each thread of a copy
constexpr size_t kThreads = 8;                    // of a copy: one copies 7 to 9 GB/s, the link takes 55

// Freed pinned memory by power of two. Never destroyed.
struct PinnedCache {
  SpinLock lock;
  std::array<std::vector<char*>, 48> free;
  size_t kept = 0;
};
PinnedCache& pinned_cache() {
  static PinnedCache& instance = *new PinnedCache;
  return instance;
}

// Calls `copy_pieces(next)` on a few threads, this one among them; next() gives out the offsets of the pieces of `bytes`, `bytes` when there are no more.
// Rethrows the first exception, after all have ended.
void share_pieces(size_t bytes, const std::function<void(const std::function<size_t()>& next)>& copy_pieces) {
  std::atomic<size_t> given{0};
  std::mutex error_lock;
  std::exception_ptr error;
  const std::function<size_t()> next = [&] { return std::min(bytes, given.fetch_add(kPieceBytes)); };
  auto run = [&] {
    try {
      copy_pieces(next);
    } catch (...) {
      given.store(bytes);  // the others stop
      std::lock_guard guard(error_lock);
      if (!error) error = std::current_exception();
    }
  };
  const size_t pieces = (bytes + kPieceBytes - 1) / kPieceBytes, cores = std::max(1u, std::thread::hardware_concurrency());
  // Work that is being issued holds its stream on this thread alone.
  const size_t threads = StreamCore::running_here() || is_forked() ? 1 : std::min({kThreads, pieces, cores});
  std::vector<std::thread> helpers;
  try {
    while (helpers.size() + 1 < threads) helpers.emplace_back(run);
  } catch (const std::system_error&) {  // fewer threads then
  }
  run();
  for (std::thread& helper : helpers) helper.join();
  if (error) std::rethrow_exception(error);
}

void free_pinned(char* memory, unsigned log) {
  {
    PinnedCache& cache = pinned_cache();
    std::lock_guard guard(cache.lock);
    size_t bytes = size_t{1} << log;
    if (is_forked() || cache.kept + bytes <= kKeptBytes) {
      cache.kept += bytes;
      cache.free[log].push_back(memory);
      return;
    }
  }
  driver().host_free(memory);
}

}  // namespace

std::shared_ptr<char> pinned_memory(const Device& device, size_t bytes) {
  unsigned log = static_cast<unsigned>(std::bit_width(std::max<size_t>(bytes, 256) - 1));
  THALWEG_CHECK(log < 48, OutOfMemory, "pinned host memory of this size cannot exist: ", bytes, " bytes");
  void* memory = nullptr;
  {
    PinnedCache& cache = pinned_cache();
    std::lock_guard guard(cache.lock);
    if (!cache.free[log].empty()) {
      memory = cache.free[log].back();
      cache.free[log].pop_back();
      cache.kept -= size_t{1} << log;
    }
  }
  if (memory == nullptr) {
    ContextScope scope(context(device));
    CaptureExempt exempt;
    Result result = driver().host_alloc(&memory, size_t{1} << log, kHostPortable);
    THALWEG_CHECK(result == kSuccess, OutOfMemory, "the system has no pinned host memory of ", size_t{1} << log, " bytes left: ", error_text(result),
                  "; free tensors, or raise the limit of locked memory");
  }
  return {static_cast<char*>(memory), [log](char* used) { free_pinned(used, log); }};
}

void copy_from_pinned(Stream& stream, const BufferPtr& to, size_t offset, std::shared_ptr<char> from, size_t bytes) {
  THALWEG_CHECK(offset + bytes <= to->size(), Invalid, "a copy reaches beyond its buffer: ", offset, " + ", bytes, " of ", to->size(), " bytes");
  if (bytes == 0) return;
  Submission(stream).write(to).label("copy from host").run([at = static_cast<char*>(to->data()) + offset, from = std::move(from), bytes](void* native) mutable {
    check(driver().copy_to_device(reinterpret_cast<DevicePtr>(at), from.get(), bytes, static_cast<StreamHandle>(native)), "copy from the host");
    on_complete([kept = std::move(from)] {});
  });
}

void copy_from_host(Stream& stream, const BufferPtr& to, size_t offset, const void* from, size_t bytes) {
  THALWEG_CHECK(offset + bytes <= to->size(), Invalid, "a copy reaches beyond its buffer: ", offset, " + ", bytes, " of ", to->size(), " bytes");
  Axis& axis = stream.axis();
  share_pieces(bytes, [&](const std::function<size_t()>& next) {
    for (size_t done; (done = next()) < bytes;) {
      observe({&axis, axis.submitted.load()});  // pinned memory of pieces that have arrived comes back
      size_t piece = std::min(kPieceBytes, bytes - done);
      std::shared_ptr<char> pinned = pinned_memory(stream.device(), piece);
      std::memcpy(pinned.get(), static_cast<const char*>(from) + done, piece);
      copy_from_pinned(stream, to, offset + done, std::move(pinned), piece);
    }
  });
}

PendingRead::PendingRead(Stream& stream, const BufferPtr& from, size_t offset, size_t bytes) : memory_(pinned_memory(stream.device(), bytes)) {
  THALWEG_CHECK(offset + bytes <= from->size(), Invalid, "a copy reaches beyond its buffer: ", offset, " + ", bytes, " of ", from->size(), " bytes");
  token_ = stream.device().wrap(memory_.get(), bytes, nullptr);
  auto work = [at = static_cast<const char*>(from->data()) + offset, to = memory_, bytes](void* native) mutable {
    if (bytes != 0) check(driver().copy_to_host(to.get(), reinterpret_cast<DevicePtr>(at), bytes, static_cast<StreamHandle>(native)), "copy to the host");
    on_complete([kept = std::move(to)] {});
  };
  Submission(stream).read(from).write(token_).label("copy to host").run(std::move(work));
}

const char* PendingRead::read() {
  token_->wait_written();
  return memory_.get();
}

bool PendingRead::is_ready() const { return token_->is_written(); }

void copy_to_host(Stream& stream, const BufferPtr& from, size_t offset, void* to, size_t bytes) {
  share_pieces(bytes, [&](const std::function<size_t()>& next) {
    std::deque<std::pair<size_t, PendingRead>> reads;
    bool more = true;
    for (;;) {
      while (more && reads.size() < kReadsAhead) {
        const size_t asked = next();
        more = asked < bytes;
        if (more)
          reads.emplace_back(std::piecewise_construct, std::tuple(asked),
                             std::tuple(std::ref(stream), std::ref(from), offset + asked, std::min(kPieceBytes, bytes - asked)));
      }
      if (reads.empty()) return;
      auto& [done, read] = reads.front();
      std::memcpy(static_cast<char*>(to) + done, read.read(), std::min(kPieceBytes, bytes - done));
      reads.pop_front();
    }
  });
}

void copy(Stream& stream, const BufferPtr& from, size_t from_offset, const BufferPtr& to, size_t to_offset, size_t bytes) {
  THALWEG_CHECK(from_offset + bytes <= from->size() && to_offset + bytes <= to->size(), Invalid, "a copy reaches beyond its buffers: ", bytes, " bytes from ",
                from_offset, " of ", from->size(), " to ", to_offset, " of ", to->size());
  if (bytes == 0) return;
  auto work = [a = static_cast<char*>(from->data()) + from_offset, b = static_cast<char*>(to->data()) + to_offset, bytes](void* native) {
    check(driver().copy(reinterpret_cast<DevicePtr>(b), reinterpret_cast<DevicePtr>(a), bytes, static_cast<StreamHandle>(native)), "copy memory");
  };
  Submission(stream).read(from).write(to).label("copy").run(std::move(work));
}

}  // namespace thalweg::runtime::cuda
