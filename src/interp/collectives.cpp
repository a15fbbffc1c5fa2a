// Collectives over simulated devices. A program that is run on one device is a group of itself.
#include <algorithm>

#include "interp/devices.h"
#include "interp/indexing.h"
#include "interp/machine.h"

namespace thalweg::interp {
namespace {

using ir::Dims;
using ir::Literal;
using ir::OpCode;
using Groups = std::vector<std::vector<int64_t>>;
using Shares = std::vector<std::vector<Literal>>;  // one list a device of the group, in its order

int64_t replicas(const Call& call) { return call.machine.devices() ? call.machine.devices()->replicas() : 1; }
int64_t partitions(const Call& call) { return call.machine.devices() ? call.machine.devices()->partitions() : 1; }
int64_t replica(const Call& call) { return call.machine.device() / partitions(call); }
int64_t partition(const Call& call) { return call.machine.device() % partitions(call); }

// Rows of a list of numbers that is a matrix in the text, or one of all ids where it is empty; -1 pads short rows.
Groups listed(const Call& call, const char* attribute, int64_t all) {
  const ir::Attribute* value = call.attrs().find(attribute);
  const Dims* numbers = value ? std::get_if<Dims>(&value->value) : nullptr;
  Groups groups;
  if (numbers && !numbers->empty()) {
    const size_t x = value->type.find('x');
    const size_t columns = x == std::string::npos ? numbers->size() : static_cast<size_t>(std::atoll(value->type.c_str() + x + 1));
    for (size_t i = 0; i < numbers->size(); i += columns) {
      groups.emplace_back();
      for (size_t k = i; k < std::min(i + columns, numbers->size()); ++k)
        if ((*numbers)[k] >= 0) groups.back().push_back((*numbers)[k]);
    }
    return groups;
  }
  groups.emplace_back();
  for (int64_t i = 0; i < all; ++i) groups.back().push_back(i);
  return groups;
}

int64_t channel(const Call& call) { return call.attrs().has("channel_handle") ? call.attrs().dict("channel_handle").integer("handle", 0) : 0; }

// The devices of this device's group. Without a channel, replicas of one partition; with one, replicas of all partitions; with global ids, devices as numbered.
std::vector<int64_t> replica_group(const Call& call) {
  const bool global = call.attrs().boolean("use_global_device_ids", false), crossed = channel(call) > 0;
  const int64_t self = global ? call.machine.device() : replica(call);
  for (const auto& ids : listed(call, "replica_groups", global ? replicas(call) * partitions(call) : replicas(call))) {
    if (std::find(ids.begin(), ids.end(), self) == ids.end()) continue;
    if (global) return ids;
    std::vector<int64_t> group;
    for (int64_t p = 0; p < (crossed ? partitions(call) : 1); ++p)
      for (int64_t r : ids) group.push_back(r * partitions(call) + (crossed ? p : partition(call)));
    return group;
  }
  return {};
}

// Groups of all_to_all, collective_broadcast and collective_permute: replicas of one partition, with a channel partitions of one replica.
std::vector<int64_t> plain_group(const Call& call) {
  const bool crossed = channel(call) > 0;
  const int64_t self = crossed ? partition(call) : replica(call);
  for (const auto& ids : listed(call, "replica_groups", crossed ? partitions(call) : replicas(call))) {
    if (std::find(ids.begin(), ids.end(), self) == ids.end()) continue;
    std::vector<int64_t> group;
    for (int64_t id : ids) group.push_back(crossed ? replica(call) * partitions(call) + id : id * partitions(call) + partition(call));
    return group;
  }
  return {};
}

Shares meet(const Call& call, const std::vector<int64_t>& group) {
  std::vector<Literal> mine;
  for (const ir::LiteralPtr& operand : call.operands) mine.push_back(*operand);
  if (!call.machine.devices()) return {mine};
  return call.machine.devices()->meet(&call.op, group, call.machine.device(), std::move(mine));
}

Literal zeros(const ir::Type& type) { return Literal(type); }

// Operand k of every share, combined by the region in the group's order.
Literal combined(const Call& call, const Shares& shares, size_t k) {
  const Reducer reducer(call.machine, call.region());
  Literal out = shares[0][k];
  Literal accumulator(ir::tensor(out.type.dtype));
  for (int64_t i = 0; i < out.type.size(); ++i) {
    copy_element(accumulator, 0, out, i);
    for (size_t s = 1; s < shares.size(); ++s) reducer.apply(accumulator, element(shares[s][k], i));
    copy_element(out, i, accumulator, 0);
  }
  return out;
}

std::vector<Literal> all_reduce(const Call& call) {
  const Shares shares = meet(call, replica_group(call));
  std::vector<Literal> out;
  for (size_t k = 0; k < call.operands.size(); ++k) out.push_back(combined(call, shares, k));
  return out;
}

// Slice number `part` of `parts` along `dim`.
Literal part_of(const Literal& in, int64_t dim, int64_t part, int64_t parts) {
  ir::Type type = in.type;
  const auto d = static_cast<size_t>(dim);
  type.dims[d] /= parts;
  Literal out(type);
  const Dims strides = strides_of(in.type.dims);
  for_each_index(type.dims, [&](const Dims& index, int64_t i) { copy_element(out, i, in, offset_of(index, strides) + part * type.dims[d] * strides[d]); });
  return out;
}

Literal joined(const std::vector<Literal>& parts, int64_t dim) {
  ir::Type type = parts[0].type;
  const auto d = static_cast<size_t>(dim);
  type.dims[d] = 0;
  for (const Literal& part : parts) type.dims[d] += part.type.dims[d];
  Literal out(type);
  const Dims strides = strides_of(type.dims);
  int64_t start = 0;
  for (const Literal& part : parts) {
    for_each_index(part.type.dims, [&](const Dims& index, int64_t i) { copy_element(out, offset_of(index, strides) + start * strides[d], part, i); });
    start += part.type.dims[d];
  }
  return out;
}

int64_t place(const std::vector<int64_t>& group, int64_t device) { return std::find(group.begin(), group.end(), device) - group.begin(); }

std::vector<Literal> reduce_scatter(const Call& call) {
  const auto group = replica_group(call);
  const Shares shares = meet(call, group);
  return one(
      part_of(combined(call, shares, 0), call.attrs().integer("scatter_dimension"), place(group, call.machine.device()), static_cast<int64_t>(shares.size())));
}

std::vector<Literal> all_gather(const Call& call) {
  const Shares shares = meet(call, replica_group(call));
  std::vector<Literal> out;
  for (size_t k = 0; k < call.operands.size(); ++k) {
    std::vector<Literal> parts;
    for (const auto& share : shares) parts.push_back(share[k]);
    out.push_back(joined(parts, call.attrs().integer("all_gather_dim")));
  }
  return out;
}

std::vector<Literal> all_to_all(const Call& call) {
  const auto group = plain_group(call);
  const Shares shares = meet(call, group);
  std::vector<Literal> out;
  for (size_t k = 0; k < call.operands.size(); ++k) {
    std::vector<Literal> parts;
    for (const auto& share : shares)
      parts.push_back(part_of(share[k], call.attrs().integer("split_dimension"), place(group, call.machine.device()), call.attrs().integer("split_count")));
    out.push_back(joined(parts, call.attrs().integer("concat_dimension")));
  }
  return out;
}

std::vector<Literal> collective_broadcast(const Call& call) {
  const auto group = plain_group(call);
  if (group.empty()) return one(zeros(call.type()));
  return one(meet(call, group)[0][0]);
}

// Pairs (source, target): a device that is nobody's target gets zeros.
std::vector<Literal> collective_permute(const Call& call) {
  const bool crossed = channel(call) > 0;
  std::vector<int64_t> group;
  for (int64_t i = 0; i < (crossed ? partitions(call) : replicas(call)); ++i)
    group.push_back(crossed ? replica(call) * partitions(call) + i : i * partitions(call) + partition(call));
  const Shares shares = meet(call, group);
  const int64_t self = crossed ? partition(call) : replica(call);
  const Dims& pairs = call.attrs().ints("source_target_pairs");
  for (size_t i = 0; i + 1 < pairs.size(); i += 2)
    if (pairs[i + 1] == self) return one(shares[static_cast<size_t>(pairs[i])][0]);
  return one(zeros(call.type()));
}

std::vector<Literal> replica_id(const Call& call) { return one(expand(*ir::make_splat_int(call.type(), replica(call)))); }
std::vector<Literal> partition_id(const Call& call) { return one(expand(*ir::make_splat_int(call.type(), partition(call)))); }

}  // namespace

OpFn collective_function(OpCode code) {
  switch (code) {
    case OpCode::AllReduce:
      return all_reduce;
    case OpCode::ReduceScatter:
      return reduce_scatter;
    case OpCode::AllGather:
      return all_gather;
    case OpCode::AllToAll:
      return all_to_all;
    case OpCode::CollectiveBroadcast:
      return collective_broadcast;
    case OpCode::CollectivePermute:
      return collective_permute;
    case OpCode::ReplicaId:
      return replica_id;
    case OpCode::PartitionId:
      return partition_id;
    default:
      return nullptr;
  }
}

}  // namespace thalweg::interp
