// Matching trees of ops: what a match has walked over, and the forms that all patterns share.
#pragma once

#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/graph.h"

namespace thalweg::passes {

// The ops that read each value of one block.
class Users {
 public:
  explicit Users(const ir::Block& block);
  // True when each op in `inside` but the last one (the root) is read by ops in `inside` alone, also behind reshapes.
  bool closed(const std::vector<const ir::Op*>& inside) const;
  // The ops of `inside` fall away, and `now` takes the place of the last one's result; `made`: the ops that compute it.
  void replaced(const std::vector<const ir::Op*>& inside, const ir::Value* now, const std::vector<const ir::Op*>& made);

 private:
  std::unordered_map<const ir::Value*, std::vector<const ir::Op*>> readers_;
  std::unordered_set<const ir::Op*> gone_;
};

// One attempt to match: collects the ops walked over.
class Match {
 public:
  // The op behind `value`, looking through reshapes that only add or remove dims of 1, when it is a `code`; else null.
  const ir::Op* take(ir::Value* value, ir::OpCode code);
  // `value` without such reshapes.
  static ir::Value* bare(ir::Value* value);
  // What `value` repeats along exactly `dims` of its shape (bare); null when it does not.
  ir::Value* repeated(ir::Value* value, const ir::Dims& dims);
  // value = x · factor, by a product with or a quotient by a constant; factor 1 when there is none.
  struct Scaled {
    ir::Value* x;
    double factor;
  };
  Scaled scaled(ir::Value* value);
  // The one operand and the dims of a plain reduction by `combine` from that identity; null operand when it is none.
  struct Reduction {
    ir::Value* x = nullptr;
    ir::Dims dims;
  };
  Reduction reduction(ir::Value* value, ir::OpCode combine, double identity);
  // The same of a sum times 1 / (number of summed elements).
  Reduction mean(ir::Value* value);
  // value = constant + y: the constant and y.
  std::optional<Scaled> plus_constant(ir::Value* value);
  // The factors of a product of products of one shape, constants multiplied into `number`; `stop` is not taken apart.
  struct Factors {
    std::vector<ir::Value*> values;
    double number = 1;
  };
  Factors factors(ir::Value* value, const ir::Value* stop);

  void add(const ir::Op& op) { ops_.push_back(&op); }
  // The ops walked over, `root` last.
  std::vector<const ir::Op*> with_root(const ir::Op& root) const;

 private:
  std::vector<const ir::Op*> ops_;
};

// True when a is b within a float's rounding.
bool about(double a, double b);

}  // namespace thalweg::passes
