// From pending nodes to a key and to IR.
#include "lazy/program.h"

#include <algorithm>
#include <atomic>

#include "compiler/compiler.h"
#include "ir/printer.h"
#include "lazy/lines.h"
#include "lazy/lowering.h"
#include "lazy/strided.h"
#include "support/error.h"
#include "support/hash.h"

namespace thalweg::lazy {
namespace {

std::atomic<uint64_t> next_epoch{1};

// Depth-first numbering of nodes and leaves.
class Collector {
 public:
  explicit Collector(PendingGraph& graph) : graph_(graph), epoch_(next_epoch.fetch_add(1)) {}

  void visit(Node* top) {
    if (top->mark == epoch_) return;
    stack_.push_back({top, 0});
    top->mark = epoch_;
    while (!stack_.empty()) {
      auto& [node, next] = stack_.back();
      if (next == node->inputs.size()) {
        number(node);
        stack_.pop_back();
        continue;
      }
      Value* value = node->inputs[next++].value.get();
      if (value && value->node && value->node->mark != epoch_) {
        Node* operand = value->node.get();
        operand->mark = epoch_;
        stack_.push_back({operand, 0});
      }
    }
  }

  void fold(uint64_t word) {
    graph_.key.a = mix(graph_.key.a, word);
    graph_.key.b = mix(graph_.key.b ^ 0x9E3779B97F4A7C15ull, word + 0x7F4A7C15ull);
  }

 private:
  void number(Node* node) {
    node->number = static_cast<uint32_t>(graph_.order.size());
    graph_.order.push_back(node);
    fold(node->hash);
    for (Input& input : node->inputs) fold(identity(input.value.get()));
    graph_.scalars.insert(graph_.scalars.end(), node->scalars.begin(), node->scalars.end());
  }

  uint64_t identity(Value* value) {
    if (!value) return 1;
    if (value->node) return (static_cast<uint64_t>(value->node->number) << 20 | value->output) << 2 | 2;
    if (!value->buffer) return 5;
    if (value->leaf_epoch != epoch_) {
      value->leaf_epoch = epoch_;
      value->leaf_refs = 0;
      value->leaf_index = static_cast<uint32_t>(graph_.leaves.size());
      graph_.leaves.push_back(value);
    }
    ++value->leaf_refs;
    return static_cast<uint64_t>(value->leaf_index) << 2 | 3;
  }

  PendingGraph& graph_;
  uint64_t epoch_;
  std::vector<std::pair<Node*, size_t>> stack_;
};

// The IR of one graph as it grows.
class ProgramBuilder {
 public:
  ProgramBuilder(const PendingGraph& graph, ir::Function& function) : graph_(graph), function_(function), b_(function.body) {
    results_.resize(graph.order.size());
  }

  void add_arguments() {
    for (Value* leaf : graph_.leaves) {
      Pieces pieces;
      pieces.memory = function_.body.add_arg(ir::tensor(leaf->layout.dtype, memory_dims(leaf->layout)));
      leaves_.push_back(pieces);
    }
    for (const Scalar& scalar : graph_.scalars) scalars_.push_back(function_.body.add_arg(ir::tensor(scalar.floating ? ir::DType::F64 : ir::DType::S64)));
  }

  void add_node(const Node& node) {
    b_.group = node.group;
    b_.location = {line_text(node.line), 0, node.row->name};
    std::vector<ir::Value*> numbers(scalars_.begin() + static_cast<int64_t>(next_scalar_),
                                    scalars_.begin() + static_cast<int64_t>(next_scalar_ + node.scalars.size()));
    next_scalar_ += node.scalars.size();
    if (node.row == &write_view_row()) {
      Pieces pieces;
      pieces.memory = strided_write(b_, memory_of(*node.inputs[0].value), decode_view(node.words.subspan(1)), read(node.inputs[1]));
      results_[node.number] = {pieces};
      return;
    }
    std::vector<ir::Value*> tensors;
    for (const Input& input : node.inputs) tensors.push_back(input.value ? read(input) : nullptr);
    Lowering lowering(b_, node, std::move(tensors), std::move(numbers));
    const std::vector<ir::Value*> values = node.row->lower(lowering);
    THALWEG_ASSERT(values.size() == node.outputs.size(), node.row->name, " made ", values.size(), " results, not ", node.outputs.size());
    for (size_t i = 0; i < values.size(); ++i) {
      Pieces pieces;
      pieces.logical = lowering.fit(values[i], node.outputs[i].dtype, lowering.shape(i));
      results_[node.number].push_back(pieces);
    }
  }

  ir::Value* memory_of(const Value& value) {
    if (!value.node && !value.buffer) return b_.splat(ir::tensor(value.layout.dtype, memory_dims(value.layout)), 0);
    Pieces& pieces = pieces_of(value);
    if (!pieces.memory) pieces.memory = b_.transpose(pieces.logical, value.layout.memory_order());
    return pieces.memory;
  }

 private:
  struct Pieces {
    ir::Value* logical = nullptr;  // in the tensor's own order of dims
    ir::Value* memory = nullptr;   // in memory order
  };

