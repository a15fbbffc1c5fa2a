// Plans and steps of calls to cuDNN.
#include "compiler/cudnn_calls.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <map>
#include <mutex>
#include <numeric>
#include <tuple>

#include "codegen/expression.h"
#include "compiler/channels_last.h"
#include "compiler/few_channels.h"
#include "compiler/heavy.h"
#include "compiler/products.h"
#include "compiler/rewrite.h"
#include "ir/dimension_numbers.h"
#include "libs/cuda/cudnn_attention.h"
#include "libs/cuda/cudnn_convolution.h"
#include "passes/dce.h"
#include "passes/decompose.h"
#include "runtime/cuda/cuda_device.h"
#include "support/error.h"

namespace thalweg::compiler {
namespace {

namespace cudnn = libs::cuda::cudnn;
using cudnn::Plan;
using cudnn::PlanWishes;
using ir::Dims;
using ir::DType;
using ir::OpCode;
using ir::Type;
using ir::Value;

bool is_call(const ir::Op& op, std::string_view target) { return op.code == OpCode::CustomCall && op.attrs.string("call_target_name") == target; }

// The plans that this process has made ready, kept for its life; null for what cuDNN refused. `buffers` is for measuring; empty: nothing is measured.
std::shared_ptr<const Plan> plan_of(const cudnn::Gpu& gpu, const std::shared_ptr<const cudnn::Graph>& graph, const PlanWishes& wishes,
                                    const std::vector<std::pair<int64_t, size_t>>& buffers) {
  static auto* mutex = new std::mutex;
  using Key = std::tuple<const runtime::Device*, std::string, bool, bool, bool>;
  static auto* made = new std::map<Key, std::shared_ptr<const Plan>>;
  std::scoped_lock lock(*mutex);
  auto [it, fresh] = made->try_emplace({gpu.device(), graph->text, wishes.deterministic, wishes.exact_f32, buffers.empty()});
  if (!fresh) return it->second;
  try {
    auto plan = std::make_shared<Plan>(gpu, graph, wishes);
    it->second = plan;
    if (!buffers.empty()) plan->measure(gpu.device()->compute_stream(), buffers);
  } catch (const Error& error) {
    // Without memory to measure in, the first plan stays.
    if (error.kind() != ErrorKind::Unsupported && error.kind() != ErrorKind::OutOfMemory) throw;
  }
  return it->second;
}

Dims row_major(const Dims& dims) {
  Dims strides(dims.size(), 1);
  for (size_t d = dims.size(); d-- > 1;) strides[d - 1] = strides[d] * dims[d];
  return strides;
}

// The dims from the widest stride to the least; the last one stays last.
Dims order_of(const Dims& strides) {
  Dims order(strides.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end() - 1, [&](int64_t a, int64_t b) { return strides[static_cast<size_t>(a)] > strides[static_cast<size_t>(b)]; });
  return order;
}

Dims inverse_of(const Dims& order) {
  Dims inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) inverse[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return inverse;
}

Dims picked(const Dims& dims, const Dims& order) {
  Dims out;
  for (int64_t d : order) out.push_back(dims[static_cast<size_t>(d)]);
  return out;
}

// The strides of a tensor of `dims` that lies in memory with its dims in `order`.
Dims strides_in(const Dims& dims, const Dims& order) { return picked(row_major(picked(dims, order)), inverse_of(order)); }

StridedView plain_view(const Value* value) { return {codegen::canonical(value), 0, row_major(value->type.dims)}; }

CudnnCall::Read read_of(int64_t id, const StridedView& view) { return {id, view.base, view.offset * ir::byte_size(view.base->type.dtype)}; }

// Where a head's tensor [batch, heads, tokens, width] is read from: where its elements lie, if rows begin at multiples of 16 bytes there, else a copy.
StridedView head_view(const Value* value, bool traced) {
  if (!traced) return plain_view(value);
  std::optional<StridedView> view = strided_view(value);
  if (!view) return plain_view(value);
  const Dims& dims = value->type.dims;
  for (size_t d = 0; d < 4; ++d) {
    int64_t& stride = view->strides[d];
    if (dims[d] == 1) stride = d == 3 ? 1 : dims[3];
    if (d == 3 ? stride != 1 : (stride <= 0 || stride % 8 != 0)) return plain_view(value);
  }
  return view->offset % 8 == 0 ? *view : plain_view(value);
}

// The views of q, k and v, which are the operands from `first` on; with what of the shape does not follow from strides.
struct Heads {
  Heads(const ir::Op& op, size_t first, bool traced)
      : views{head_view(op.operand(first), traced), head_view(op.operand(first + 1), traced), head_view(op.operand(first + 2), traced)} {
    const Type &q = op.operand(first)->type, &v = op.operand(first + 2)->type;
    shape.element = q.dtype == DType::BF16 ? cudnn::Type::BF16 : cudnn::Type::F16;
    shape.batch = q.dims[0], shape.heads = q.dims[1], shape.rows = q.dims[2], shape.columns = v.dims[2], shape.width = q.dims[3], shape.value_width = v.dims[3];
    shape.scale = config_of(op).real("scale"), shape.causal = config_of(op).boolean("causal", false);
    shape.q = views[0].strides, shape.k = views[1].strides, shape.v = views[2].strides;
  }

