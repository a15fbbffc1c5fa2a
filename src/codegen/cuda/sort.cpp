// Text of sorting kernels for GPUs.
#include "codegen/cuda/sort.h"

#include <algorithm>
#include <bit>

#include "codegen/scalar_text.h"
#include "codegen/sorting.h"

namespace thalweg::codegen::cuda {
namespace {

constexpr int64_t kTile = 1024;  // positions that one group sorts
constexpr int64_t kOwn = 4;      // of them a lane's
constexpr int64_t kOutputs = 8;  // of a merge that one thread finds

std::string num(int64_t n) { return std::to_string(n); }

std::string positions_pointer(size_t arg) { return "int* const positions = (int*)args[" + num(static_cast<int64_t>(arg)) + "];\n"; }

NestCode tiles(const SortKeys& keys, const NestArg& positions) {
  const int64_t tile = std::min<int64_t>(kTile, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max(keys.length, kOwn)))));
  const int64_t count = (keys.length + tile - 1) / tile;
  NestCode code;
  code.args = keys.args;
  code.args.push_back(positions);
  code.lanes = static_cast<int>(tile / kOwn);
  code.shared_bytes = static_cast<int>(2 * tile * 4);
  code.units = keys.rows * count;
  code.unit_cost = 100.0 * static_cast<double>(tile);
  const std::string length = num(keys.length), size = num(tile), lanes = num(code.lanes);
  code.body = keys.head + positions_pointer(keys.args.size()) + "for (int64_t u = begin; u < end; ++u) {\nconst int64_t row = u / " + num(count) +
              ", first = u % " + num(count) + " * " + size + ";\nconst int n = (int)(" + length + " - first < " + size + " ? " + length + " - first : " + size +
              ");\n" + keys.less + "int* const order = (int*)shared;\ngroup_barrier<" + lanes + ">();\nfor (int i = lane; i < n; i += " + lanes +
              ") order[i] = (int)first + i;\ngroup_barrier<" + lanes + ">();\nconst int* const sorted = sort_tile<" + lanes + ", " + size +
              ">(order, order + " + size + ", n, lane, less);\nfor (int i = lane; i < n; i += " + lanes + ") positions[row * " + length +
              " + first + i] = sorted[i];\n}\n";
  return code;
}

// Runs of `width` in pairs, from one half of the temporary to the other.
NestCode merge(const SortKeys& keys, const NestArg& positions, int64_t width, int64_t from, int64_t to) {
  const int64_t pieces = (keys.length + kOutputs - 1) / kOutputs;
  NestCode code;
  code.args = keys.args;
  code.args.push_back(positions);
  code.units = keys.rows * pieces;
  code.unit_cost = 60;
  const std::string length = num(keys.length), both = num(2 * width);
  code.body = keys.head + positions_pointer(keys.args.size()) + "for (int64_t u = begin; u < end; ++u) {\nconst int64_t row = u / " + num(pieces) +
              ", at = u % " + num(pieces) + " * " + num(kOutputs) + ", low = at / " + both + " * " + both + ", half = low + " + num(width) +
              ", whole = low + " + both + ";\n" + keys.less + "merge_part(positions + " + num(from) + " + row * " + length + ", positions + " + num(to) +
              " + row * " + length + ", low, half < " + length + " ? half : " + length + ", whole < " + length + " ? whole : " + length + ", at - low, " +
              num(kOutputs) + ", less);\n}\n";
  return code;
}

}  // namespace

SortedPositions sort_positions(const SortKeys& keys, int scratch) {
  const int64_t total = keys.rows * keys.length;
  SortedPositions sorted;
  sorted.positions = {nullptr, NestArg::Role::Partial, total * 4 * (keys.length > kTile ? 2 : 1), false, scratch};
  sorted.codes.push_back(tiles(keys, sorted.positions));
  for (int64_t width = kTile; width < keys.length; width *= 2) {
    sorted.codes.push_back(merge(keys, sorted.positions, width, sorted.offset, total - sorted.offset));
    sorted.offset = total - sorted.offset;
  }
  return sorted;
}

std::vector<NestCode> write_sort(const ir::Op& op) {
  const size_t n = op.operands.size();
  const SortRows shape = sort_rows(op);
  SortKeys keys;
  keys.length = shape.length, keys.rows = op.operand(0)->type.size() / shape.length;
  const std::string stride = num(shape.stride);
  const std::string base = "const int64_t base = row / " + stride + " * " + num(shape.stride * shape.length) + " + row % " + stride + ";\n";
  for (size_t i = 0; i < n; ++i) {
    const std::string type = "const " + scalar_type(op.operand(i)->type.dtype) + "*", number = num(static_cast<int64_t>(i));
    keys.head += type + " const p" + number + " = (" + type + ")args[" + number + "];\n";
    keys.args.push_back({op.operand(i), NestArg::Role::Read, op.operand(i)->type.bytes(), false});
  }
  std::string invariant;
  keys.less = base + comparator_text(op, shape.stride, invariant);
  NestCode gather;
  std::string pointers = keys.head, moves;
  keys.head += invariant;
  SortedPositions sorted = sort_positions(keys, 0);
  gather.args = keys.args;
  for (size_t i = 0; i < n; ++i) {
    const std::string type = scalar_type(op.result(i)->type.dtype) + "*", number = num(static_cast<int64_t>(n + i));
    pointers += type + " const p" + number + " = (" + type + ")args[" + number + "];\n";
    gather.args.push_back({op.result(i), NestArg::Role::Write, op.result(i)->type.bytes(), false});
    moves += "p" + number + "[base + i * " + stride + "] = p" + num(static_cast<int64_t>(i)) + "[base + from * " + stride + "];\n";
  }
  gather.args.push_back(sorted.positions);
  gather.units = keys.rows * keys.length;
  gather.unit_cost = 4.0 * static_cast<double>(n);
  const std::string length = num(keys.length);
  gather.body = pointers + positions_pointer(2 * n) + "for (int64_t u = begin; u < end; ++u) {\nconst int64_t row = u / " + length + ", i = u % " + length +
                ";\n" + base + "const int64_t from = positions[" + num(sorted.offset) + " + u];\n" + moves + "}\n";
  sorted.codes.push_back(std::move(gather));
  return std::move(sorted.codes);
}

}  // namespace thalweg::codegen::cuda
