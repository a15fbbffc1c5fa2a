// Text of cumulative windows.
#include "codegen/scanning.h"

#include <algorithm>

#include "codegen/scalar_text.h"
#include "ir/dimension_numbers.h"

namespace thalweg::codegen {
namespace {

constexpr int64_t kPullable = 32;  // windows up to this many elements are computed where they are read
constexpr int64_t kColumns = 64;   // totals that one unit keeps

std::string num(int64_t n) { return std::to_string(n); }

// Padding counts as elements of the initial value, so only one that changes nothing when it is combined with itself can be taken once.
bool is_neutral(ir::OpCode combine, const ir::Value* init) {
  if (combine != ir::OpCode::Add && combine != ir::OpCode::Multiply && combine != ir::OpCode::Xor) return true;  // the others are idempotent
  if (!init->def || init->def->code != ir::OpCode::Constant) return false;
  return ir::to_double(*init->def->attrs.literal("value"), 0) == (combine == ir::OpCode::Multiply ? 1 : 0);
}

}  // namespace

std::optional<Scan> scan_of(const ir::Op& op) {
  if (op.code != ir::OpCode::ReduceWindow || op.results.size() != 1 || ir::is_complex(op.result()->type.dtype)) return {};
  const std::optional<Reducer> reducer = reducer_of(*op.regions[0]);
  if (!reducer || !is_neutral(reducer->op, op.operand(1))) return {};
  const ir::Dims& dims = op.operand(0)->type.dims;
  const ir::Window w = ir::window_of(op.attrs, op.operand(0)->type.rank());
  Scan scan;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (w.stride[d] != 1 || w.base_dilation[d] != 1 || w.window_dilation[d] != 1) return {};
    if (w.size[d] == 1) {
      if (w.pad_low[d] != 0 || w.pad_high[d] != 0) return {};
      (scan.length ? scan.inner : scan.outer) *= dims[d];
      continue;
    }
    const bool whole = w.size[d] == dims[d] && w.pad_low[d] + w.pad_high[d] == dims[d] - 1 && (w.pad_low[d] == 0 || w.pad_high[d] == 0);
    if (scan.length || !whole) return {};
    scan.length = dims[d], scan.from_end = w.pad_low[d] == 0;
  }
  if (scan.length <= kPullable || op.operand(0)->type.size() == 0) return {};
  return scan;
}

bool is_scan(const ir::Op& op) { return scan_of(op).has_value(); }

NestCode write_scan(const ir::Op& op) {
  const Scan scan = *scan_of(op);
  const Reducer reducer = *reducer_of(*op.regions[0]);
  const std::string type = scalar_type(op.result()->type.dtype), wide = reducer.memory_type();
  NestCode code;
  code.args = {{op.operand(0), NestArg::Role::Read, op.operand(0)->type.bytes(), false}, {op.result(), NestArg::Role::Write, op.result()->type.bytes(), false}};
  std::string pointers = "const " + type + "* const p0 = (const " + type + "*)args[0];\n" + type + "* const p1 = (" + type + "*)args[1];\n", first;
  const ir::Value* init = op.operand(1);
  if (init->def && init->def->code == ir::OpCode::Constant) {
    first = literal_text(*init->def->attrs.literal("value"), 0);
  } else {
    code.args.push_back({init, NestArg::Role::Read, init->type.bytes(), false});
    pointers += "const " + type + "* const p2 = (const " + type + "*)args[2];\n", first = "*p2";
  }
  if (reducer.memory_dtype() != reducer.dtype) first = "s_convert<float>(" + first + ")";
  const int64_t columns = std::min(kColumns, scan.inner), blocks = (scan.inner + columns - 1) / columns;
  const std::string inner = num(scan.inner), length = num(scan.length);
  const std::string place = scan.from_end ? length + " - 1 - k" : "k";
  code.units = scan.outer * blocks;
  code.unit_cost = 2.0 * static_cast<double>(scan.length * columns);
  code.body = pointers + "for (int64_t u = begin; u < end; ++u) {\nconst int64_t row = u / " + num(blocks) + " * " + length + ", low = u % " + num(blocks) +
              " * " + num(columns) + ", count = low + " + num(columns) + " < " + inner + " ? " + num(columns) + " : " + inner + " - low;\n" + wide + " total[" +
              num(columns) + "];\nfor (int64_t c = 0; c < count; ++c) total[c] = " + first + ";\nfor (int64_t k = 0; k < " + length +
              "; ++k) {\nconst int64_t at = (row + " + place + ") * " + inner + " + low;\n" +
              (columns >= 8 ? "#pragma clang loop vectorize(assume_safety)\n" : "") + "for (int64_t c = 0; c < count; ++c) {\nconst " + type +
              " x = p0[at + c];\n" + reducer.accumulate("total[c]", "x", false) + "\np1[at + c] = " + reducer.result("total[c]", false) + ";\n}\n}\n}\n";
  return code;
}

}  // namespace thalweg::codegen
