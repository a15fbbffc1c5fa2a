// Pinned memory and the copies through it.
#include "runtime/cuda/staging.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>
#include <mutex>
#include <vector>

#include "runtime/spin_lock.h"
#include "support/error.h"

namespace thalweg::runtime::cuda {
namespace {

constexpr size_t kPieceBytes = size_t{8} << 20;   // a large copy goes piece by piece, so that filling one overlaps sending another
constexpr size_t kKeptBytes = size_t{256} << 20;  // pinned memory kept for reuse
constexpr int kReadsAhead = 2;

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
  for (size_t done = 0; done < bytes; done += kPieceBytes) {
    size_t piece = std::min(kPieceBytes, bytes - done);
    std::shared_ptr<char> pinned = pinned_memory(stream.device(), piece);
    std::memcpy(pinned.get(), static_cast<const char*>(from) + done, piece);
    copy_from_pinned(stream, to, offset + done, std::move(pinned), piece);
  }
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
  std::deque<PendingRead> reads;
  size_t asked = 0;
  for (size_t done = 0; done < bytes;) {
    for (; asked < bytes && reads.size() < kReadsAhead; asked += kPieceBytes)
      reads.emplace_back(stream, from, offset + asked, std::min(kPieceBytes, bytes - asked));
    size_t piece = std::min(kPieceBytes, bytes - done);
    std::memcpy(static_cast<char*>(to) + done, reads.front().read(), piece);
    reads.pop_front();
    done += piece;
  }
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
