// Steps of heavy ops.
#include "compiler/heavy.h"

#include <cstring>
#include <map>
#include <sstream>

#include "codegen/cuda/scan.h"
#include "codegen/cuda/scatter.h"
#include "codegen/cuda/sort.h"
#include "codegen/expression.h"
#include "codegen/scalar_text.h"
#include "codegen/scanning.h"
#include "codegen/scatter.h"
#include "codegen/sorting.h"
#include "compiler/assembly.h"
#include "compiler/cuda_steps.h"
#include "compiler/interpreted.h"
#include "compiler/library_steps.h"
#include "compiler/rewrite.h"
#include "libs/cpu/opaque.h"
#include "runtime/cuda/cuda_device.h"
#include "support/error.h"

namespace thalweg::compiler {
namespace {

using ir::DType;
using ir::OpCode;

StepArg read_arg(const ir::Value* value) { return {{codegen::canonical(value), -1}, value->type.is_tensor() ? value->type.bytes() : 0, false, false}; }
StepArg write_arg(const ir::Value* value) { return {{value, -1}, value->type.is_tensor() ? value->type.bytes() : 0, true, false}; }

const std::string& target_of(const ir::Op& op) { return op.attrs.string("call_target_name"); }

}  // namespace

const ir::Attributes& config_of(const ir::Op& op) {
  static const ir::Attributes empty;
  const ir::Attribute* config = op.attrs.find("backend_config");
  if (config)
    if (auto dict = std::get_if<std::shared_ptr<const ir::Attributes>>(&config->value)) return **dict;
  return empty;
}

namespace {

std::string attribute_text(const ir::Attribute& attribute) {
  if (auto text = std::get_if<std::string>(&attribute.value)) return *text;
  if (auto word = std::get_if<ir::EnumWord>(&attribute.value)) return word->word;
  if (auto flag = std::get_if<bool>(&attribute.value)) return *flag ? "1" : "0";
  if (auto integer = std::get_if<int64_t>(&attribute.value)) return std::to_string(*integer);
  std::ostringstream out;
  out.precision(17);
  if (auto real = std::get_if<double>(&attribute.value)) {
    out << *real;
  } else if (auto ints = std::get_if<ir::Dims>(&attribute.value)) {
    for (size_t i = 0; i < ints->size(); ++i) out << (i ? "," : "") << (*ints)[i];
  } else {
    raise(ErrorKind::Unsupported, "a library call's configuration holds text, numbers, flags and lists of integers only");
  }
  return out.str();
}

// The text that a library call gets: the config itself or its only entry `config`; else "name=value;" for each entry, sorted by name, as opaque.h says.
std::string config_text(const ir::Op& op) {
  const ir::Attribute* config = op.attrs.find("backend_config");
  if (config)
    if (auto text = std::get_if<std::string>(&config->value)) return *text;
  const ir::Attributes& entries = config_of(op);
  if (entries.size() == 1 && entries.has("config")) return entries.string("config");
  std::string out;
  for (const auto& [name, value] : entries) out += name + "=" + attribute_text(value) + ";";
  return out;
}

// The texts of an op that kernels compute, to be run in order; they share temporaries of one number.
void add_parts(const ir::Op& op, std::vector<codegen::NestCode> codes, const HeavyContext& context, std::vector<Step>& steps) {
  std::map<int, int> scratch;
  for (codegen::NestCode& code : codes) {
    if (code.units == 0) continue;
    KernelPart part;
    part.what = std::string(ir::name(op.code)) + " " + ir::to_string(op.result()->type);
    part.body = std::move(code.body), part.units = code.units, part.unit_cost = code.unit_cost, part.lanes = code.lanes, part.shared_bytes = code.shared_bytes;
    for (const codegen::NestArg& a : code.args) {
      const bool write = a.role != codegen::NestArg::Role::Read;
      BufferKey buffer{a.value && !write ? codegen::canonical(a.value) : a.value, -1};
      if (!a.value) {
        auto [it, fresh] = scratch.try_emplace(a.scratch, *context.temporaries);
        if (fresh) ++*context.temporaries;
        buffer.temporary = it->second;
      }
      part.args.push_back({buffer, a.bytes, write, false});
    }
    Step step;
    step.parts.push_back(std::move(part));
    steps.push_back(std::move(step));
  }
}

void add_part(const ir::Op& op, codegen::NestCode code, const HeavyContext& context, std::vector<Step>& steps) {
  std::vector<codegen::NestCode> codes;
  codes.push_back(std::move(code));
  add_parts(op, std::move(codes), context, steps);
}

void add_product(const ProductPlan& plan, const ir::Op& op, std::vector<Step>& steps) {
  Step step;
  step.name = "product";
  step.gemm = plan.command;
  step.args = {read_arg(plan.lhs), read_arg(plan.rhs), write_arg(op.result())};
  step.args[0].bytes = plan.lhs->type.bytes(), step.args[1].bytes = plan.rhs->type.bytes();
  steps.push_back(std::move(step));
}

// `to` starts as the elements of `from`.
void add_copy(const ir::Value* from, const ir::Value* to, std::vector<Step>& steps) {
  const size_t bytes = static_cast<size_t>(to->type.bytes());
  if (bytes == 0) return;
  Step copy;
  copy.name = "copy";
  copy.copies = true;
  copy.call = [bytes](void* const* args) {
    if (args[0] != args[1]) std::memcpy(args[1], args[0], bytes);
  };
  copy.args = {read_arg(from), write_arg(to)};
  steps.push_back(std::move(copy));
}

void add_scatter(const ir::Op& op, const HeavyContext& context, std::vector<Step>& steps) {
  if (op.code == OpCode::SelectAndScatter)
    return add_part(op, on_gpu(*context.options) ? codegen::cuda::write_select_and_scatter(op) : codegen::write_select_and_scatter(op), context, steps);
  for (size_t i = 0; i < op.results.size(); ++i) add_copy(op.operand(i), op.result(i), steps);
  if (op.result()->type.size() == 0 || op.operand(op.results.size() + 1)->type.size() == 0) return;
  if (on_gpu(*context.options)) return add_parts(op, codegen::cuda::write_scatter(op), context, steps);
  add_part(op, codegen::write_scatter(op), context, steps);
}

template <class T>
void check_range(const T* values, int64_t n, int64_t low, int64_t high, const std::string& message) {
  for (int64_t i = 0; i < n; ++i) {
    const bool below = std::is_signed_v<T> && static_cast<int64_t>(values[i]) < low;
    const bool above = std::is_signed_v<T> ? static_cast<int64_t>(values[i]) >= high : static_cast<uint64_t>(values[i]) >= static_cast<uint64_t>(high);
    THALWEG_CHECK(!below && !above, Index, message, "; index ", +values[i], " is out of range [", low, ", ", high, ")");
  }
}

using Check = void (*)(const void* values, int64_t n, int64_t low, int64_t high, const std::string& message);

template <class T>
void check_indices(const void* values, int64_t n, int64_t low, int64_t high, const std::string& message) {
  check_range(static_cast<const T*>(values), n, low, high, message);
}

Check index_check(DType dtype) {
  switch (dtype) {
    case DType::S8:
      return check_indices<int8_t>;
    case DType::S16:
      return check_indices<int16_t>;
    case DType::S32:
      return check_indices<int32_t>;
    case DType::S64:
      return check_indices<int64_t>;
    case DType::U8:
      return check_indices<uint8_t>;
    case DType::U16:
      return check_indices<uint16_t>;
    case DType::U32:
      return check_indices<uint32_t>;
    case DType::U64:
      return check_indices<uint64_t>;
    default:
      raise(ErrorKind::Unsupported, "thalweg.check_index takes integers, not ", ir::name(dtype));
  }
}

// True when a value with these exponent bits all ones is among the `n` values.
template <class Bits>
bool any_not_finite(const void* values, int64_t n, Bits exponent) {
  const Bits* v = static_cast<const Bits*>(values);
  Bits bad = 0;
  for (int64_t i = 0; i < n; ++i) bad |= static_cast<Bits>((v[i] & exponent) == exponent);
  return bad != 0;
}

bool not_finite(DType dtype, const void* values, int64_t n) {
  switch (dtype) {
    case DType::BF16:
      return any_not_finite<uint16_t>(values, n, 0x7f80);
    case DType::F16:
      return any_not_finite<uint16_t>(values, n, 0x7c00);
    case DType::F32:
      return any_not_finite<uint32_t>(values, n, 0x7f800000u);
    case DType::F64:
      return any_not_finite<uint64_t>(values, n, 0x7ff0000000000000ull);
    default:
      raise(ErrorKind::Unsupported, "thalweg.check_finite takes floats, not ", ir::name(dtype));
  }
}

void add_check(const ir::Op& op, std::vector<Step>& steps) {
  Step step;
  step.name = target_of(op);
  step.fallible = true;
  step.args = {read_arg(op.operand(0)), write_arg(op.result())};
  const ir::Type& type = op.operand(0)->type;
  const int64_t n = type.size();
  const ir::Attributes& config = config_of(op);
  const std::string message = config.string("message", "");
  if (step.name == "thalweg.check_index") {
    Check check = index_check(type.dtype);
    const int64_t low = config.integer("low"), high = config.integer("high");
    step.call = [=](void* const* args) {
      check(args[0], n, low, high, message);
      *static_cast<uint8_t*>(args[1]) = 1;
    };
  } else {
    const DType dtype = type.dtype;
    step.call = [=](void* const* args) {
      THALWEG_CHECK(!not_finite(dtype, args[0], n), NotFinite, message);
      *static_cast<uint8_t*>(args[1]) = 1;
    };
  }
  steps.push_back(std::move(step));
}

void add_opaque(const ir::Op& op, std::vector<Step>& steps) {
  Step step;
  step.name = target_of(op);
  step.fallible = true;
  (step.name == "thalweg.aten" ? step.opaque : step.library) = true;
  std::vector<libs::cpu::TensorArg> inputs, outputs;
  for (const ir::Value* operand : op.operands) {
    step.args.push_back(read_arg(operand));
    inputs.push_back({nullptr, static_cast<int>(operand->type.dtype), operand->type.dims});
  }
  for (const auto& result : op.results) {
    step.args.push_back(write_arg(result.get()));
    outputs.push_back({nullptr, static_cast<int>(result->type.dtype), result->type.dims});
  }
  step.call = [target = step.name, config = config_text(op), inputs, outputs](void* const* args) {
    const libs::cpu::OpaqueFn* fn = libs::cpu::find_opaque(target);
    THALWEG_CHECK(fn, Missing, "no library offers ", target, " any more");
    std::vector<libs::cpu::TensorArg> in = inputs, out = outputs;
    for (size_t i = 0; i < in.size(); ++i) in[i].data = args[i];
    for (size_t i = 0; i < out.size(); ++i) out[i].data = args[in.size() + i];
    (*fn)(config, in, out);
  };
  steps.push_back(std::move(step));
}

// Bytes of a value for the boundary between a program and the programs inside it.
size_t bytes_of(const ir::Value* value) { return static_cast<size_t>(value->type.is_tensor() ? value->type.bytes() : 0); }

std::vector<const ir::Value*> operands_and_captures(const ir::Op& op) {
  std::vector<const ir::Value*> values(op.operands.begin(), op.operands.end());
  for (const ir::Value* value : captured_values(op)) values.push_back(value);
  return values;
}

// if and case: the chosen branch's program writes the results.
void add_branch(const ir::Op& op, const HeavyContext& context, std::vector<Step>& steps) {
  auto captured = captured_values(op);
  auto programs = std::make_shared<std::vector<exec::Program>>();
  for (const auto& region : op.regions) programs->push_back(compile_program(region_function(*region, captured), *context.options, context.module));
  Step step;
  step.name = std::string(ir::name(op.code));
  step.fallible = true;
  for (const ir::Value* value : operands_and_captures(op)) step.args.push_back(read_arg(value));
  for (const auto& result : op.results) step.args.push_back(write_arg(result.get()));
  const bool is_if = op.code == OpCode::If;
  step.call = [=, inputs = captured.size()](void* const* args) {
    int64_t branch = is_if ? (*static_cast<const uint8_t*>(args[0]) ? 0 : 1) : *static_cast<const int32_t*>(args[0]);
    const int64_t count = static_cast<int64_t>(programs->size());
    if (branch < 0 || branch >= count) branch = count - 1;
    exec::NestedRun chosen((*programs)[static_cast<size_t>(branch)]);
    chosen(args + 1, args + 1 + inputs);
  };
  steps.push_back(std::move(step));
}

void add_while(const ir::Op& op, const HeavyContext& context, std::vector<Step>& steps) {
  auto captured = captured_values(op);
  auto condition = std::make_shared<exec::Program>(compile_program(region_function(*op.regions[0], captured), *context.options, context.module));
  auto body = std::make_shared<exec::Program>(compile_program(region_function(*op.regions[1], captured), *context.options, context.module));
  Step step;
  step.name = "while";
  step.fallible = true;
  std::vector<size_t> bytes;
  for (const ir::Value* value : operands_and_captures(op)) step.args.push_back(read_arg(value));
  for (const auto& result : op.results) step.args.push_back(write_arg(result.get())), bytes.push_back(bytes_of(result.get()));
  step.call = [=, states = op.operands.size(), extra = captured.size()](void* const* args) {
    // A state that the body computes in the place of its own argument stays in the result's buffer; others go back and forth between it and a second one.
    std::vector<std::vector<std::byte>> second(states);
    std::vector<void*> now(states + extra), next(states);
    for (size_t i = 0; i < states; ++i) {
      now[i] = next[i] = args[states + extra + i];
      if (body->outputs[i].alias != static_cast<int>(i)) second[i].resize(bytes[i]), next[i] = second[i].data();
      if (bytes[i]) std::memcpy(now[i], args[i], bytes[i]);
    }
    for (size_t i = 0; i < extra; ++i) now[states + i] = args[states + i];
    exec::NestedRun test(*condition), turn(*body);
    uint8_t go = 0;
    void* go_at = &go;
    while (test(now.data(), &go_at), go) {
      turn(now.data(), next.data());
      for (size_t i = 0; i < states; ++i) std::swap(now[i], next[i]);
    }
    for (size_t i = 0; i < states; ++i)
      if (now[i] != args[states + extra + i] && bytes[i]) std::memcpy(args[states + extra + i], now[i], bytes[i]);
  };
  steps.push_back(std::move(step));
}

bool known_custom_call(const ir::Op& op) { return is_check(op) || libs::cpu::find_opaque(target_of(op)) != nullptr; }

bool control_flow(const ir::Op& op) { return op.code == OpCode::If || op.code == OpCode::Case || op.code == OpCode::While; }

}  // namespace

bool is_check(const ir::Op& op) {
  if (op.code != OpCode::CustomCall) return false;
  const std::string& target = target_of(op);
  return target == "thalweg.check_index" || target == "thalweg.check_finite";
}

namespace {

const CudnnCall* cudnn_call(const ir::Op& op, const HeavyContext& context) {
  if (!context.cudnn_calls) return nullptr;
  auto call = context.cudnn_calls->find(&op);
  return call == context.cudnn_calls->end() ? nullptr : &call->second;
}

}  // namespace

std::optional<std::vector<const ir::Value*>> heavy_operands(const ir::Op& op, const HeavyContext& context) {
  if (auto product = context.products->find(&op); product != context.products->end()) return {{product->second.lhs, product->second.rhs}};
  if (const CudnnCall* call = cudnn_call(op, context)) {
    std::vector<const ir::Value*> bases;
    for (const CudnnCall::Read& read : call->reads) bases.push_back(read.base);
    return bases;
  }
  if (codegen::is_scan(op)) return {{op.operand(0), op.operand(1)}};
  if (codegen::is_small_update(op)) return std::vector<const ir::Value*>(op.operands.begin(), op.operands.end());
  if (codegen::is_pullable(op) || codegen::is_contraction(op)) return {};
  if (op.code == OpCode::Reduce) {
    bool kernels = true;
    for (const ir::Value* operand : op.operands) kernels &= codegen::has_scalar_type(operand->type.dtype);
    if (kernels) return {};
  }
  return operands_and_captures(op);
}

void add_heavy_steps(const ir::Op& op, const HeavyContext& context, std::vector<Step>& steps) {
  const bool gpu = on_gpu(*context.options);
  if (auto product = context.products->find(&op); product != context.products->end())
    return gpu ? add_cuda_product(product->second, op, context, steps) : add_product(product->second, op, steps);
  if (const CudnnCall* call = cudnn_call(op, context)) return add_cudnn_step(*call, op, context.temporaries, steps);
  if (codegen::is_scatter(op)) return add_scatter(op, context, steps);
  if (codegen::is_scan(op)) {
    return add_part(op, gpu ? codegen::cuda::write_scan(op, runtime::cuda::properties(*context.options->device).multiprocessors) : codegen::write_scan(op),
                    context, steps);
  }
  if (codegen::is_small_update(op)) {
    add_copy(op.operand(0), op.result(), steps);
    return add_part(op, codegen::write_small_update(op), context, steps);
  }
  if (codegen::is_sort(op)) return gpu ? add_parts(op, codegen::cuda::write_sort(op), context, steps) : add_part(op, codegen::write_sort(op), context, steps);
  if (is_check(op)) return gpu ? add_cuda_check(op, config_of(op).string("message", ""), context, steps) : add_check(op, steps);
  if (op.code == OpCode::CustomCall && known_custom_call(op)) {
    if (gpu) note_host_call(op);
    return add_opaque(op, steps);
  }
  if (op.code == OpCode::While) return gpu ? add_cuda_while(op, context, steps) : add_while(op, context, steps);
  if (control_flow(op)) return gpu ? add_cuda_branch(op, context, steps) : add_branch(op, context, steps);
  if (add_library_step(op, steps)) return;
  add_interpreted(op, context, steps);
}

}  // namespace thalweg::compiler
