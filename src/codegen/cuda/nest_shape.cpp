// Choosing vectors, lanes and parts.
#include "codegen/cuda/nest_shape.h"

#include <algorithm>
#include <bit>

namespace thalweg::codegen::cuda {
namespace {

constexpr int64_t kLongRow = 16384;  // elements from which several groups share a row when rows are few
constexpr int kMostLanes = 1024;     // threads of a block
constexpr int kGroup = 256;          // threads of a group over columns
constexpr int kLoads = 16;           // bytes that an instruction moves at most
constexpr int64_t kRegisters = 96;   // that a lane's arrays may take together

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int up(int64_t n) { return static_cast<int>(std::bit_ceil(static_cast<uint64_t>(std::clamp<int64_t>(n, 1, int64_t{1} << 30)))); }
int down(int64_t n) { return static_cast<int>(std::bit_floor(static_cast<uint64_t>(std::clamp<int64_t>(n, 1, int64_t{1} << 30)))); }

// Elements of one load: as many as divide the innermost loop.
int vector_of(const NestWork& work, int most) {
  int vector = std::min({8, std::max(1, kLoads / work.element_bytes), down(most)});
  while (work.last % vector != 0) vector /= 2;
  return vector;
}

NestShape element_shape(const NestWork& work, int multiprocessors) {
  NestShape shape;
  // Small tensors are left to more threads.
  const int64_t threads = int64_t{multiprocessors} * 1024;
  shape.vector = vector_of(work, static_cast<int>(std::clamp<int64_t>(work.inner / threads, 1, work.most_kept)));
  shape.chunks = work.inner / shape.vector;
  return shape;
}

NestShape row_shape(const NestWork& work, const NestMembers& members, int multiprocessors) {
  NestShape shape;
  shape.dealing = Dealing::Rows;
  const int64_t threads = int64_t{multiprocessors} * 1024;
  if (members.contraction() || !work.simple_rows) {
    // One lane a row where rows are many, else some.
    shape.ordered = !work.simple_rows;
    while (shape.lanes < kMostLanes && work.inner >= int64_t{shape.lanes} * 32 && work.rows * shape.lanes < threads / 2) shape.lanes *= 2;
    shape.nested = shape.lanes == 1;
    if (shape.ordered && !shape.nested) shape.vector = vector_of(work, static_cast<int>(std::min<int64_t>(work.most_kept, 8)));
    shape.chunks = work.inner / shape.vector;
  } else {
    shape.vector = vector_of(work, static_cast<int>(std::min<int64_t>(work.most_kept, 8)));
    shape.chunks = work.inner / shape.vector;
    const int64_t most_turns = std::max<int64_t>(1, work.most_kept / shape.vector);
    shape.lanes = up(ceil_div(shape.chunks, most_turns));
    if (shape.lanes > kMostLanes) {
      shape.lanes = work.rows >= 4 * multiprocessors ? 512 : kMostLanes;
    } else {
      shape.unrolled = true;
    }
    shape.lanes = std::max(shape.lanes, std::min(up(shape.chunks), 8));
    while (shape.lanes < kMostLanes && shape.lanes < shape.chunks && work.rows * shape.lanes < threads) shape.lanes *= 2;
    shape.nested = shape.lanes == 1 && work.inner_loops > 1;
    if (shape.nested) shape.vector = 1, shape.chunks = work.inner, shape.unrolled = false;
    const bool one_stage = members.stages() == 1 && std::none_of(members.list().begin(), members.list().end(), [](const Member& m) { return m.stage > 0; });
    if (one_stage && members.reduces() && wants_parts(work.rows, work.inner, multiprocessors)) {
      shape.lanes = kGroup, shape.unrolled = false;
      shape.parts = std::clamp<int64_t>(int64_t{multiprocessors} * 8 / work.rows, 1, ceil_div(shape.chunks, kGroup * 4));
    }
  }
  shape.columns = shape.lanes;
  shape.turns = ceil_div(shape.chunks, shape.lanes);
  return shape;
}

NestShape column_shape(const NestWork& work, const NestMembers& members, int multiprocessors) {
  NestShape shape;
  shape.dealing = Dealing::Columns;
  shape.vector = work.simple_columns ? vector_of(work, static_cast<int>(std::min<int64_t>(work.most_kept, 32 / work.accumulator_bytes))) : 1;
  shape.chunks = work.inner / shape.vector;
  shape.columns = std::min(up(shape.chunks), work.simple_columns ? 32 : kGroup);
  shape.unrolled = true;
  if (members.reduces()) {
    // A row's lanes hold all of its columns.
    const int64_t kept = std::clamp<int64_t>(static_cast<int64_t>(kRegisters / std::max(1.0, work.registers)), shape.vector, work.most_kept);
    const int64_t turns = std::max<int64_t>(1, kept / shape.vector);
    shape.columns = std::max(shape.columns, up(ceil_div(shape.chunks, turns)));
    if (shape.columns > kMostLanes) shape.columns = 512, shape.unrolled = false;
    shape.turns = ceil_div(shape.chunks, shape.columns);
    shape.ordered = !work.simple_rows;
    if (shape.ordered) shape.unrolled = false;
  } else {
    shape.blocks = ceil_div(shape.chunks, shape.columns);
  }
  const bool aside = work.simple_columns && shape.unrolled && shape.columns <= 32;
  shape.lanes = shape.columns * (aside ? std::min(kGroup / shape.columns, down(std::max<int64_t>(1, work.rows / 2))) : 1);
  // As many groups as run at once: what each keeps in registers leaves room for few.
  const int64_t groups = ceil_div(int64_t{multiprocessors} * (members.reduces() ? 512 : 1024), shape.lanes);
  if (work.simple_columns)
    shape.parts = std::clamp<int64_t>(groups / (work.batches * shape.blocks), 1, std::max<int64_t>(1, work.rows / (shape.rows_aside() * 4)));
  return shape;
}

}  // namespace

bool wants_parts(int64_t rows, int64_t inner, int multiprocessors) { return inner >= kLongRow && rows < 2 * multiprocessors; }

NestShape choose_shape(const NestWork& work, const NestMembers& members, int multiprocessors) {
  if (work.elements) return element_shape(work, multiprocessors);
  return members.columns() ? column_shape(work, members, multiprocessors) : row_shape(work, members, multiprocessors);
}

}  // namespace thalweg::codegen::cuda
