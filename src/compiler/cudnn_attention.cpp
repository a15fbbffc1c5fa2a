// From attention composites to calls.
#include <cmath>
#include <map>

#include "compiler/cudnn_calls.h"
#include "compiler/rewrite.h"

namespace thalweg::compiler {
namespace {

using ir::Dims;
using ir::DType;
using ir::OpCode;
using ir::Type;
using ir::Value;

constexpr int64_t kWidest = 128;

// What a composite's operands must be for fused kernels. Whether there is one for the shape only a plan can tell.
bool is_suitable(const ir::Op& op, size_t first) {
  const Type& q = op.operand(first)->type;
  if (q.dtype != DType::BF16 && q.dtype != DType::F16) return false;
  for (size_t i = first; i < first + 3; ++i) {
    const Type& type = op.operand(i)->type;
    if (type.dtype != q.dtype || type.rank() != q.rank() || type.rank() < 3 || type.size() == 0) return false;
    if (type.dims.back() % 8 != 0 || type.dims.back() > kWidest) return false;
  }
  return true;
}

// Everything as [batch, heads, tokens, width].
class AttentionWriter {
 public:
  AttentionWriter(ir::Builder& b, const ir::Op& op, size_t first) : b_(b), op_(op), config_(op.attrs.dict("composite_attributes")) {
    const Dims& q = op.operand(first)->type.dims;
    heads_ = q.size() > 3 ? q[q.size() - 3] : 1;
    batch_ = 1;
    for (size_t d = 0; d + 3 < q.size(); ++d) batch_ *= q[d];
    if (q.size() == 3) batch_ = q[0];
    rows_ = q[q.size() - 2], columns_ = op.operand(first + 1)->type.dims[q.size() - 2];
  }

  Dims four(const Dims& dims) const { return {batch_, heads_, dims[dims.size() - 2], dims.back()}; }
  Value* four(size_t operand) const { return b_.reshape(op_.operand(operand), four(op_.operand(operand)->type.dims)); }
  Type four_type(const Type& type) const { return ir::tensor(type.dtype, four(type.dims)); }
  Dims rows() const { return {batch_, heads_, rows_}; }

  // Takes the bias as [batch or 1, heads or 1, rows, columns] with a finite least value, since kernels make NaN of -inf rows; false when it has other dims.
  bool take_bias(size_t operand) {
    Value* bias = op_.operand(operand);
    const Dims &full = op_.operand(0)->type.dims, &own = bias->type.dims;
    Dims dims(4, 1);
    if (own.size() > full.size()) return false;
    if (full.size() == 3 && own.size() == 3) {
      dims = {own[0], 1, own[1], own[2]};
    } else {
      for (size_t d = 1; d <= std::min<size_t>(own.size(), 4); ++d) dims[4 - d] = own[own.size() - d];
    }
    if (ir::tensor(bias->type.dtype, dims).size() != bias->type.size()) return false;
    if (full.size() > 4 && dims[0] != 1) return false;
    raw_bias_ = b_.reshape(bias, dims);
    Dims whole{dims[0], dims[1], rows_, columns_};
    Value* floor = b_.splat(raw_bias_->type, raw_bias_->type.dtype == DType::F16 ? -60000.0 : -1e30);
    bias_ = b_.broadcast_to(b_.binary(OpCode::Maximum, raw_bias_, floor), whole);
    return true;
  }
  Value* bias() const { return bias_; }

  // Rows whose every column the bias shuts out, as `dims` (whose first three are batch, heads, rows); null without a bias.
  Value* dead(const Dims& dims) const {
    if (!bias_) return nullptr;
    Value* most = b_.max(raw_bias_, {3});
    Value* shut = b_.compare(ir::Comparison::EQ, most, b_.splat(most->type, -INFINITY));
    Dims kept{0, 1, 2};
    Value* spread = b_.broadcast_to(b_.reshape(shut, {shut->type.dims[0], shut->type.dims[1], shut->type.dims[2]}), rows());
    return dims.size() == 3 ? spread : b_.broadcast(spread, dims, kept);
  }
  Value* without_dead(Value* x, double instead) const {
    Value* rows = dead(x->type.dims);
    return rows ? b_.select(rows, b_.splat(x->type, instead), x) : x;
  }

  ir::Attributes config() const {
    ir::Attributes out;
    out.set("causal", config_.boolean("causal", false));
    out.set("scale", config_.real("scale"));
    return out;
  }
  // y and the sums.
  std::vector<Value*> forward(std::vector<Value*> operands, const Type& y) const {
    return b_.custom_call("thalweg.attention", std::move(operands), {y, ir::tensor(DType::F32, rows())}, config());
  }