  void read_into(CudnnCall& call) const {
    const int64_t ids[] = {cudnn::kAttentionQ, cudnn::kAttentionK, cudnn::kAttentionV};
    for (size_t i = 0; i < 3; ++i) call.reads.push_back(read_of(ids[i], views[i]));
  }
  void read_bias(const Value* bias, CudnnCall& call) {
    shape.bias = bias->type.dims, shape.bias_strides = row_major(*shape.bias);
    call.reads.push_back(read_of(cudnn::kAttentionBias, plain_view(bias)));
  }
  Dims order(size_t i) const { return order_of(views[i].strides); }

  std::array<StridedView, 3> views;
  cudnn::AttentionShape shape;
};

// The call of q, k, v [, bias] → y, sums, where y lies in memory with its dims in `order`; without a plan when there is none.
CudnnCall attention_call(const ir::Op& op, const Dims& order, const CudnnTarget& target) {
  CudnnCall call;
  for (const bool traced : {true, false}) {
    Heads heads(op, 0, traced);
    call = {};
    heads.read_into(call);
    heads.shape.y = strides_in({heads.shape.batch, heads.shape.heads, heads.shape.rows, heads.shape.value_width}, order);
    if (op.operands.size() > 3) heads.read_bias(op.operand(3), call);
    call.writes = {cudnn::kAttentionY, cudnn::kAttentionStats};
    call.plan = plan_of(target.gpu, cudnn::attention_graph(heads.shape, true), {.deterministic = target.deterministic}, {});
    if (call.plan) break;
  }
  return call;
}

// The same of dy, q, k, v, y, sums [, bias] → dq, dk, dv [, dbias].
CudnnCall attention_grad_call(const ir::Op& op, const std::vector<Dims>& orders, const CudnnTarget& target) {
  CudnnCall call;
  for (const bool traced : {true, false}) {
    Heads heads(op, 1, traced);
    const StridedView dy = head_view(op.operand(0), traced), y = head_view(op.operand(4), traced);
    heads.shape.y = y.strides;
    call = {};
    call.reads = {read_of(cudnn::kAttentionDy, dy), read_of(cudnn::kAttentionY, y), read_of(cudnn::kAttentionStats, plain_view(op.operand(5)))};
    heads.read_into(call);
    if (op.operands.size() > 6) heads.read_bias(op.operand(6), call);
    const Dims q{heads.shape.batch, heads.shape.heads, heads.shape.rows, heads.shape.width}, k = op.operand(2)->type.dims, v = op.operand(3)->type.dims;
    const cudnn::AttentionGradShape shape{
        heads.shape, dy.strides, strides_in(q, orders[0]), strides_in(k, orders[1]), strides_in(v, orders[2]), op.results.size() > 3, target.deterministic};
    call.writes = {cudnn::kAttentionDq, cudnn::kAttentionDk, cudnn::kAttentionDv};
    if (shape.bias_grad) call.writes.push_back(cudnn::kAttentionBiasGrad);
    call.plan = plan_of(target.gpu, cudnn::attention_grad_graph(shape), {.deterministic = target.deterministic}, {});
    if (call.plan) break;
  }
  return call;
}

class Drafter {
 public:
  Drafter(const CudnnTarget& target, bool convolutions) : target_(target), convolutions_(convolutions) {}

  std::vector<Value*> visit(ir::Builder& b, ir::Op& op);
  CudnnDrafts drafts;

