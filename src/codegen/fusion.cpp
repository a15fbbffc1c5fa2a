// Fusion: choose the values worth a buffer, then merge their nests where the writer can.
#include "codegen/fusion.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "codegen/scalar_text.h"
#include "support/error.h"

namespace thalweg::codegen {
namespace {

using ir::OpCode;

constexpr int kRepeatCost = 4;        // recomputing up to this much is cheaper than a buffer where each element would be computed many times
constexpr int kExpressionCost = 600;  // longer expressions are cut
constexpr size_t kMembers = 48, kArgs = 64;

// What one group of merged nodes computes together.
struct Group {
  std::vector<int> nodes;
  NestSpace space;
  int divisions = -1;  // of its nest; -1: not known yet
};

// One value (or all results of one op) that needs computing into a buffer.
struct Node {
  const ir::Op* op;
  std::vector<const ir::Value*> values;
  bool heavy = false;
  int group = -1;
  std::set<int> deps, users;
};

class Fuser {
 public:
  Fuser(const ir::Function& function, const FusionOptions& options) : function_(function), options_(options) {}
  FusionResult run();

 private:
  void find_live();
  void choose_buffers();
  bool wants_buffer(const ir::Op& op, const ir::Value* value);
  void make_nodes();
  void add_node(const ir::Op* op, std::vector<const ir::Value*> values, bool heavy);
  void link();
  void make_groups();
  void merge_producers();
  void merge_siblings();
  bool try_merge(int a, int b);
  int divisions(int group);
  bool path_between(int from, int to) const;
  std::optional<NestSpace> joined_space(const NestSpace& a, const NestSpace& b) const;
  Nest nest_of(const std::vector<int>& nodes, const NestSpace& space) const;
  FusionResult order() const;
  bool is_buffer(const ir::Value* value) const { return buffers_.count(value) != 0; }

