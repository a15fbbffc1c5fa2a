// Device memory as ranges of addresses with pages mapped behind them.
#pragma once

#include <map>
#include <vector>

#include "runtime/cuda/driver.h"

namespace thalweg::runtime::cuda {

// Addresses and memory of one GPU. Memory comes in chunks of several pages; a page that is given back is unmapped together with the rest of its chunk, once
// none of its pages is wanted. Not thread-safe: under the ordering lock.
class MappedMemory {
 public:
  // `chunk_pages`: pages of a chunk at most; 1 unmaps each page by itself, so that any use of freed memory faults.
  MappedMemory(Context context, DeviceHandle device, size_t chunk_pages);
  ~MappedMemory();
  MappedMemory(const MappedMemory&) = delete;

  size_t page_bytes() const { return page_; }
  char* reserve(size_t& bytes);
  void unreserve(char* base, size_t bytes);
  // False, and nothing changed, when the GPU has not enough.
  bool commit(char* base, size_t bytes);
  void decommit(char* base, size_t bytes);
  // Bytes mapped now, wanted or not.
  size_t mapped() const { return mapped_; }

 private:
  struct Chunk {
    MemoryHandle handle;
    size_t bytes;
    std::vector<bool> wanted;  // by page
    size_t wanted_pages;
  };
  using Chunks = std::map<char*, Chunk>;

  bool map_chunk(char* base, size_t bytes);
  bool map_range(char* base, size_t bytes, std::vector<char*>& made);
  void unmap(Chunks::iterator chunk);
  // Calls `visit` with each chunk that has pages of the range, and the numbers of the first and behind the last of them.
  template <class Visit>
  void each_chunk(char* base, size_t bytes, Visit visit);

  Context context_;
  MemoryProperties properties_{};
  std::vector<MemoryAccess> access_;
  size_t page_ = 0;
  size_t chunk_bytes_ = 0;
  size_t mapped_ = 0;
  Chunks chunks_;
};

}  // namespace thalweg::runtime::cuda
