// Versions of storages and the traced operations that make them: a graph held together by reference counts.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "lazy/view.h"
#include "runtime/buffer.h"
#include "support/error.h"
#include "support/intrusive.h"

namespace thalweg::lazy {

struct Row;
class Node;
class Trace;
using NodePtr = IntrusivePtr<Node>;

// One version of a storage's whole content. Pending while `node` is set, ready once `buffer` is; a version with neither is uninitialised memory
// and reads as zeros. Guarded by the session's lock but for the count.
class Value : public Counted<Value> {
 public:
  NodePtr node;
  uint32_t output = 0;  // which result of `node`
  View layout;          // dense: where each element of the result lies in the storage
  runtime::BufferPtr buffer;
  std::shared_ptr<const Error> error;      // the step that should have made it failed; reading rethrows
  uint64_t sequence = 0;                   // order of creation
  bool exclusive = false;                  // `buffer` is known to nobody but versions of one storage: it may be donated
  uint32_t internal_refs = 0;              // references that the session itself holds to undo a failed step; they do not stand in the way of donation
  uint32_t leaf_refs = 0, leaf_index = 0;  // scratch of one flush
  uint64_t leaf_epoch = 0;
  static void destroy(Value* value);
};
using ValuePtr = IntrusivePtr<Value>;

// One tensor argument of a node: a version and how it is read.
struct Input {
  ValuePtr value;  // null: an absent optional tensor
  View view;       // equals value->layout for an ordinary read
};

// One run-time number. Integers and booleans travel as i64, floating ones as f64.
struct Scalar {
  bool floating = false;
  uint64_t bits = 0;
};

// One argument of a traced operation as the dispatcher's schema has it.
enum class ArgKind : uint8_t { None, Tensor, Tensors, Scalar, Scalars, Int, Ints, Double, Bool, String };

// One traced operation. Immutable after recording. Lies in one block of memory with its arrays: made by create() only.
class Node : public Counted<Node> {
 public:
  // A node with arrays of these lengths, default-initialised.
  static Node* create(size_t inputs, size_t words, size_t scalars, size_t outputs);

  const Row* row = nullptr;
  std::span<Input> inputs;  // tensors in schema order, lists flattened
  // The schema's arguments in order: a word with kind (low 8 bits) and count (upper 56), then: Tensor – nothing (absent when count is 0); Tensors –
  // nothing; Int, Double, Bool – one word; Ints – count words; String – ceil(count/8) words; Scalar, Scalars – nothing (see scalars).
  std::span<uint64_t> words;
  std::span<Scalar> scalars;  // run-time numbers in schema order, then seed and offset of random operations
  std::span<View> outputs;    // dtype and sizes of each result; layout of a fresh one
  uint64_t hash = 0;          // of row, words, input views and layouts, scalar classes and outputs; not of identities or scalar values
  uint32_t line = 0;          // Python line, see lines.h; 0: not recorded
  uint8_t group = 0;          // 0 forward, 1 backward
  IntrusivePtr<Trace> trace;
  uint64_t mark = 0;  // scratch of one flush
  uint32_t number = 0;
  static void destroy(Node* node);

 private:
  Node();
  ~Node();
};

}  // namespace thalweg::lazy