 private:
  std::vector<Value*> attention(ir::Builder& b, ir::Op& op);
  std::vector<Value*> attention_grad(ir::Builder& b, ir::Op& op);
  std::vector<Value*> convolution(ir::Builder& b, ir::Op& op);
  // The value with its dims in `order`, made once.
  Value* laid(ir::Builder& b, Value* value, const Dims& order);
  // The call with results whose dims lie in `orders` (empty: as they are), and the results as they were.
  std::vector<Value*> ordered(ir::Builder& b, const ir::Op& op, std::vector<Value*> operands, const std::vector<Dims>& orders,
                              std::function<CudnnCall(const ir::Op&)> draft);

  const CudnnTarget& target_;
  const bool convolutions_;  // whether there are any
  FoldedImages images_;
  std::map<std::pair<const Value*, Dims>, Value*> laid_;
};

std::vector<Value*> Drafter::ordered(ir::Builder& b, const ir::Op& op, std::vector<Value*> operands, const std::vector<Dims>& orders,
                                     std::function<CudnnCall(const ir::Op&)> draft) {
  std::vector<Type> types;
  for (size_t i = 0; i < op.results.size(); ++i) {
    types.push_back(op.result(i)->type);
    if (!orders[i].empty()) types.back().dims = picked(types.back().dims, orders[i]);
  }
  std::vector<Value*> made = b.custom_call(op.attrs.string("call_target_name"), std::move(operands), std::move(types), config_of(op));
  drafts[made[0]->def] = std::move(draft);
  for (size_t i = 0; i < made.size(); ++i)
    if (!orders[i].empty()) made[i] = b.transpose(made[i], inverse_of(orders[i]));
  return made;
}

std::vector<Value*> Drafter::attention(ir::Builder& b, ir::Op& op) {
  const Dims order = Heads(op, 0, true).order(0);
  if (attention_call(op, order, target_).plan)
    return ordered(b, op, op.operands, {order, {}}, [order, target = target_](const ir::Op& call) { return attention_call(call, order, target); });
  return b.composite("thalweg.attention", op.operands, {op.result(0)->type, op.result(1)->type}, config_of(op));
}

std::vector<Value*> Drafter::attention_grad(ir::Builder& b, ir::Op& op) {
  const Heads heads(op, 1, true);
  std::vector<Dims> orders{heads.order(0), heads.order(1), heads.order(2)};
  const std::vector<Dims> fixed = orders;
  if (op.results.size() > 3) orders.emplace_back();
  if (attention_grad_call(op, fixed, target_).plan)
    return ordered(b, op, op.operands, orders, [fixed, target = target_](const ir::Op& call) { return attention_grad_call(call, fixed, target); });
  std::vector<Type> types;
  for (const auto& result : op.results) types.push_back(result->type);
  return b.composite("thalweg.attention_grad", op.operands, types, config_of(op));
}

std::optional<cudnn::Type> type_of(DType dtype) {
  switch (dtype) {
    case DType::F32:
      return cudnn::Type::F32;
    case DType::F64:
      return cudnn::Type::F64;
    case DType::F16:
      return cudnn::Type::F16;
    case DType::BF16:
      return cudnn::Type::BF16;
    default:
      return {};
  }
}

// True when the elements lie in `order` without gaps, at a multiple of 16 bytes.
bool is_packed(const Value* value, const StridedView& view, const Dims& order) {
  const Dims& dims = value->type.dims;
  const Dims strides = strides_in(dims, order);
  for (size_t d = 0; d < dims.size(); ++d)
    if (dims[d] != 1 && strides[d] != view.strides[d]) return false;
  return view.offset * ir::byte_size(value->type.dtype) % 16 == 0;
}

// What a convolution's mode means for cuDNN: a transposed one is its own data gradient's gradient.
cudnn::ConvolutionShape::Kind kind_of(const std::string& mode, bool transposed) {
  using Kind = cudnn::ConvolutionShape::Kind;
  if (mode == "weight_grad") return Kind::FilterGrad;
  return (mode == "forward") != transposed ? Kind::Forward : Kind::DataGrad;
}

// A convolution whose operands and result are given as they lie in memory.
struct ConvolutionDraft {
  cudnn::ConvolutionShape shape;
  std::array<int64_t, 2> ids{};  // of the operands
  int64_t made = 0;              // of the result

