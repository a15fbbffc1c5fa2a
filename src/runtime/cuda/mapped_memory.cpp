// Mapping and unmapping of chunks.
#include "runtime/cuda/mapped_memory.h"

#include <algorithm>

#include "support/error.h"

namespace thalweg::runtime::cuda {
namespace {

DevicePtr address(const char* base) { return reinterpret_cast<DevicePtr>(base); }

}  // namespace

MappedMemory::MappedMemory(Context context, DeviceHandle device, size_t chunk_pages) : context_(context) {
  int supported = 0;
  check(driver().device_attribute(&supported, kVmmSupported, device), "read an attribute of a GPU");
  THALWEG_CHECK(supported, Unsupported, "this GPU cannot map memory by pages, which Thalweg's allocator needs; use a GPU of compute capability 7.0 or later");
  properties_.type = kMemoryPinned;
  properties_.location = {kLocationDevice, device};
  check(driver().memory_granularity(&page_, &properties_, kGranularityMinimum), "read the size of a page");
  chunk_bytes_ = page_ * chunk_pages;
  access_.push_back({properties_.location, kAccessReadWrite});
  // GPUs that reach this one directly get access with the same call.
  int count = 0;
  driver().device_count(&count);
  for (int other = 0; other < count; ++other) {
    DeviceHandle peer = 0;
    int can = 0;
    if (driver().device_get(&peer, other) != kSuccess || peer == device) continue;
    if (driver().can_access_peer(&can, peer, device) == kSuccess && can) access_.push_back({{kLocationDevice, peer}, kAccessReadWrite});
  }
}

MappedMemory::~MappedMemory() {
  if (is_forked()) return;
  ContextScope scope(context_);
  while (!chunks_.empty()) unmap(chunks_.begin());
}

char* MappedMemory::reserve(size_t& bytes) {
  ContextScope scope(context_);
  for (; bytes >= page_; bytes /= 2) {
    DevicePtr base = 0;
    if (driver().address_reserve(&base, bytes, std::max(chunk_bytes_, page_), 0, 0) == kSuccess) return reinterpret_cast<char*>(base);
  }
  return nullptr;
}

void MappedMemory::unreserve(char* base, size_t bytes) {
  if (is_forked()) return;
  ContextScope scope(context_);
  for (auto chunk = chunks_.lower_bound(base); chunk != chunks_.end() && chunk->first < base + bytes;) unmap(chunk++);
  driver().address_free(address(base), bytes);
}

template <class Visit>
void MappedMemory::each_chunk(char* base, size_t bytes, Visit visit) {
  auto chunk = chunks_.upper_bound(base);
  if (chunk != chunks_.begin() && std::prev(chunk)->first + std::prev(chunk)->second.bytes > base) --chunk;
  while (chunk != chunks_.end() && chunk->first < base + bytes) {
    auto next = std::next(chunk);
    char *begin = std::max(base, chunk->first), *end = std::min(base + bytes, chunk->first + chunk->second.bytes);
    visit(chunk, static_cast<size_t>(begin - chunk->first) / page_, static_cast<size_t>(end - chunk->first) / page_);
    chunk = next;
  }
}

bool MappedMemory::map_chunk(char* base, size_t bytes) {
  MemoryHandle handle = 0;
  if (driver().memory_create(&handle, bytes, &properties_, 0) != kSuccess) return false;
  Result result = driver().memory_map(address(base), bytes, 0, handle, 0);
  if (result == kSuccess) {
    result = driver().memory_set_access(address(base), bytes, access_.data(), access_.size());
    if (result != kSuccess) driver().memory_unmap(address(base), bytes);
  }
  if (result != kSuccess) {
    driver().memory_release(handle);
    return false;
  }
  mapped_ += bytes;
  chunks_.emplace(base, Chunk{handle, bytes, std::vector<bool>(bytes / page_, true), bytes / page_});
  return true;
}

void MappedMemory::unmap(Chunks::iterator chunk) {
  driver().memory_unmap(address(chunk->first), chunk->second.bytes);
  driver().memory_release(chunk->second.handle);
  mapped_ -= chunk->second.bytes;
  chunks_.erase(chunk);
}

// Maps a range without memory in chunks as large as the GPU gives.
bool MappedMemory::map_range(char* base, size_t bytes, std::vector<char*>& made) {
  size_t piece = chunk_bytes_;
  while (bytes > 0) {
    size_t size = std::min(piece, bytes);
    if (map_chunk(base, size)) {
      made.push_back(base);
      base += size;
      bytes -= size;
    } else if (size > page_) {
      piece = std::max(page_, size / 2 / page_ * page_);
    } else {
      return false;
    }
  }
  return true;
}

bool MappedMemory::commit(char* base, size_t bytes) {
  ContextScope scope(context_);
  CaptureExempt exempt;
  // The gaps between what is still mapped.
  std::vector<std::pair<char*, size_t>> gaps;
  char* at = base;
  each_chunk(base, bytes, [&](Chunks::iterator chunk, size_t, size_t last) {
    if (chunk->first > at) gaps.emplace_back(at, static_cast<size_t>(chunk->first - at));
    at = chunk->first + last * page_;
  });
  if (at < base + bytes) gaps.emplace_back(at, static_cast<size_t>(base + bytes - at));
  std::vector<char*> made;
  for (auto [begin, size] : gaps) {
    if (map_range(begin, size, made)) continue;
    for (char* chunk : made) unmap(chunks_.find(chunk));
    return false;
  }
  each_chunk(base, bytes, [&](Chunks::iterator chunk, size_t first, size_t last) {
    for (size_t page = first; page < last; ++page) {
      if (!chunk->second.wanted[page]) ++chunk->second.wanted_pages;
      chunk->second.wanted[page] = true;
    }
  });
  return true;
}

void MappedMemory::decommit(char* base, size_t bytes) {
  if (is_forked()) return;
  ContextScope scope(context_);
  CaptureExempt exempt;
  each_chunk(base, bytes, [&](Chunks::iterator chunk, size_t first, size_t last) {
    for (size_t page = first; page < last; ++page) {
      if (chunk->second.wanted[page]) --chunk->second.wanted_pages;
      chunk->second.wanted[page] = false;
    }
    if (chunk->second.wanted_pages == 0) unmap(chunk);
  });
}

}  // namespace thalweg::runtime::cuda
