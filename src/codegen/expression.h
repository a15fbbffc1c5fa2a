// Scalar text of one element of a value: pulls operands through elementwise and moving ops down to buffers, hoisting what does not vary.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "codegen/index.h"
#include "ir/graph.h"

namespace thalweg::codegen {

// A scalar in a kernel: a local variable or literal, and the depth of the innermost loop that it varies with.
struct Scalar {
  std::string text;
  int depth = 0;
};

// True for ops whose elements can be pulled: elementwise, moving, generating, small windows, gather by index.
bool is_pullable(const ir::Op& op);
// Follows reshapes and barriers to the value that holds the same elements in the same order.
const ir::Value* canonical(const ir::Value* value);

// Writes statements into one text a loop depth. A kernel's author opens depths, pulls elements and takes the texts.
class Emitter {
 public:
  // Gives the scalar for element `at` (row-major) of a value that is not to be pulled further, or nothing.
  using Leaf = std::function<std::optional<Scalar>(const ir::Value* value, const Index& at)>;

  Emitter(IndexSpace& space, Leaf leaf, int depths) : space_(space), leaf_(std::move(leaf)), loops_(depths) {}

  // One element of `value`.
  Scalar pull(const ir::Value* value, const Index& at);
  // The results of a region's ops with its arguments bound to scalars.
  std::vector<Scalar> apply(const ir::Block& region, std::span<const Scalar> args);
  // A new local variable at `depth` (or deeper: in the conditional block being written).
  Scalar define(const std::string& type, const std::string& expression, int depth);
  // A variable that is `then` where `condition` holds, else `otherwise`; each side is written into a block of its own.
  Scalar conditional(const std::string& type, const Scalar& condition, const std::function<Scalar()>& then, const std::function<Scalar()>& otherwise);
  // A statement at `depth`.
  void statement(const std::string& text, int depth);
  // The integer value of element `at` limited to [0, high], as an index.
  Index clamped_index(const ir::Value* value, const Index& at, int64_t high);
  // An index known to lie in [0, extent) inside the block being written.
  Index guarded(const Index& index, int64_t extent);

  // Text written at `depth` so far, which is emptied and whose variables are forgotten (also those deeper).
  std::string take(int depth);
  // Text written at `depth` so far, emptied; its variables stay known.
  std::string flush(int depth);
  // True while one side of a conditional is being written.
  bool conditional() const { return !blocks_.empty(); }
  // From now on, what conditions guard is computed before them where loop variables give it, so that loads can stand there too: see hoisted().
  void hoist() { hoists_ = true; }
  // Inside of conditionals: the condition, over variables of loops outside of `depth`, under which a statement before them can do what one here would, for a
  // load at `at`; nothing when it cannot.
  std::optional<std::string> hoisted(const Index& at, int depth) const;
  // A statement at `depth` before all conditionals being written.
  void statement_before(const std::string& text, int depth);
  IndexSpace& space() { return space_; }
  std::string fresh(const char* prefix) { return prefix + std::to_string(next_++); }

 private:
  using Key = std::pair<const ir::Value*, Index>;
  struct Scope {
    std::string text;
    std::map<Key, Scalar> known;
    int depth = 0;  // of a block: the deepest thing in it
  };

  Scalar pull_op(const ir::Value* value, const Index& at);
  Scalar elementwise(const ir::Op& op, const Index& at);
  Scalar constant(const ir::Op& op, const Index& at);
  Scalar iota(const ir::Op& op, const Index& at);
  Scalar broadcast(const ir::Op& op, const Index& at);
  Scalar transpose(const ir::Op& op, const Index& at);
  Scalar slice(const ir::Op& op, const Index& at);
  Scalar reverse(const ir::Op& op, const Index& at);
  Scalar concatenate(const ir::Op& op, const Index& at);
  Scalar pad(const ir::Op& op, const Index& at);
  Scalar dynamic_slice(const ir::Op& op, const Index& at);
  Scalar dynamic_update_slice(const ir::Op& op, const Index& at);
  Scalar gather(const ir::Op& op, const Index& at);
  Scalar window(const ir::Op& op, const Index& at);
  Scalar random_bits(const ir::Value* value, const Index& at);
  Scalar map(const ir::Op& op, const Index& at);
  // Where an iota counts to at `at`.
  Index iota_index(const ir::Op& op, const Index& at);
  // The value of an element of an iota or of a constant that grows evenly along each dim, as an index; nothing for all other values.
  std::optional<Index> known_index(const ir::Value* value, const Index& at);
  // Conditions that are not always true of 0 ≤ index < extent, joined by &&; empty when always.
  std::string within(const Index& index, int64_t extent);
  // True when all of the index is known before the conditionals being written.
  bool is_before(const Index& index) const;
  const Scalar* find(const Key& key) const;
  void remember(const Key& key, const Scalar& scalar);

  IndexSpace& space_;
  Leaf leaf_;
  std::vector<Scope> loops_;
  std::vector<Scope> blocks_;
  std::vector<Scalar> conditions_;  // of the blocks
  bool hoists_ = false;
  std::set<int> before_;  // atoms of guards that stand before conditionals
  std::unordered_map<const ir::Value*, Scalar> bound_;
  int next_ = 0;
};

}  // namespace thalweg::codegen
