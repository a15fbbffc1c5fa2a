// Convolutions as products: the input's spatial dims become pairs (output position, place in the window), which product and result then name.
#include "passes/convolutions.h"

#include <algorithm>
#include <numeric>

#include "ir/dimension_numbers.h"
#include "passes/rewriter.h"

namespace thalweg::passes {
namespace {

using ir::Builder;
using ir::Dims;
using ir::DType;
using ir::Op;
using ir::OpCode;
using ir::Value;

constexpr int64_t kWorthUnfolding = 1 << 17;         // multiply-adds below which windows are not copied out
constexpr int64_t kMostUnfolded = int64_t{1} << 28;  // elements of all windows above which they are not either

// What a dim of the input means.
enum class Part : uint8_t { Batch, Channel, Position, Place };
struct Label {
  Part part;
  int64_t spatial = 0;  // of positions and places
  bool operator==(const Label&) const = default;
};

// One spatial dim: `places` elements `dilation` apart, at `positions` steps of `stride`.
struct Sweep {
  int64_t positions, stride, places, dilation;

  int64_t reach() const { return (positions - 1) * stride + (places - 1) * dilation + 1; }
  bool by_position() const { return places == 1 || (dilation == 1 && stride >= places); }
  bool by_place() const { return positions == 1 || (stride == 1 && dilation >= positions); }
  bool disjoint() const { return by_position() || by_place(); }
};

class Unfolder {
 public:
  Unfolder(Builder& b, const Op& op) : b_(b), op_(op), d_(ir::conv_dims(op.attrs)), value_(op.operand(0)) {
    labels_.resize(value_->type.dims.size());
    at(d_.input_batch) = {Part::Batch}, at(d_.input_feature) = {Part::Channel};
    for (size_t s = 0; s < d_.input_spatial.size(); ++s) at(d_.input_spatial[s]) = {Part::Position, static_cast<int64_t>(s)};
  }

  bool disjoint() const {
    for (size_t s = 0; s < d_.input_spatial.size(); ++s)
      if (!sweep(s).disjoint()) return false;
    return true;
  }
  bool grouped() const { return d_.feature_groups != 1 || d_.batch_groups != 1; }
  // Elements of all windows, and multiply-adds.
  int64_t elements() const {
    int64_t n = extent(op_.operand(0), d_.input_batch) * extent(op_.operand(0), d_.input_feature);
    for (size_t s = 0; s < d_.input_spatial.size(); ++s) n *= sweep(s).positions * sweep(s).places;
    return n;
  }
  int64_t work() const { return elements() * extent(op_.operand(1), d_.kernel_output); }

  Value* product() {
    pad();
    std::vector<size_t> order(d_.input_spatial.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return d_.input_spatial[a] > d_.input_spatial[b]; });
    for (size_t s : order) split(s);
    return multiply();
  }

 private:
  static int64_t extent(const Value* value, int64_t dim) { return value->type.dims[static_cast<size_t>(dim)]; }
  Label& at(int64_t dim) { return labels_[static_cast<size_t>(dim)]; }

  Sweep sweep(size_t s) const {
    return {extent(op_.result(), d_.output_spatial[s]), d_.stride[s], extent(op_.operand(1), d_.kernel_spatial[s]), d_.rhs_dilation[s]};
  }

  // Zeros around and between the elements, as the op's attributes say.
  void pad() {
    Dims low(labels_.size(), 0), high = low, interior = low;
    bool any = false;
    for (size_t s = 0; s < d_.input_spatial.size(); ++s) {
      const auto dim = static_cast<size_t>(d_.input_spatial[s]);
      low[dim] = d_.pad_low[s], high[dim] = d_.pad_high[s], interior[dim] = d_.lhs_dilation[s] - 1;
      any |= low[dim] != 0 || high[dim] != 0 || interior[dim] != 0;
    }
    if (any) value_ = b_.pad(value_, b_.splat(ir::tensor(value_->type.dtype, {}), 0), low, high, interior);
  }

