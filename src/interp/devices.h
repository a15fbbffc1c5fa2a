// N simulated devices that run one program in threads and meet at collectives.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <vector>

#include "ir/literal.h"

namespace thalweg::interp {

// Where the devices of a parallel run meet. Thread-safe.
class Devices {
 public:
  Devices(int64_t replicas, int64_t partitions) : replicas_(replicas), partitions_(partitions) {}
  int64_t replicas() const { return replicas_; }
  int64_t partitions() const { return partitions_; }

  // Leaves `operands` for the group and waits for those of all its devices, given in the group's order. `op` tells apart the collectives of a program; the
  // same op met again is a new meeting. Throws Error(Invalid) when a partner has ended or failed.
  std::vector<std::vector<ir::Literal>> meet(const void* op, const std::vector<int64_t>& group, int64_t device, std::vector<ir::Literal> operands);
  // Device `device` takes part in nothing more.
  void leave(int64_t device);

 private:
  struct Meeting {
    std::map<int64_t, std::vector<ir::Literal>> operands;
    size_t gone = 0;
  };
  bool someone_left(const std::vector<int64_t>& group, const Meeting& meeting) const;
  int64_t replicas_, partitions_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<const void*, std::vector<int64_t>>, Meeting> meetings_;
  std::vector<int64_t> left_;
};

}  // namespace thalweg::interp