 private:
  ir::Builder& b_;
  const ir::Op& op_;
  const ir::Attributes& config_;
  int64_t batch_ = 1, heads_ = 1, rows_ = 1, columns_ = 1;
  Value *bias_ = nullptr, *raw_bias_ = nullptr;
};

class Taker {
 public:
  std::vector<Value*> visit(ir::Builder& b, ir::Op& op) {
    if (op.code != OpCode::Composite) return {};
    const std::string& name = op.attrs.string("name");
    if (name == "thalweg.attention") return attention(b, op);
    if (name == "thalweg.attention_grad") return attention_grad(b, op);
    return {};
  }

 private:
  std::vector<Value*> attention(ir::Builder& b, ir::Op& op) {
    if (!is_suitable(op, 0)) return {};
    AttentionWriter w(b, op, 0);
    if (op.operands.size() > 3 && !w.take_bias(3)) return {};
    std::vector<Value*> operands{w.four(0), w.four(1), w.four(2)};
    if (w.bias()) operands.push_back(w.bias());
    std::vector<Value*> made = w.forward(std::move(operands), w.four_type(op.result()->type));
    std::vector<Value*> results{b.reshape(w.without_dead(made[0], 0), op.result()->type.dims)};
    if (op.results.size() > 1) {
      const Type& type = op.result(1)->type;
      results.push_back(b.reshape(b.convert(w.without_dead(made[1], -INFINITY), type.dtype), type.dims));
      sums_[results[1]] = made[1];
    }
    return results;
  }

  std::vector<Value*> attention_grad(ir::Builder& b, ir::Op& op) {
    if (!is_suitable(op, 1) || op.operand(0)->type.dtype != op.operand(1)->type.dtype) return {};
    AttentionWriter w(b, op, 1);
    if (op.operands.size() > 6 && !w.take_bias(6)) return {};
    std::vector<Value*> inputs{w.four(1), w.four(2), w.four(3)};
    if (w.bias()) inputs.push_back(w.bias());
    // The forward pass's own sums; else what was kept of them, when that is exact enough; else again.
    Value* sums = nullptr;
    if (auto kept = sums_.find(op.operand(5)); kept != sums_.end()) {
      sums = kept->second;
    } else if (op.operand(5)->type.dtype == DType::F32) {
      sums = w.without_dead(b.reshape(op.operand(5), w.rows()), 0);
    } else {
      sums = w.forward(inputs, w.four_type(op.operand(4)->type))[1];
    }
    std::vector<Value*> operands{w.without_dead(w.four(0), 0), inputs[0], inputs[1], inputs[2], w.four(4), sums};
    if (w.bias()) operands.push_back(w.bias());
    std::vector<Type> types;
    for (size_t i = 0; i < 3; ++i) types.push_back(w.four_type(op.result(i)->type));
    if (op.results.size() > 3) types.push_back(w.bias()->type);
    std::vector<Value*> made = b.custom_call("thalweg.attention_grad", std::move(operands), types, w.config());
    std::vector<Value*> results;
    for (size_t i = 0; i < 3; ++i) results.push_back(b.reshape(made[i], op.result(i)->type.dims));
    if (op.results.size() > 3) results.push_back(bias_grad(b, made[3], op.operand(6)->type));
    return results;
  }

  // Summed over the dims that the bias was repeated along.
  static Value* bias_grad(ir::Builder& b, Value* whole, const Type& bias) {
    const size_t rank = bias.dims.size();
    Dims repeated;
    for (int64_t d : {2, 3}) {
      const int64_t back = 4 - d;
      const int64_t own = static_cast<int64_t>(rank) >= back ? bias.dims[rank - static_cast<size_t>(back)] : 1;
      if (own == 1 && whole->type.dims[static_cast<size_t>(d)] != 1) repeated.push_back(d);
    }
    Value* sum = repeated.empty() ? whole : b.convert(b.sum(b.convert(whole, DType::F32), repeated), bias.dtype);
    return b.reshape(sum, bias.dims);
  }

  std::map<const Value*, Value*> sums_;  // by the logarithms that came from them
};

}  // namespace

void take_attention(ir::Function& function) {
  Taker taker;
  rewrite(function, [&](ir::Builder& b, ir::Op& op) { return taker.visit(b, op); });
}

}  // namespace thalweg::compiler
