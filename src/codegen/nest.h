// A fused kernel body: one parallel range over rows, and in each row stages of loops over the inner dimensions that compute, reduce and store.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "codegen/expression.h"
#include "codegen/reducer.h"

namespace thalweg::codegen {

// Role of a dimension of the full space F. Row reductions run over Inner dims and give a value per row; column reductions run over Row dims and give
// a value per Batch and Inner position.
enum class DimRole : uint8_t { Batch, Row, Inner };

// The iteration space of a nest: F's dimensions in row-major order, merged where neighbours have one role.
struct NestSpace {
  std::vector<std::pair<int64_t, DimRole>> dims;
  bool flexible = false;  // elementwise only: any space of as many elements will do

  // Number of elements: of the whole space, and of the dimensions of one role.
  int64_t size() const;
  int64_t size(DimRole role) const;
  bool has(DimRole role) const { return size_of_roles(role) > 0; }
  bool operator==(const NestSpace&) const = default;

 private:
  int size_of_roles(DimRole role) const;
};

// Space of an elementwise value, and of a reduce (rows when its last dimension is reduced, else columns).
NestSpace flexible_space(int64_t elements);
NestSpace reduce_space(const ir::Op& reduce);
// True for reductions over the Inner dims of their space.
bool is_row_reduce(const ir::Op& reduce);

// A product, convolution or window as a reduction over loops of its own: rows are the result's elements.
bool is_contraction(const ir::Op& op);
NestSpace contraction_space(const ir::Op& op);

// Values computed by one nest, operands before users; `stored` of them are visible outside.
struct Nest {
  NestSpace space;
  std::vector<const ir::Value*> members;
  std::vector<const ir::Value*> stored;
};

// One buffer that the nest's text uses, in order of its argument array.
struct NestArg {
  enum class Role : uint8_t { Read, Write, Partial };
  const ir::Value* value;
  Role role;
  int64_t bytes;
  bool same_index = true;  // Read: only ever at the element being computed, in a nest of one stage; Write: likewise
  int scratch = -1;        // without a value, where several texts compute one op: which of their common temporaries
};

// Partial results of a column reduction that a second kernel puts together: `parts` rows of the result's elements.
struct NestPartial {
  const ir::Value* result;
  Reducer reducer;
  int64_t parts;
  size_t arg;
};

// The text of a nest: the body of a function (void* const* args, int64_t begin, int64_t end) over units.
struct NestCode {
  std::string body;
  std::vector<NestArg> args;
  std::vector<NestPartial> partials;
  int64_t units = 0;
  double unit_cost = 1;  // about the scalar operations in one unit
  int divisions = 0;     // index divisions left to run time: loops that do not fit all members
  int lanes = 1;         // on a GPU: threads that do one unit together; the text knows its own as `lane`
  int shared_bytes = 0;  // on a GPU: memory that the threads of a unit share, `shared` in the text
};

// Raised when members cannot share a nest: one reads another at a different place.
struct NotFusable {
  const ir::Value* value;
};

// Writes the text. `is_buffer` says which canonical values lie in buffers. Throws NotFusable.
NestCode write_nest(const Nest& nest, const std::function<bool(const ir::Value*)>& is_buffer);
// The kernel body that merges `partial` (args: partial, result, and the initial value unless it is a constant).
NestCode write_combine(const NestPartial& partial, const ir::Value* initial);

}  // namespace thalweg::codegen