  // Elements from 0 on along `dim` until there are `size`: cut off, or zeros that nobody reads.
  void resize(size_t dim, int64_t size, int64_t step = 1) {
    Dims dims = value_->type.dims, zero(dims.size(), 0), ones(dims.size(), 1);
    if (size > dims[dim]) {
      Dims high = zero;
      high[dim] = size - dims[dim];
      value_ = b_.pad(value_, b_.splat(ir::tensor(value_->type.dtype, {}), 0), zero, high, zero);
    } else if (size < dims[dim] || step != 1) {
      dims[dim] = size, ones[dim] = step;
      value_ = b_.slice(value_, zero, dims, ones);
    }
  }

  void split(size_t s) {
    const auto dim = static_cast<size_t>(d_.input_spatial[s]);
    const Sweep w = sweep(s);
    const Label position{Part::Position, static_cast<int64_t>(s)}, place{Part::Place, static_cast<int64_t>(s)};
    bool position_first = true;
    if (w.places == 1) {
      resize(dim, w.reach(), w.stride), divide(dim, w.positions, 1);
    } else if (w.positions == 1) {
      resize(dim, w.reach(), w.dilation), divide(dim, 1, w.places);
    } else if (w.by_position()) {
      resize(dim, w.positions * w.stride), divide(dim, w.positions, w.stride), resize(dim + 1, w.places);
    } else if (w.by_place()) {
      resize(dim, w.places * w.dilation), divide(dim, w.places, w.dilation), resize(dim + 1, w.positions), position_first = false;
    } else {
      gather(dim, w);
    }
    labels_[dim] = position_first ? position : place;
    labels_.insert(labels_.begin() + static_cast<std::ptrdiff_t>(dim) + 1, position_first ? place : position);
  }

  // One dim as two.
  void divide(size_t dim, int64_t outer, int64_t inner) {
    Dims dims = value_->type.dims;
    dims[dim] = outer;
    dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(dim) + 1, inner);
    value_ = b_.reshape(value_, dims);
  }

  // Overlapping windows: element (position, place) of the two new dims is element position * stride + place * dilation of the old one.
  void gather(size_t dim, const Sweep& w) {
    auto indices = std::make_shared<ir::Literal>(ir::tensor(DType::S32, {w.positions, w.places}));
    for (int64_t i = 0; i < w.positions * w.places; ++i)
      ir::store_int(DType::S32, indices->data.data() + i * 4, i / w.places * w.stride + i % w.places * w.dilation);
    ir::GatherDims g;
    const auto rank = static_cast<int64_t>(value_->type.dims.size()), split_dim = static_cast<int64_t>(dim);
    for (int64_t k = 0; k < rank; ++k)
      if (k != split_dim) g.offset_dims.push_back(k < split_dim ? k : k + 1);
    g.collapsed_slice_dims = g.start_index_map = {split_dim};
    g.index_vector_dim = 2;
    Dims sizes = value_->type.dims;
    sizes[dim] = 1;
    value_ = b_.gather(value_, b_.constant(indices), g, sizes);
  }

  // The dims with these labels come to stand in this order.
  void arrange(const std::vector<Label>& order) {
    Dims permutation;
    for (const Label& label : order) permutation.push_back(std::find(labels_.begin(), labels_.end(), label) - labels_.begin());
    value_ = b_.transpose(value_, permutation);
    labels_ = order;
  }

  // The kernel, turned round where the op says so.
  Value* kernel() const {
    Dims reversed;
    for (size_t s = 0; s < d_.reversal.size(); ++s)
      if (d_.reversal[s] && extent(op_.operand(1), d_.kernel_spatial[s]) > 1) reversed.push_back(d_.kernel_spatial[s]);
    return reversed.empty() ? op_.operand(1) : b_.reverse(op_.operand(1), reversed);
  }

  Value* dot(Value* lhs, Value* rhs, const ir::DotDims& dims) const {
    Value* result = b_.dot(lhs, rhs, dims, op_.result()->type.dtype);
    if (const ir::Attribute* precision = op_.attrs.find("precision_config")) result->def->attrs.set("precision_config", *precision);
    return result;
  }

