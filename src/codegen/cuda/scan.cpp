// Text of running totals for GPUs.
#include "codegen/cuda/scan.h"

#include "codegen/scalar_text.h"
#include "codegen/scanning.h"

namespace thalweg::codegen::cuda {
namespace {

constexpr int64_t kOwn = 4;  // neighbours that a lane adds up by itself

std::string num(int64_t n) { return std::to_string(n); }

}  // namespace

NestCode write_scan(const ir::Op& op, int multiprocessors) {
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
  code.units = scan.outer * scan.inner;
  if (scan.inner < 8 || code.units < int64_t{multiprocessors} * 256)
    while (code.lanes < 256 && code.lanes * kOwn < scan.length) code.lanes *= 2;
  code.shared_bytes = code.lanes > 32 ? static_cast<int>(code.lanes / 32 * ir::byte_size(reducer.memory_dtype())) : 0;
  code.unit_cost = 2.0 * static_cast<double>(scan.length);
  const std::string inner = num(scan.inner), length = num(scan.length), lanes = num(code.lanes), own = num(kOwn),
                    at = "[base + " + (scan.from_end ? "(" + length + " - 1 - i)" : std::string("i")) + " * " + inner + "]";
  const std::string each =
      "#pragma unroll\nfor (int j = 0; j < " + own + "; ++j) {\nconst int64_t i = low + lane * " + own + " + j;\nif (i < " + length + ") {\n";
  code.body = pointers + "for (int64_t u = begin; u < end; ++u) {\nconst int64_t base = u / " + inner + " * " + num(scan.length * scan.inner) + " + u % " +
              inner + ";\n" + wide + " carry = " + first + ";\nfor (int64_t low = 0; low < " + length + "; low += " + num(code.lanes * kOwn) + ") {\n" + wide +
              " totals[" + own + "], sum = " + reducer.identity(false) + ", all;\n" + each + reducer.accumulate("sum", "p0" + at, false) +
              "\ntotals[j] = sum;\n}\n}\n" + wide + " earlier = before<" + lanes + ">(sum, (" + wide + ")" + reducer.identity(false) +
              ", lane, shared, [](const " + wide + "& x, const " + wide + "& y) { " + wide + " z = x; " + reducer.merge("z", "y", false) +
              " return z; }, all);\n" + "{ " + wide + " z = carry; " + reducer.merge("z", "earlier", false) + " earlier = z; }\n" + each + wide +
              " z = earlier; " + reducer.merge("z", "totals[j]", false) + "\np1" + at + " = " + reducer.result("z", false) + ";\n}\n}\n" +
              reducer.merge("carry", "all", false) + "\n}\n}\n";
  return code;
}

}  // namespace thalweg::codegen::cuda
