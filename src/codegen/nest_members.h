// The values of a nest sorted by how and when each is computed: shared by the writers of kernels for CPUs and GPUs.
#pragma once

#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "codegen/nest.h"

namespace thalweg::codegen {

// How a member is computed: an element a place of the space, an element a row, or a reduction.
enum class MemberKind : uint8_t { Full, Row, RowReduce, ColumnReduce, Contraction };

struct Member {
  const ir::Value* value;
  MemberKind kind;
  int stage = 0;  // of its loop; of Row values: first stage before which they are known

  // A reduction that gives a value per row.
  bool gives_rows() const { return kind == MemberKind::RowReduce || kind == MemberKind::Contraction; }
};

// The members of one nest, whose values and operands must outlive this. Stages are loops over a row one after the other: each can use the row reductions of
// those before it.
class NestMembers {
 public:
  // Throws NotFusable when the members cannot share a nest.
  NestMembers(const Nest& nest, const std::function<bool(const ir::Value*)>& is_buffer);

  const std::vector<Member>& list() const { return list_; }
  const Member* find(const ir::Value* value) const {
    auto it = by_value_.find(value);
    return it == by_value_.end() ? nullptr : &list_[it->second];
  }
  // Its number in list().
  int64_t number(const ir::Value* value) const { return static_cast<int64_t>(by_value_.at(value)); }
  // True when a member of a later stage reads `m`, directly or through values that are not members.
  bool read_later(const Member& m) const;

  int stages() const { return stages_; }
  // Whether there are row reductions or contractions; column reductions; contractions.
  bool reduces() const { return reduces_; }
  bool columns() const { return columns_; }
  bool contraction() const { return contraction_; }

 private:
  int ready_stage(const ir::Value* value, std::unordered_map<const ir::Value*, int>& memo) const;

  const std::function<bool(const ir::Value*)>& is_buffer_;
  std::vector<Member> list_;
  std::unordered_map<const ir::Value*, size_t> by_value_;
  int stages_ = 1;
  bool reduces_ = false, columns_ = false, contraction_ = false;
};

// How a reduction, contraction or window reduces; nothing for several results or a region of another form.
std::optional<Reducer> simple_reducer(const ir::Op& op);

}  // namespace thalweg::codegen