  std::pair<Dims*, Dims*> place(int64_t id) {
    cudnn::ConvolutionShape& s = shape;
    return id == cudnn::kConvolutionX   ? std::pair{&s.x, &s.x_strides}
           : id == cudnn::kConvolutionW ? std::pair{&s.w, &s.w_strides}
                                        : std::pair{&s.y, &s.y_strides};
  }
  std::shared_ptr<const Plan> plan(const CudnnTarget& target) const {
    const PlanWishes wishes{.deterministic = target.deterministic, .exact_f32 = shape.element == cudnn::Type::F32 && !target.tf32};
    std::vector<std::pair<int64_t, size_t>> buffers;
    const size_t bytes = shape.element == cudnn::Type::F64 ? 8 : shape.element == cudnn::Type::F32 ? 4 : 2;
    auto add = [&](int64_t id, const Dims& dims) { buffers.emplace_back(id, std::accumulate(dims.begin(), dims.end(), bytes, std::multiplies<size_t>())); };
    if (!target.deterministic && target.gpu.device())
      add(cudnn::kConvolutionX, shape.x), add(cudnn::kConvolutionW, shape.w), add(cudnn::kConvolutionY, shape.y);
    return plan_of(target.gpu, cudnn::convolution_graph(shape), wishes, buffers);
  }
  CudnnCall call(const ir::Op& op, const CudnnTarget& target) const {
    CudnnCall out;
    for (size_t i = 0; i < 2; ++i) {
      const Value* operand = op.operand(i);
      std::optional<StridedView> view = strided_view(operand);
      Dims order(operand->type.dims.size());
      std::iota(order.begin(), order.end(), 0);
      out.reads.push_back(read_of(ids[i], view && is_packed(operand, *view, order) ? *view : plain_view(operand)));
    }
    out.writes = {made};
    out.plan = plan(target);
    return out;
  }
};

// What a call means for cuDNN; nothing for types and ranks that it has not.
std::optional<ConvolutionDraft> draft_of(const ir::Op& op) {
  const ir::Attributes& config = config_of(op);
  const Type& result = op.result()->type;
  const std::optional<cudnn::Type> element = type_of(result.dtype);
  const size_t rank = result.dims.size();
  if (!element || rank < 3 || rank > 5 || result.size() == 0) return {};
  for (const Value* operand : op.operands)
    if (operand->type.dtype != result.dtype || operand->type.size() == 0 || operand->type.dims.size() != rank) return {};
  using Kind = cudnn::ConvolutionShape::Kind;
  const bool transposed = config.boolean("transposed", false);
  ConvolutionDraft draft;
  cudnn::ConvolutionShape& s = draft.shape;
  s.kind = kind_of(config.string("mode"), transposed), s.element = *element;
  s.stride = config.ints("stride"), s.before = s.after = config.ints("padding"), s.dilation = config.ints("dilation");
  // The operands are x (for a gradient y) and w, for the weights' gradient y and x (exchanged where transposed).
  draft.ids = {s.kind == Kind::DataGrad ? cudnn::kConvolutionY : cudnn::kConvolutionX, cudnn::kConvolutionW};
  if (s.kind == Kind::FilterGrad) draft.ids = {cudnn::kConvolutionY, cudnn::kConvolutionX};
  if (s.kind == Kind::FilterGrad && transposed) std::swap(draft.ids[0], draft.ids[1]);
  draft.made = s.kind == Kind::Forward ? cudnn::kConvolutionY : s.kind == Kind::DataGrad ? cudnn::kConvolutionX : cudnn::kConvolutionW;
  return draft;
}

Value* Drafter::laid(ir::Builder& b, Value* value, const Dims& order) {
  Value*& made = laid_[{value, order}];
  if (!made) {
    made = b.transpose(value, order);
    if (made != value)
      if (std::vector<Value*> back = keep_channels_last(b, *made->def); !back.empty()) made = back[0];
  }
  return made;
}

std::vector<Value*> Drafter::convolution(ir::Builder& b, ir::Op& op) {
  std::optional<ConvolutionDraft> draft = draft_of(op);
  if (!draft) return {};
  using Kind = cudnn::ConvolutionShape::Kind;
  const Kind kind = draft->shape.kind;
  const bool narrow = draft->shape.element == cudnn::Type::BF16 || draft->shape.element == cudnn::Type::F16;
  const size_t rank = op.result()->type.dims.size();
  if (narrow)
    if (const auto folded = fold_few_channels(b, op, images_)) {
      Value* other = b.custom_call("thalweg.convolution", folded->operands, {folded->result}, folded->config)[0];
      if (std::vector<Value*> made = convolution(b, *other->def); !made.empty()) return {folded->back(b, made[0])};
    }
  // Channels lie last in all tensors where they do in the first one, and where tensor cores compute.
  const std::optional<StridedView> view = strided_view(op.operand(0));
  const bool is_last = view && is_packed(op.operand(0), *view, channels_last(rank));
  std::vector<Dims> orders(1, Dims(rank));
  std::iota(orders[0].begin(), orders[0].end(), 0);
  if (rank > 3 && draft->shape.element != cudnn::Type::F64 && (is_last || narrow || target_.tf32)) orders.insert(orders.begin(), channels_last(rank));
  for (const Dims& order : orders) {
    auto lay = [&](int64_t id, const Dims& dims) { *draft->place(id).first = dims, *draft->place(id).second = strides_in(dims, order); };
    for (size_t i = 0; i < 2; ++i) lay(draft->ids[i], op.operand(i)->type.dims);
    lay(draft->made, op.result()->type.dims);
    if (!draft->plan(target_)) continue;
    std::vector<Value*> operands{laid(b, op.operand(0), order), laid(b, op.operand(1), order)};
    auto finish = [draft = *draft, target = target_](const ir::Op& call) { return draft.call(call, target); };
    if (kind != Kind::FilterGrad || order != channels_last(rank)) return ordered(b, op, std::move(operands), {order}, finish);
    // A weights' gradient goes to its weights, which lie as they do: what follows keeps to their order.
    const Dims& w = op.result()->type.dims;
    Value* made = b.custom_call("thalweg.convolution", std::move(operands), {ir::tensor(op.result()->type.dtype, picked(w, order))}, config_of(op))[0];
    drafts[made->def] = finish;
    const int64_t window = op.result()->type.size() / (w[0] * w[1]);
    return {b.reshape(b.transpose(b.reshape(made, {w[0], window, w[1]}), {0, 2, 1}), w)};
  }
  return {};
}

// A convolution of StableHLO whose window only slides, as the call; with the order that the call's dims have in the result.
struct SlidingCall {
  ir::Op* call = nullptr;
  Dims order;
};
SlidingCall as_call(ir::Builder& b, ir::Op& op) {
  if (op.code != OpCode::Convolution) return {};
  const ir::ConvDims d = ir::conv_dims(op.attrs);
  const Type& type = op.result()->type;
  const bool same = type.dtype == op.operand(0)->type.dtype && type.dtype == op.operand(1)->type.dtype;
  auto all = [](const Dims& dims, int64_t value) { return std::all_of(dims.begin(), dims.end(), [&](int64_t x) { return x == value; }); };
  const bool reversed = std::find(d.reversal.begin(), d.reversal.end(), true) != d.reversal.end();
  if (!same || !type_of(type.dtype) || type.size() == 0 || d.batch_groups != 1 || reversed || d.input_spatial.empty() || d.input_spatial.size() > 3) return {};
  if (!all(d.lhs_dilation, 1) || d.pad_low != d.pad_high || !std::all_of(d.pad_low.begin(), d.pad_low.end(), [](int64_t p) { return p >= 0; })) return {};
  auto order = [](int64_t first, int64_t second, const Dims& space) {
    Dims dims{first, second};
    dims.insert(dims.end(), space.begin(), space.end());
    return dims;
  };
  const Dims to = order(d.output_batch, d.output_feature, d.output_spatial);
  ir::Attributes config;
  config.set("mode", std::string("forward"));
  config.set("stride", d.stride), config.set("padding", d.pad_low), config.set("dilation", d.rhs_dilation);
  config.set("output_padding", Dims(d.stride.size(), 0));
  config.set("transposed", false), config.set("groups", d.feature_groups);
  Value* x = b.transpose(op.operand(0), order(d.input_batch, d.input_feature, d.input_spatial));
  Value* w = b.transpose(op.operand(1), order(d.kernel_output, d.kernel_input, d.kernel_spatial));
  Value* y = b.custom_call("thalweg.convolution", {x, w}, {ir::tensor(type.dtype, picked(type.dims, to))}, std::move(config))[0];
  return {y->def, to};
}

std::vector<Value*> Drafter::visit(ir::Builder& b, ir::Op& op) {
  if (is_call(op, "thalweg.attention")) return attention(b, op);
  if (is_call(op, "thalweg.attention_grad")) return attention_grad(b, op);
  if (is_call(op, "thalweg.convolution")) return convolution(b, op);
  if (!convolutions_) return {};
  if (std::vector<Value*> moved = keep_channels_last(b, op); !moved.empty()) return moved;
  const SlidingCall sliding = as_call(b, op);
  if (!sliding.call) return {};
  std::vector<Value*> planned = convolution(b, *sliding.call);
  if (planned.empty()) return {};
  return {b.transpose(planned[0], inverse_of(sliding.order))};
}

}  // namespace

namespace {

template <class Is>
bool any_op(const ir::Function& function, Is is) {
  return std::any_of(function.body.ops.begin(), function.body.ops.end(), [&](const auto& op) { return is(*op); });
}

bool is_convolution(const ir::Op& op) { return op.code == OpCode::Convolution || is_call(op, "thalweg.convolution"); }
bool is_attention(const ir::Op& op) { return is_call(op, "thalweg.attention") || is_call(op, "thalweg.attention_grad"); }

}  // namespace

bool has_cudnn_work(const ir::Function& function) { return any_op(function, is_convolution) || any_op(function, is_attention); }

CudnnDrafts draft_cudnn_calls(ir::Function& function, const CudnnTarget& target) {
  const bool convolutions = any_op(function, is_convolution);
  if (!has_cudnn_work(function)) return {};
  Drafter drafter(target, convolutions);
  rewrite(function, [&](ir::Builder& b, ir::Op& op) { return drafter.visit(b, op); });
  passes::decompose(function);
  passes::dce(function);
  CudnnDrafts alive;
  for (const auto& op : function.body.ops)
    if (auto draft = drafter.drafts.find(op.get()); draft != drafter.drafts.end()) alive.insert(std::move(*draft));
  return alive;
}

CudnnCalls plan_cudnn_calls(const CudnnDrafts& drafts) {
  CudnnCalls calls;
  for (const auto& [op, draft] : drafts) {
    calls[op] = draft(*op);
    THALWEG_CHECK(calls[op].plan, Unsupported, "cuDNN has no way to compute this call: ", op->attrs.string("call_target_name"));
  }
  return calls;
}

bool may_use_cudnn(const Options& options) {
  return options.device && runtime::cuda::is_cuda(*options.device) && libs::cuda::has_cudnn() && runtime::cuda::properties(*options.device).major >= 8;
}

CudnnTarget cudnn_target(const Options& options) { return {cudnn::Gpu(*options.device), options.deterministic, options.tf32}; }

void note_host_call(const ir::Op& op) {
  std::string why;
  if (!is_call(op, "thalweg.convolution") || libs::cuda::has_cudnn(&why)) return;
  static const int noted = std::fprintf(stderr, "thalweg: convolutions of programs for the GPU run on the host. %s\n", why.c_str());
  static_cast<void>(noted);
}

void add_cudnn_step(const CudnnCall& call, const ir::Op& op, int* temporaries, std::vector<Step>& steps) {
  Step step;
  step.name = call.plan->text();
  step.library = true;
  std::vector<std::pair<int64_t, int64_t>> places;  // id, offset in bytes
  for (const CudnnCall::Read& read : call.reads) {
    step.args.push_back({{read.base, -1}, read.base->type.bytes(), false, false});
    places.emplace_back(read.id, read.offset);
  }
  for (size_t i = 0; i < call.writes.size(); ++i) {
    step.args.push_back({{op.result(i), -1}, op.result(i)->type.bytes(), true, false});
    places.emplace_back(call.writes[i], 0);
  }
  const bool scratch = call.plan->workspace_bytes() > 0;
  if (scratch) step.args.push_back({{nullptr, (*temporaries)++}, static_cast<int64_t>(call.plan->workspace_bytes()), true, false});
  step.device_call = [plan = call.plan, places, scratch](void* const* args, void* native) {
    std::vector<cudnn::Argument> arguments;
    for (size_t i = 0; i < places.size(); ++i) arguments.push_back({places[i].first, static_cast<char*>(args[i]) + places[i].second});
    plan->run(arguments, scratch ? args[places.size()] : nullptr, native);
  };
  steps.push_back(std::move(step));
}

}  // namespace thalweg::compiler