  const ir::Function& function_;
  const FusionOptions& options_;
  std::unordered_map<const ir::Op*, int> position_;
  std::unordered_set<const ir::Op*> live_;
  std::unordered_map<const ir::Op*, std::vector<const ir::Value*>> heavy_;
  std::unordered_map<const ir::Value*, int> uses_;
  std::unordered_set<const ir::Value*> required_, buffers_, outputs_;
  std::unordered_map<const ir::Value*, std::pair<int, int>> inline_cost_;  // cost, big loads
  std::unordered_set<const ir::Value*> repeated_;                          // read many times an element by some user
  std::vector<Node> nodes_;
  std::unordered_map<const ir::Value*, int> node_of_;
  std::vector<Group> groups_;
  std::set<std::pair<std::vector<int>, std::vector<int>>> refused_;
};

bool keeps_alive(const ir::Op& op) {
  if (op.code == OpCode::CustomCall) return op.attrs.boolean("has_side_effect", false);
  return op.code == OpCode::Return;
}

void Fuser::find_live() {
  std::vector<const ir::Op*> todo;
  int position = 0;
  for (const auto& op : function_.body.ops) {
    position_[op.get()] = position++;
    if (keeps_alive(*op)) todo.push_back(op.get());
  }
  while (!todo.empty()) {
    const ir::Op* op = todo.back();
    todo.pop_back();
    if (!live_.insert(op).second) continue;
    std::vector<const ir::Value*> operands(op->operands.begin(), op->operands.end());
    if (op->code != OpCode::Return)
      if (auto reads = options_.heavy(*op)) {
        operands = *reads;
        heavy_[op] = *reads;
        for (const ir::Value* value : *reads) required_.insert(canonical(value));
      }
    for (const ir::Value* value : operands)
      if (value->def) todo.push_back(value->def);
  }
  for (const ir::Value* value : function_.body.terminator().operands) {
    outputs_.insert(canonical(value));
    required_.insert(canonical(value));
  }
}

bool is_empty(const ir::Value* value) { return value->type.is_tensor() && value->type.size() == 0; }

bool transparent(const ir::Op& op) { return op.code == OpCode::Reshape || op.code == OpCode::OptimizationBarrier; }

bool repeats(const ir::Op& op, const ir::Value* operand) {
  switch (op.code) {
    case OpCode::BroadcastInDim:
      return op.result()->type.size() > operand->type.size() && operand->type.size() > 1;
    case OpCode::Gather:
    case OpCode::ReduceWindow:
    case OpCode::DotGeneral:
    case OpCode::Convolution:
      return true;
    default:
      return false;
  }
}

void Fuser::choose_buffers() {
  for (const auto& op : function_.body.ops) {
    if (!live_.count(op.get()) || transparent(*op)) continue;
    auto heavy = heavy_.find(op.get());
    std::set<const ir::Value*> distinct;
    if (heavy != heavy_.end()) {
      for (const ir::Value* value : heavy->second) distinct.insert(canonical(value));
    } else {
      for (const ir::Value* operand : op->operands) {
        distinct.insert(canonical(operand));
        if (op->code != OpCode::Return && repeats(*op, operand)) repeated_.insert(canonical(operand));
      }
    }
    for (const ir::Value* value : distinct) ++uses_[value];
  }
  for (const auto& arg : function_.body.args) buffers_.insert(arg.get());
  for (const auto& op : function_.body.ops) {
    if (!live_.count(op.get()) || op->code == OpCode::Return || transparent(*op)) continue;
    for (const auto& result : op->results)
      if (is_empty(result.get()) || wants_buffer(*op, result.get())) buffers_.insert(result.get());
  }
}

bool Fuser::wants_buffer(const ir::Op& op, const ir::Value* value) {
  if (heavy_.count(&op)) return true;
  if (op.code == OpCode::Constant) return is_large_constant(op) || required_.count(value);
  if (!is_pullable(op)) {
    THALWEG_ASSERT(op.code == OpCode::Reduce || is_contraction(op), "op without a way to compute it: ", ir::name(op.code));
    if (op.code == OpCode::Reduce)
      for (size_t i = 0; i < op.results.size(); ++i) {
        const ir::Value* init = canonical(op.operands[op.results.size() + i]);
        if (init->def && init->def->code != OpCode::Constant && !buffers_.count(init)) buffers_.insert(init);
      }
    return true;
  }
  int total = cost(op), loads = 0;
  for (const ir::Value* operand : op.operands) {
    operand = canonical(operand);
    if (is_buffer(operand)) {
      loads += operand->type.size() * 4 >= value->type.size() && operand->type.size() > 1 ? 1 : 0;
    } else if (auto it = inline_cost_.find(operand); it != inline_cost_.end()) {
      // What varies with fewer loops is computed less often.
      const bool big = operand->type.size() * 4 >= value->type.size();
      total += big ? it->second.first : std::min(it->second.first, 1);
      loads += big ? it->second.second : 0;
    }
  }
  inline_cost_[value] = {total, loads};
  if (required_.count(value)) return true;
  const int uses = uses_.count(value) ? uses_.at(value) : 0;
  if (value->type.size() == 1 && total < kExpressionCost) return uses > 1 && total > 12;
  if (uses > 1 && (total > options_.duplicate_cost || loads > 1)) return true;
  if (repeated_.count(value) && total >= kRepeatCost) return true;
  return total > kExpressionCost;
}

void Fuser::add_node(const ir::Op* op, std::vector<const ir::Value*> values, bool heavy) {
  for (const ir::Value* value : values) node_of_[value] = static_cast<int>(nodes_.size());
  nodes_.push_back({op, std::move(values), heavy, -1, {}, {}});
}

void Fuser::make_nodes() {
  for (const auto& op : function_.body.ops) {
    if (!live_.count(op.get()) || op->code == OpCode::Return || transparent(*op) || op->code == OpCode::Constant) continue;
    std::vector<const ir::Value*> values;
    for (const auto& result : op->results)
      if (is_buffer(result.get()) && (heavy_.count(op.get()) || !is_empty(result.get()))) values.push_back(result.get());
    if (values.empty() && !heavy_.count(op.get())) continue;
    if (heavy_.count(op.get())) {
      add_node(op.get(), values, true);
    } else if (is_pullable(*op)) {
      for (const ir::Value* value : values) add_node(op.get(), {value}, false);
    } else {
      add_node(op.get(), values, false);
    }
  }
}

// Dependencies between nodes, through values without a buffer.
void Fuser::link() {
  for (size_t n = 0; n < nodes_.size(); ++n) {
    Node& node = nodes_[n];
    std::vector<const ir::Value*> todo(node.op->operands.begin(), node.op->operands.end());
    if (node.heavy) todo = heavy_.at(node.op);
    std::unordered_set<const ir::Value*> seen;
    while (!todo.empty()) {
      const ir::Value* value = canonical(todo.back());
      todo.pop_back();
      if (!seen.insert(value).second) continue;
      if (auto it = node_of_.find(value); it != node_of_.end()) {
        node.deps.insert(it->second);
        nodes_[it->second].users.insert(static_cast<int>(n));
      } else if (!is_buffer(value) && value->def) {
        todo.insert(todo.end(), value->def->operands.begin(), value->def->operands.end());
      }
    }
  }
}

void Fuser::make_groups() {
  for (size_t n = 0; n < nodes_.size(); ++n) {
    Node& node = nodes_[n];
    node.group = static_cast<int>(groups_.size());
    Group group{{static_cast<int>(n)}, {}, -1};
    if (!node.heavy) {
      const ir::Value* value = node.values[0];
      group.space = is_pullable(*node.op)             ? flexible_space(value->type.size())
                    : node.op->code == OpCode::Reduce ? reduce_space(*node.op)
                                                      : contraction_space(*node.op);
    }
    groups_.push_back(group);
  }
}

std::optional<NestSpace> Fuser::joined_space(const NestSpace& a, const NestSpace& b) const {
  if (a == b) return a;
  const NestSpace *fixed = &a, *flexible = &b;
  if (a.flexible) std::swap(fixed, flexible);
  if (fixed->flexible || !flexible->flexible) return {};
  const int64_t n = flexible->size();
  if (n == fixed->size() || (n == fixed->size(DimRole::Row) && !fixed->has(DimRole::Batch))) return *fixed;
  return {};
}

// True when work outside both groups lies on a way from a node of `from` to a node of `to`.
bool Fuser::path_between(int from, int to) const {
  std::vector<int> todo;
  std::vector<bool> seen(groups_.size(), false);
  int last = *std::max_element(groups_[to].nodes.begin(), groups_[to].nodes.end());
  auto visit = [&](int group) {
    for (int n : groups_[group].nodes)
      for (int user : nodes_[n].users) {
        int g = nodes_[user].group;
        if (g == from || seen[g] || (group == from && g == to)) continue;
        seen[g] = true;
        todo.push_back(g);
      }
  };
  visit(from);
  while (!todo.empty()) {
    int g = todo.back();
    todo.pop_back();
    if (g == to) return true;
    if (groups_[g].nodes.front() > last) continue;
    visit(g);
  }
  return false;
}

Nest Fuser::nest_of(const std::vector<int>& nodes, const NestSpace& space) const {
  Nest nest;
  nest.space = space;
  std::vector<int> sorted = nodes;
  std::sort(sorted.begin(), sorted.end());
  for (int n : sorted)
    for (const ir::Value* value : nodes_[n].values) {
      nest.members.push_back(value);
      bool outside = outputs_.count(value) != 0;
      for (int user : nodes_[n].users) outside |= std::find(sorted.begin(), sorted.end(), user) == sorted.end();
      if (outside) nest.stored.push_back(value);
    }
  return nest;
}

int Fuser::divisions(int group) {
  Group& g = groups_[group];
  if (g.divisions < 0) g.divisions = write_nest(nest_of(g.nodes, g.space), [this](const ir::Value* v) { return is_buffer(v); }).divisions;
  return g.divisions;
}

bool Fuser::try_merge(int a, int b) {
  if (a == b || groups_[a].nodes.empty() || groups_[b].nodes.empty()) return false;
  if (nodes_[groups_[a].nodes[0]].heavy || nodes_[groups_[b].nodes[0]].heavy) return false;
  if (groups_[a].nodes.size() + groups_[b].nodes.size() > kMembers) return false;
  std::optional<NestSpace> space = joined_space(groups_[a].space, groups_[b].space);
  if (!space) return false;
  if (!refused_.insert({groups_[a].nodes, groups_[b].nodes}).second) return false;
  if (path_between(a, b) || path_between(b, a)) return false;
  std::vector<int> nodes = groups_[a].nodes;
  nodes.insert(nodes.end(), groups_[b].nodes.begin(), groups_[b].nodes.end());
  std::sort(nodes.begin(), nodes.end());
  try {
    NestCode code = write_nest(nest_of(nodes, *space), [this](const ir::Value* v) { return is_buffer(v); });
    // Loops that fit one group must not make the other one divide.
    if (code.args.size() > kArgs || (code.divisions > 0 && code.divisions > divisions(a) + divisions(b))) return false;
    for (int n : groups_[b].nodes) nodes_[n].group = a;
    groups_[a] = {nodes, *space, code.divisions};
  } catch (const NotFusable&) {
    return false;
  }
  groups_[b].nodes.clear();
  return true;
}

void Fuser::merge_producers() {
  for (size_t n = 0; n < nodes_.size(); ++n) {
    if (nodes_[n].heavy) continue;
    for (bool again = true; again;) {
      again = false;
      std::set<int> deps;
      for (int member : groups_[nodes_[n].group].nodes) deps.insert(nodes_[member].deps.begin(), nodes_[member].deps.end());
      for (auto dep = deps.rbegin(); dep != deps.rend() && !again; ++dep) again = try_merge(nodes_[*dep].group, nodes_[n].group);
    }
  }
}

// Nests over one space that read one buffer in common.
void Fuser::merge_siblings() {
  std::map<const ir::Value*, std::vector<int>> readers;
  std::vector<const ir::Value*> order;
  for (size_t n = 0; n < nodes_.size(); ++n) {
    if (nodes_[n].heavy) continue;
    std::vector<const ir::Value*> todo(nodes_[n].op->operands.begin(), nodes_[n].op->operands.end());
    std::unordered_set<const ir::Value*> seen;
    while (!todo.empty()) {
      const ir::Value* value = canonical(todo.back());
      todo.pop_back();
      if (!seen.insert(value).second) continue;
      if (is_buffer(value)) {
        if (value->type.size() <= 1024) continue;
        auto& list = readers[value];
        if (list.empty()) order.push_back(value);
        list.push_back(static_cast<int>(n));
      } else if (value->def) {
        todo.insert(todo.end(), value->def->operands.begin(), value->def->operands.end());
      }
    }
  }
  for (const ir::Value* value : order) {
    const auto& list = readers[value];
    for (size_t i = 0; i < list.size(); ++i)
      for (size_t j = i + 1; j < list.size() && j < i + 8; ++j) try_merge(nodes_[list[i]].group, nodes_[list[j]].group);
  }
}

FusionResult Fuser::order() const {
  FusionResult result;
  result.buffers = buffers_;
  std::vector<int> waiting(groups_.size(), 0);
  std::set<std::pair<int, int>> ready;  // (last node, group): keeps the program's order
  std::vector<std::set<int>> users(groups_.size());
  for (const Node& node : nodes_)
    for (int user : node.users)
      if (nodes_[user].group != node.group && users[node.group].insert(nodes_[user].group).second) ++waiting[nodes_[user].group];
  auto key = [&](int g) {
    const bool urgent = options_.urgent && options_.urgent(*nodes_[groups_[g].nodes[0]].op);
    return std::pair(urgent ? -1 : *std::max_element(groups_[g].nodes.begin(), groups_[g].nodes.end()), g);
  };
  for (size_t g = 0; g < groups_.size(); ++g)
    if (!groups_[g].nodes.empty() && waiting[g] == 0) ready.insert(key(static_cast<int>(g)));
  while (!ready.empty()) {
    int g = ready.begin()->second;
    ready.erase(ready.begin());
    Work work;
    const Node& first = nodes_[groups_[g].nodes[0]];
    if (first.heavy) {
      work.op = first.op;
    } else {
      work.nest = nest_of(groups_[g].nodes, groups_[g].space);
    }
    result.works.push_back(std::move(work));
    for (int user : users[g])
      if (--waiting[user] == 0) ready.insert(key(user));
  }
  return result;
}

FusionResult Fuser::run() {
  find_live();
  choose_buffers();
  make_nodes();
  link();
  make_groups();
  merge_producers();
  merge_siblings();
  merge_producers();
  return order();
}

}  // namespace

bool is_large_constant(const ir::Op& op) {
  if (op.code != OpCode::Constant) return false;
  const ir::Literal& literal = *op.attrs.literal("value");
  return !literal.splat && literal.type.size() > 16;
}

FusionResult fuse(const ir::Function& function, const FusionOptions& options) { return Fuser(function, options).run(); }

}  // namespace thalweg::codegen
