// Text of sorting kernels.
#include "codegen/sorting.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_set>

#include "codegen/scalar_text.h"

namespace thalweg::codegen {
namespace {

using ir::OpCode;

std::string num(int64_t n) { return std::to_string(n); }

// A comparator that reads nothing from outside and that scalars can express.
bool is_scalar_comparator(const ir::Block& region) {
  std::unordered_set<const ir::Value*> inside;
  for (const auto& arg : region.args) inside.insert(arg.get());
  for (const auto& op : region.ops) {
    if (op->code != OpCode::Return && op->code != OpCode::Constant && !is_elementwise(*op)) return false;
    for (const ir::Value* operand : op->operands)
      if (!inside.count(operand)) return false;
    for (const auto& result : op->results) {
      if (!has_scalar_type(result->type.dtype)) return false;
      inside.insert(result.get());
    }
  }
  return true;
}

constexpr const char* kMergeSort =
    "auto sort = [&](auto& self, int64_t low, int64_t high) -> void {\n"
    "if (high - low < 2) return;\n"
    "if (high - low == 2) {\n"
    "if (less(order[low + 1], order[low])) { const int32_t first = order[low]; order[low] = order[low + 1]; order[low + 1] = first; }\n"
    "return;\n}\n"
    "const int64_t middle = low + (high - low) / 2;\n"
    "self(self, low, middle);\nself(self, middle, high);\n"
    "int64_t a = low, b = middle, to = low;\n"
    "while (a < middle && b < high) spare[to++] = less(order[b], order[a]) ? order[b++] : order[a++];\n"
    "while (a < middle) spare[to++] = order[a++];\n"
    "for (int64_t k = low; k < to; ++k) order[k] = spare[k];\n"
    "};\n";

}  // namespace

SortRows sort_rows(const ir::Op& op) {
  const ir::Dims& dims = op.operand(0)->type.dims;
  int64_t dim = op.attrs.integer("dimension", -1);
  if (dim < 0) dim += static_cast<int64_t>(dims.size());
  if (dims.empty()) return {};
  SortRows rows{dims[static_cast<size_t>(dim)], 1};
  for (size_t d = static_cast<size_t>(dim) + 1; d < dims.size(); ++d) rows.stride *= dims[d];
  return rows;
}

std::string comparator_text(const ir::Op& op, int64_t stride, std::string& invariant) {
  IndexSpace space;
  Emitter emitter(space, [](const ir::Value*, const Index&) -> std::optional<Scalar> { return {}; }, 3);
  std::vector<Scalar> args;
  for (size_t k = 0; k < op.operands.size(); ++k)
    for (const char* which : {"i", "j"}) {
      const std::string place = stride == 1 ? which : std::string(which) + " * " + num(stride);
      args.push_back(emitter.define(scalar_type(op.operand(k)->type.dtype), "p" + num(static_cast<int64_t>(k)) + "[base + " + place + "]", 2));
    }
  const std::string verdict = emitter.apply(*op.regions[0], args)[0].text, statements = emitter.flush(2);
  invariant = emitter.flush(0) + emitter.flush(1);
  return "auto less = [&](int64_t i, int64_t j) -> bool {\n" + statements + "return " + verdict + ";\n};\n";
}

bool is_sort(const ir::Op& op) {
  if (op.code != OpCode::Sort || op.operands.empty() || op.operand(0)->type.size() == 0) return false;
  for (const ir::Value* operand : op.operands)
    if (!has_scalar_type(operand->type.dtype)) return false;
  return sort_rows(op).length < std::numeric_limits<int32_t>::max() && is_scalar_comparator(*op.regions[0]);
}

NestCode write_sort(const ir::Op& op) {
  const auto n = static_cast<int64_t>(op.operands.size());
  const SortRows rows = sort_rows(op);
  NestCode code;
  std::string pointers;
  for (int64_t i = 0; i < 2 * n; ++i) {
    const bool input = i < n;
    const ir::Value* value = input ? op.operand(static_cast<size_t>(i)) : op.result(static_cast<size_t>(i - n));
    const std::string type = (input ? "const " : "") + scalar_type(value->type.dtype) + "*";
    pointers += type + " const p" + num(i) + " = (" + type + ")args[" + num(i) + "];\n";
    code.args.push_back({value, input ? NestArg::Role::Read : NestArg::Role::Write, value->type.bytes(), false});
  }
  code.units = op.operand(0)->type.size() / rows.length;
  code.args.push_back({nullptr, NestArg::Role::Partial, code.units * rows.length * 8, false});
  code.unit_cost = 10.0 * static_cast<double>(rows.length) * std::max(1.0, std::log2(static_cast<double>(rows.length)));
  std::string invariant;
  const std::string less = comparator_text(op, rows.stride, invariant), length = num(rows.length), stride = num(rows.stride);
  std::string moves;
  for (int64_t i = 0; i < n; ++i) moves += "p" + num(n + i) + "[base + i * " + stride + "] = p" + num(i) + "[base + order[i] * " + stride + "];\n";
  code.body = pointers + "int32_t* const scratch = (int32_t*)args[" + num(2 * n) + "];\n" + invariant + "for (int64_t u = begin; u < end; ++u) {\n" +
              "const int64_t base = u / " + stride + " * " + num(rows.stride * rows.length) + " + u % " + stride + ";\nint32_t* const order = scratch + u * " +
              num(2 * rows.length) + "; int32_t* const spare = order + " + length + ";\nfor (int64_t i = 0; i < " + length + "; ++i) order[i] = (int32_t)i;\n" +
              less + kMergeSort + "sort(sort, 0, " + length + ");\nfor (int64_t i = 0; i < " + length + "; ++i) {\n" + moves + "}\n}\n";
  return code;
}

}  // namespace thalweg::codegen