  Value* multiply() {
    const auto rank = static_cast<int64_t>(op_.result()->type.dims.size());
    std::vector<Label> order, contracted;
    for (int64_t k = 0; k < rank; ++k) {
      if (k == d_.output_batch) order.push_back({Part::Batch});
      for (size_t s = 0; s < d_.output_spatial.size(); ++s)
        if (k == d_.output_spatial[s]) order.push_back({Part::Position, static_cast<int64_t>(s)});
    }
    Dims kernel_dims;  // contracted, in the kernel's order
    for (int64_t k = 0; k < rank; ++k) {
      if (k == d_.kernel_output) continue;
      kernel_dims.push_back(k);
      if (k == d_.kernel_input) contracted.push_back({Part::Channel});
      for (size_t s = 0; s < d_.kernel_spatial.size(); ++s)
        if (k == d_.kernel_spatial[s]) contracted.push_back({Part::Place, static_cast<int64_t>(s)});
    }
    const int64_t feature = d_.output_feature, places = static_cast<int64_t>(contracted.size());
    const auto counted = [](int64_t first, int64_t n) {
      Dims dims(static_cast<size_t>(n));
      std::iota(dims.begin(), dims.end(), first);
      return dims;
    };
    if (feature == rank - 1) {
      order.insert(order.end(), contracted.begin(), contracted.end());
      arrange(order);
      return dot(value_, kernel(), {{}, {}, counted(rank - 1, places), kernel_dims});
    }
    // Features before positions: the kernel comes first, and the windows' positions last.
    const bool batched = feature == 1 && d_.output_batch == 0 && extent(op_.result(), 0) > 1;
    order.insert(order.begin() + (batched ? 1 : 0), contracted.begin(), contracted.end());
    arrange(order);
    if (batched) {
      Dims repeated = op_.operand(1)->type.dims;
      repeated.insert(repeated.begin(), extent(value_, 0));
      for (int64_t& k : kernel_dims) ++k;
      return dot(b_.broadcast(kernel(), repeated, counted(1, rank)), value_, {{0}, {0}, kernel_dims, counted(1, places)});
    }
    Value* result = dot(kernel(), value_, {{}, {}, kernel_dims, counted(0, places)});
    Dims permutation;
    for (int64_t k = 0; k < rank; ++k) permutation.push_back(k == feature ? 0 : k < feature ? k + 1 : k);
    return b_.transpose(result, permutation);
  }

  Builder& b_;
  const Op& op_;
  ir::ConvDims d_;
  Value* value_;               // the input on its way
  std::vector<Label> labels_;  // of its dims
};

bool is_numeric(const Op& op) {
  for (const Value* operand : op.operands)
    if (!ir::is_float(operand->type.dtype) && !ir::is_integer(operand->type.dtype)) return false;
  return op.operand(0)->type.dtype == op.operand(1)->type.dtype;
}

bool empty(const Op& op) { return op.result()->type.size() == 0 || op.operand(0)->type.size() == 0 || op.operand(1)->type.size() == 0; }

Replacement unfold(Builder& b, Op& op, bool overlapping) {
  if (op.code != OpCode::Convolution || !is_numeric(op) || empty(op)) return {};
  Unfolder unfolder(b, op);
  if (unfolder.grouped()) return {};
  if (!unfolder.disjoint()) {
    const bool floats = ir::is_float(op.result()->type.dtype);
    if (!overlapping || !floats || unfolder.work() < kWorthUnfolding || unfolder.elements() > kMostUnfolded) return {};
  }
  return {unfolder.product()};
}

}  // namespace

bool disjoint_convolutions(ir::Function& function, const ir::Module*) {
  return rewrite(function.body, [](Builder& b, Op& op) { return unfold(b, op, false); });
}

bool unfold_convolutions(ir::Function& function, const ir::Module*) {
  return rewrite(function.body, [](Builder& b, Op& op) { return unfold(b, op, true); });
}

}  // namespace thalweg::passes
