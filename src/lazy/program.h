// What one flush compiles: the pending nodes in dependence order, their leaves and outputs, the key, and the IR.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "lazy/row.h"
#include "lazy/storage.h"

namespace thalweg::lazy {

// 128 bits of everything that the compiled program depends on.
struct Key {
  uint64_t a = 0, b = 0;
  bool operator==(const Key&) const = default;
};

// The nodes that the given storages' pending versions need. Nodes and values are borrowed from the storages.
struct PendingGraph {
  std::vector<Node*> order;     // operands first; the order depends on data dependences and on the outputs' order only
  std::vector<Value*> leaves;   // ready versions, in order of first use: the program's first arguments
  std::vector<Scalar> scalars;  // then these
  std::vector<Value*> outputs;  // one a distinct pending version, in order of creation: the results
  Key key;
};

// Walks from the storages' current versions. Sets the values' leaf_refs: how often this graph's inputs name them. `settings` goes into the key.
PendingGraph collect(std::span<Storage* const> pending, uint64_t settings);

// A program in IR and whether some command of it can fail on the data (index checks, the NaN guard).
struct LoweredProgram {
  std::unique_ptr<ir::Function> function;
  bool fallible = false;
};

// Lowers to a function named main: arguments as in PendingGraph (tensors in memory order, numbers of rank 0 as f64 or i64), results in memory order.
// nan_guard: each floating result is checked. An Error of a lowering gets the operation and its Python line put before its text.
LoweredProgram lower(const PendingGraph& graph, bool nan_guard);

// The program as a StableHLO module's text, without names of our own.
std::string portable_text(const ir::Function& function);

// The row of the internal operation that writes its second tensor through a view of the first; see encode_view.
const Row& write_view_row();
// The view as words of an Ints argument, and back.
std::vector<uint64_t> encode_view(const View& view);
View decode_view(std::span<const uint64_t> words);

// What is kept of a compiled program to explain a later compile.
struct ProgramSketch {
  struct Step {
    const Row* row;
    uint64_t hash;
    uint32_t line;
  };
  std::vector<Step> steps;
  std::vector<View> leaves;
  size_t outputs = 0;
};
ProgramSketch sketch(const PendingGraph& graph);
// Why `now` differs from the most similar of `earlier` (latest first): "first time", or what changed, with values and Python lines.
std::string explain_difference(const ProgramSketch& now, std::span<const ProgramSketch* const> earlier);

}  // namespace thalweg::lazy
