// NCCL, found when it is first needed: communicators over several GPUs and the collectives on them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/cuda/driver.h"
#include "runtime/device.h"

namespace thalweg::libs::cuda {

// NCCL's element types and reductions, with its numbers.
enum class NcclType : int { Int8 = 0, Uint8 = 1, Int32 = 2, Uint32 = 3, Int64 = 4, Uint64 = 5, Float16 = 6, Float32 = 7, Float64 = 8, Bfloat16 = 9 };
enum class NcclReduction : int { Sum = 0, Product = 1, Max = 2, Min = 3, Average = 4 };

// Whether NCCL can be loaded; `reason`, when given, says why not. Any thread; never throws.
bool has_nccl(std::string* reason = nullptr);
// Its version, e.g. 22809 for 2.28.9. Throws Error(Missing) without NCCL.
int nccl_version();

// One GPU's end of a group of GPUs. The collectives are called as work of a submission, with the stream that the work gets; each end of the group must make the
// same calls in the same order. Every end belongs to one thread at a time. Counts are elements.
class Communicator {
 public:
  ~Communicator();
  Communicator(const Communicator&) = delete;
  int rank() const { return rank_; }
  int size() const { return size_; }
  // All throw Error(Vendor) with NCCL's words.
  void all_reduce(const void* from, void* to, size_t count, NcclType type, NcclReduction reduction, void* native);
  void all_gather(const void* from, void* to, size_t count_each, NcclType type, void* native);
  void reduce_scatter(const void* from, void* to, size_t count_each, NcclType type, NcclReduction reduction, void* native);

 private:
  friend std::vector<std::unique_ptr<Communicator>> make_communicators(const std::vector<runtime::Device*>& devices);
  Communicator(void* handle, int rank, int size) : handle_(handle), rank_(rank), size_(size) {}
  void* handle_;
  int rank_, size_;
};

// The ends of a group of this process's GPUs, in their order. Throws Error(Missing) without NCCL, Error(Vendor) when it fails.
std::vector<std::unique_ptr<Communicator>> make_communicators(const std::vector<runtime::Device*>& devices);

}  // namespace thalweg::libs::cuda
