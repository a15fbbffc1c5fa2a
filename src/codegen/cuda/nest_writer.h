// Writes the text of one nest for a GPU: see NestShape for who computes what.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "codegen/cuda/nest_shape.h"
#include "codegen/expression.h"

namespace thalweg::codegen::cuda {

// What one attempt at a text is like.
struct Attempt {
  bool wide = false;       // 64-bit index arithmetic
  int64_t most_kept = 32;  // elements of a row that a lane may keep, of each array
  int across = -1;         // elementwise: the loop, counted from the outermost, whose neighbours are neighbours of what is read, unlike those of the innermost
};

// One attempt, with the loops as split so far.
class NestWriter {
 public:
  using IsBuffer = std::function<bool(const ir::Value*)>;
  // All references must outlive the writer. Throws NotFusable.
  NestWriter(const Nest& nest, const std::vector<BaseDim>& base, const IsBuffer& is_buffer, int multiprocessors, const Attempt& attempt);

  NestCode write();
  const IndexSpace& space() const { return space_; }
  // The loop for Attempt::across that reads ask for; -1 when there is none.
  int across() const { return across_; }
  // Statements of the longest loop body as it is after unrolling.
  int64_t unrolled_statements() const { return unrolled_statements_; }

 private:
  struct LoopVar {
    int atom;
    int64_t extent;
    std::string name;
    DimRole role;
    int64_t stride;  // of one step in the space's row-major order
    size_t base;
    int64_t unit;
  };
  // A reduction by a region of any form, between its loop and the statements after it.
  struct Fold {
    const ir::Op* op;
    std::string type, state;  // of a lane: components x0, x1, …, and whether there is one yet
  };

  // nest_writer.cpp: loops and places.
  NestWork measure() const;
  void make_vars();
  Index linear(DimRole role) const;
  std::string decode(const std::string& from, DimRole role) const;
  std::string chunk_decode() const;
  std::string patch_decode() const;
  int64_t patch_units() const;
  void note_direction(const ir::Value* value, const Index& at);
  std::string loops();
  std::string guarded_chunk(const std::string& body) const;
  std::string repeated(const std::string& body) const;
  std::string write_stage(int stage);
  std::string pointers() const;
  std::string unit_head() const;
  void limit_args();
  bool is_inner(const LoopVar& var) const { return shape_.dealing == Dealing::Elements || var.role == DimRole::Inner; }
  std::string lane_column() const { return shape_.dealing == Dealing::Columns ? "column" : "lane"; }

  // nest_values.cpp: loads, members, stores.
  std::optional<Scalar> leaf(const ir::Value* value, const Index& at);
  std::optional<Scalar> member_leaf(const Member& m, const Index& at);
  std::optional<Scalar> short_form(const ir::Value* value, const Index& at);
  bool is_16_bit() const;
  Scalar load(const ir::Value* value, const Index& at, size_t a);
  bool moves_as_vector(const Index& at) const;
  Index chunk_index(const Index& at) const;
  bool keeps(double registers);
  bool repeats(const Member& m) const;
  int repeat_cost(const ir::Value* value, std::unordered_map<const ir::Value*, int>& memo) const;
  std::string kept(const std::string& name) const;
  void store_full(const Member& m);
  void store_rows(int known_from);
  size_t arg(const ir::Value* value, NestArg::Role role, int64_t bytes);
  void find_uses();
  bool is_stored(const ir::Value* value) const;

  // nest_reductions.cpp.
  std::vector<Scalar> elements(const ir::Op& op);
  void reduce_member(const Member& m, std::string& before, std::string& after);
  void fold(const ir::Op& op, std::string& before);
  std::string finish_fold(const Fold& fold);
  void column_member(const Member& m);
  void column_fold(const ir::Op& op);
  std::string column_setup();
  std::string column_end();
  std::string column_store(const Member& m);
  std::string accumulator(const ir::Value* value) const;
  std::string shared_slot(int64_t bytes);
  bool has_partial(const Reducer& reducer) const;

  const Nest& nest_;
  const std::vector<BaseDim>& base_;
  const IsBuffer& is_buffer_;
  const int multiprocessors_;
  const std::string integer_, unsigned_;  // types of index arithmetic
  const Attempt attempt_;
  NestMembers members_;
  NestShape shape_;
  IndexSpace space_;
  std::vector<LoopVar> vars_, inner_;
  int chunk_atom_ = -1;  // the innermost variable at the first element of a chunk
  std::optional<Emitter> emitter_;
  Index full_, row_;
  int stage_ = 0, innermost_ = 3, across_ = -1;
  bool halves_ = false;                                                          // all large values read and written are 16-bit floats
  int64_t patch_ = 1;                                                            // neighbours along Attempt::across that a warp takes
  std::unordered_map<const ir::Value*, std::set<int>> stages_of_;                // that read a buffer at the element being computed
  std::unordered_map<const ir::Value*, std::string> scalars_, locals_, inputs_;  // finished row reductions; what lanes keep of members and of buffers
  std::string row_arrays_, chunk_stores_;
  std::vector<std::string> stores_;   // of the stage being written
  std::vector<Fold> folds_;           // likewise
  std::set<const ir::Value*> cheap_;  // members that cost less to compute again than to keep
  std::set<const ir::Op*> done_;      // ops of several results that are written once
  double registers_ = 0;
  int64_t shared_ = 0, unrolled_statements_ = 0;
  int slots_ = 0;
  NestCode code_;
};

}  // namespace thalweg::codegen::cuda