  static ir::Dims memory_dims(const View& layout) {
    ir::Dims dims;
    for (int64_t d : layout.memory_order()) dims.push_back(layout.sizes[d]);
    return dims;
  }

  Pieces& pieces_of(const Value& value) { return value.node ? results_[value.node->number].at(value.output) : leaves_[value.leaf_index]; }

  ir::Value* read(const Input& input) {
    const Value& value = *input.value;
    if (!input.view.same_as(value.layout)) return strided_read(b_, memory_of(value), input.view);
    if (!value.node && !value.buffer) return b_.splat(ir::tensor(input.view.dtype, ir::Dims(input.view.dims().begin(), input.view.dims().end())), 0);
    Pieces& pieces = pieces_of(value);
    if (!pieces.logical) {
      const ir::Dims order = value.layout.memory_order();
      ir::Dims inverse(order.size());
      for (size_t i = 0; i < order.size(); ++i) inverse[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
      pieces.logical = b_.transpose(pieces.memory, inverse);
    }
    return pieces.logical;
  }

  const PendingGraph& graph_;
  ir::Function& function_;
  ir::Builder b_;
  std::vector<std::vector<Pieces>> results_;
  std::vector<Pieces> leaves_;
  std::vector<ir::Value*> scalars_;
  size_t next_scalar_ = 0;
};

bool can_fail(const ir::Op& op) { return op.code == ir::OpCode::CustomCall && op.attrs.string("call_target_name", "").starts_with("thalweg.check_"); }

void guard_finite(ir::Builder& b, ir::Value* value, const Node& node) {
  if (!ir::is_float(value->type.dtype)) return;
  b.location = {line_text(node.line), 0, node.row->name};
  ir::Attributes config;
  std::string where = node.line ? " at " + line_text(node.line) : "";
  config.set("message", std::string("NaN or infinity in the result of ") + node.row->name + where);
  config.set("has_side_effect", true);
  b.custom_call("thalweg.check_finite", {value}, {ir::tensor(ir::DType::I1)}, std::move(config));
}

}  // namespace

PendingGraph collect(std::span<Storage* const> pending, uint64_t settings) {
  PendingGraph graph;
  std::vector<Value*> outputs;
  for (Storage* storage : pending)
    if (storage->current && storage->current->node) outputs.push_back(storage->current.get());
  std::sort(outputs.begin(), outputs.end(), [](const Value* a, const Value* b) { return a->sequence < b->sequence; });
  outputs.erase(std::unique(outputs.begin(), outputs.end()), outputs.end());
  graph.outputs = std::move(outputs);
  Collector collector(graph);
  collector.fold(settings);
  for (Value* value : graph.outputs) collector.visit(value->node.get());
  for (Value* value : graph.outputs) collector.fold(static_cast<uint64_t>(value->node->number) << 20 | value->output);
  return graph;
}

LoweredProgram lower(const PendingGraph& graph, bool nan_guard) {
  LoweredProgram program;
  program.function = std::make_unique<ir::Function>();
  program.function->name = "main";
  ProgramBuilder builder(graph, *program.function);
  builder.add_arguments();
  for (const Node* node : graph.order) {
    try {
      builder.add_node(*node);
    } catch (const Error& error) {
      std::string where = node->line ? " (" + line_text(node->line) + ")" : "";
      throw Error(error.kind(), std::string(node->row->name) + where + ": " + error.what());
    }
  }
  ir::Builder b(program.function->body);
  std::vector<ir::Value*> results;
  for (const Value* value : graph.outputs) {
    results.push_back(builder.memory_of(*value));
    if (nan_guard) guard_finite(b, results.back(), *value->node);
  }
  b.ret(results);
  for (const auto& op : program.function->body.ops) program.fallible |= can_fail(*op);
  return program;
}

const Row& write_view_row() {
  static const Row row{"thalweg::write_view", nullptr};
  return row;
}

std::vector<uint64_t> encode_view(const View& view) {
  std::vector<uint64_t> words{static_cast<uint64_t>(view.dtype), static_cast<uint64_t>(view.offset)};
  for (int64_t d : view.dims()) words.push_back(static_cast<uint64_t>(d));
  for (int i = 0; i < view.rank; ++i) words.push_back(static_cast<uint64_t>(view.strides[i]));
  return words;
}

View decode_view(std::span<const uint64_t> words) {
  View view;
  view.dtype = static_cast<ir::DType>(words[0]);
  view.offset = static_cast<int64_t>(words[1]);
  view.rank = static_cast<uint8_t>((words.size() - 2) / 2);
  for (int i = 0; i < view.rank; ++i) {
    view.sizes[i] = static_cast<int64_t>(words[2 + static_cast<size_t>(i)]);
    view.strides[i] = static_cast<int64_t>(words[2 + static_cast<size_t>(view.rank + i)]);
  }
  return view;
}

std::string portable_text(const ir::Function& function) {
  ir::Module module;
  module.functions.push_back(ir::clone(function));
  compiler::make_portable(*module.functions.back());
  return ir::print(module);
}

}  // namespace thalweg::lazy
