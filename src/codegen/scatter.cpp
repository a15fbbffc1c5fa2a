// Text of scattering kernels.
#include "codegen/scatter.h"

#include <algorithm>

#include "codegen/scalar_text.h"
#include "ir/dimension_numbers.h"
#include "support/error.h"

namespace thalweg::codegen {
namespace {

using ir::Dims;
using ir::OpCode;

std::string num(int64_t n) { return std::to_string(n); }
bool has(const Dims& list, int64_t v) { return std::find(list.begin(), list.end(), v) != list.end(); }

std::string pointer(const std::string& type, size_t i, bool constant) {
  const std::string full = (constant ? "const " : "") + type + "*";
  return full + " const p" + num(static_cast<int64_t>(i)) + " = (" + full + ")args[" + num(static_cast<int64_t>(i)) + "];\n";
}

// Loop variables of `dims`, named with `prefix`; the loops' index per dimension.
std::vector<Index> loop_vars(IndexSpace& space, const std::string& prefix, const Dims& dims, int depth) {
  std::vector<Index> out;
  for (size_t k = 0; k < dims.size(); ++k) out.push_back(space.var(space.add_atom({prefix + num(static_cast<int64_t>(k)), 0, dims[k] - 1, depth, -1, 1})));
  return out;
}

int64_t product(const Dims& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

}  // namespace

std::string decode_text(const std::string& from, const std::string& prefix, const Dims& dims) {
  std::string text;
  int64_t stride = 1;
  for (size_t k = dims.size(); k-- > 0;) {
    text +=
        "const int64_t " + prefix + num(static_cast<int64_t>(k)) + " = (" + from + ") / " + num(stride) + " % " + num(std::max<int64_t>(dims[k], 1)) + ";\n";
    stride *= std::max<int64_t>(dims[k], 1);
  }
  return text;
}

bool is_scatter(const ir::Op& op) {
  if (op.code != OpCode::Scatter && op.code != OpCode::SelectAndScatter) return false;
  for (const ir::Value* operand : op.operands)
    if (!has_scalar_type(operand->type.dtype)) return false;
  return true;
}

ScatterPlan plan_scatter(const ir::Op& op) {
  const size_t n = op.results.size();
  const ir::ScatterDims d = ir::scatter_dims(op.attrs);
  const ir::Value* indices = op.operand(n);
  const Dims &to = op.result()->type.dims, &updates = op.operand(n + 1)->type.dims, &index_dims = indices->type.dims;
  ScatterPlan plan;
  Dims &window = plan.window, &scatter = plan.scatter;
  for (size_t k = 0; k < updates.size(); ++k) (has(d.update_window_dims, static_cast<int64_t>(k)) ? window : scatter).push_back(updates[k]);
  plan.args.push_back({indices, NestArg::Role::Read, indices->type.bytes(), false});
  plan.pointers = pointer(scalar_type(indices->type.dtype), 0, true);
  for (size_t i = 0; i < n; ++i) {
    const ir::Value* update = op.operand(n + 1 + i);
    plan.pointers += pointer(scalar_type(update->type.dtype), plan.args.size(), true);
    plan.args.push_back({update, NestArg::Role::Read, update->type.bytes(), false});
  }
  for (size_t i = 0; i < n; ++i) {
    plan.pointers += pointer(scalar_type(op.result(i)->type.dtype), plan.args.size(), false);
    plan.args.push_back({op.result(i), NestArg::Role::Write, op.result(i)->type.bytes(), false});
  }
  IndexSpace& space = plan.space;
  std::vector<Index> w = loop_vars(space, "w", window, 2), s = loop_vars(space, "s", scatter, 1);
  for (size_t k = 0; k < window.size(); ++k) plan.window_vars.push_back(static_cast<int>(k));
  // Where one update goes: per operand dim the window's place plus the start that the indices give.
  std::vector<Index> place(to.size());
  size_t next = 0;
  for (size_t k = 0; k < to.size(); ++k)
    if (!has(d.inserted_window_dims, static_cast<int64_t>(k)) && !has(d.input_batching_dims, static_cast<int64_t>(k))) place[k] = w[next++];
  auto index_at = [&](int64_t component) {
    std::vector<Index> at = s;
    if (d.index_vector_dim < static_cast<int64_t>(index_dims.size())) at.insert(at.begin() + d.index_vector_dim, Index(component));
    return flatten(at, index_dims);
  };
  std::vector<Index> starts(to.size());
  std::string& inside = plan.inside;
  for (size_t c = 0; c < d.scatter_dims_to_operand_dims.size(); ++c) {
    const int64_t k = d.scatter_dims_to_operand_dims[c];
    auto [low, high] = space.range(place[k]);
    plan.whole &= high == 0;
    std::string start = "start" + num(static_cast<int64_t>(c));
    std::string raw = "p0[" + space.text(index_at(static_cast<int64_t>(c))) + "]";
    if (indices->type.dtype == ir::DType::U64) raw = "s_min(" + raw + ", (uint64_t)0x7fffffffffff)";
    plan.start += "const int64_t " + start + " = s_convert<int64_t>(" + raw + ");\n";
    starts[k] = space.var(space.add_atom({start, -(int64_t{1} << 60), int64_t{1} << 60, 1, -1, 1}));
    place[k] = place[k] + starts[k];
    inside += (inside.empty() ? "" : " && ") + ("(uint64_t)(" + space.text(place[k])) + ") < " + num(to[k]) + "ull";
  }
  for (size_t b = 0; b < d.input_batching_dims.size(); ++b) {
    int64_t position = d.scatter_indices_batching_dims[b];
    place[d.input_batching_dims[b]] = s[position > d.index_vector_dim ? position - 1 : position];
  }
  std::vector<Index> source(updates.size());
  size_t wi = 0, si = 0;
  for (size_t k = 0; k < updates.size(); ++k) source[k] = has(d.update_window_dims, static_cast<int64_t>(k)) ? w[wi++] : s[si++];
  plan.place = flatten(place, to), plan.source = flatten(source, updates);
  return plan;
}

NestCode write_scatter(const ir::Op& op) {
  const size_t n = op.results.size();
  ScatterPlan plan = plan_scatter(op);
  const Dims &window = plan.window, &scatter = plan.scatter;
  IndexSpace& space = plan.space;
  NestCode code;
  code.args = plan.args;
  Emitter e(space, [](const ir::Value*, const Index&) -> std::optional<Scalar> { return {}; }, 3);
  std::vector<Scalar> args;
  const std::string at = "[" + space.text(plan.place) + "]", from = "[" + space.text(plan.source) + "]";
  for (size_t i = 0; i < n; ++i) args.push_back(e.define(scalar_type(op.result(i)->type.dtype), "p" + num(static_cast<int64_t>(1 + n + i)) + at, 2));
  for (size_t i = 0; i < n; ++i) args.push_back(e.define(scalar_type(op.operand(n + 1 + i)->type.dtype), "p" + num(static_cast<int64_t>(1 + i)) + from, 2));
  std::vector<Scalar> results = e.apply(*op.regions[0], args);
  for (size_t i = 0; i < n; ++i) e.statement("p" + num(static_cast<int64_t>(1 + n + i)) + at + " = " + results[i].text + ";", 2);
  std::string element = e.flush(2), start = plan.start + e.flush(1), invariant = e.flush(0);
  if (!plan.inside.empty()) element = "if (" + plan.inside + ") {\n" + element + "}\n";
  const int64_t columns = window.empty() ? 1 : window.back(), block = 128, outer = window.empty() ? 1 : product(window) / std::max<int64_t>(columns, 1);
  const int64_t blocks = (columns + block - 1) / block;
  std::string inner = element, last = "w" + num(static_cast<int64_t>(window.size()) - 1);
  if (!window.empty())
    inner = std::string(plan.whole && columns > 4 ? "#pragma clang loop vectorize(assume_safety)\n" : "") + "for (int64_t " + last + " = low; " + last +
            " < high; ++" + last + ") {\n" + element + "}\n";
  Dims outer_window(window.begin(), window.empty() ? window.end() : window.end() - 1);
  const std::string loop = "for (int64_t s = 0; s < " + num(product(scatter)) + "; ++s) {\n" + decode_text("s", "s", scatter) + start;
  const std::string unit = "const int64_t low = u % " + num(blocks) + " * " + num(block) + ", high = low + " + num(block) + " < " + num(columns) + " ? low + " +
                           num(block) + " : " + num(columns) + ";\n(void)low; (void)high;\n" + decode_text("u / " + num(blocks), "w", outer_window);
  code.units = outer * blocks;
  if (plan.whole) {
    code.body = plan.pointers + invariant + "for (int64_t u = begin; u < end; ++u) {\n" + unit + loop + inner + "}\n}\n";
  } else {
    code.body = plan.pointers + invariant + "if (begin == 0) " + loop + "for (int64_t u = 0; u < " + num(code.units) + "; ++u) {\n" + unit + inner + "}\n}\n";
    code.units = 1;
  }
  code.unit_cost = 4.0 * static_cast<double>(op.operand(n + 1)->type.size()) / static_cast<double>(std::max<int64_t>(code.units, 1));
  return code;
}

bool is_small_update(const ir::Op& op) {
  constexpr int64_t kLarge = 1024, kRatio = 8;
  if (op.code != OpCode::DynamicUpdateSlice || !has_scalar_type(op.result()->type.dtype) || canonical(op.operand(0))->def) return false;
  const int64_t size = op.result()->type.size(), update = op.operand(1)->type.size();
  return size >= kLarge && update > 0 && update * kRatio <= size;
}

NestCode write_small_update(const ir::Op& op) {
  const Dims &dims = op.result()->type.dims, &sizes = op.operand(1)->type.dims;
  const std::string type = scalar_type(op.result()->type.dtype);
  NestCode code;
  std::string text = pointer(type, 0, true);
  code.args.push_back({op.operand(1), NestArg::Role::Read, op.operand(1)->type.bytes(), false});
  IndexSpace space;
  std::vector<Index> at = loop_vars(space, "u", sizes, 1);
  for (size_t k = 0; k < dims.size(); ++k) {
    const ir::Value* start = op.operand(k + 2);
    const std::string name = "start" + num(static_cast<int64_t>(k)), high = num(dims[k] - sizes[k]);
    text += pointer(scalar_type(start->type.dtype), k + 1, true);
    code.args.push_back({start, NestArg::Role::Read, start->type.bytes(), false});
    std::string value = "*p" + num(static_cast<int64_t>(k) + 1);
    if (start->type.dtype == ir::DType::U64) value = "s_min(" + value + ", (uint64_t)" + high + ")";
    text += "const int64_t " + name + " = s_min(s_max(s_convert<int64_t>(" + value + "), (int64_t)0), (int64_t)" + high + ");\n";
    at[k] = at[k] + space.var(space.add_atom({name, 0, dims[k] - sizes[k], 0, -1, 1}));
  }
  const std::string to = "p" + num(static_cast<int64_t>(dims.size()) + 1);
  text += pointer(type, dims.size() + 1, false);
  code.args.push_back({op.result(), NestArg::Role::Write, op.result()->type.bytes(), false});
  code.units = op.operand(1)->type.size();
  code.unit_cost = 2;
  code.body = text + "for (int64_t u = begin; u < end; ++u) {\n" + decode_text("u", "u", sizes) + to + "[" + space.text(flatten(at, dims)) + "] = p0[u];\n}\n";
  return code;
}

NestCode write_select_and_scatter(const ir::Op& op) {
  const ir::Value *operand = op.operand(0), *source = op.operand(1), *init = op.operand(2);
  const Dims &from = operand->type.dims, &out = source->type.dims;
  const ir::Window w = ir::window_of(op.attrs, operand->type.rank());
  const std::string type = scalar_type(operand->type.dtype);
  NestCode code;
  code.args = {{operand, NestArg::Role::Read, operand->type.bytes(), false},
               {source, NestArg::Role::Read, source->type.bytes(), false},
               {op.result(), NestArg::Role::Write, operand->type.bytes(), false}};
  std::string pointers = pointer(type, 0, true) + pointer(type, 1, true) + pointer(type, 2, false), first;
  if (init->def && init->def->code == OpCode::Constant) {
    first = literal_text(*init->def->attrs.literal("value"), 0);
  } else {
    code.args.push_back({init, NestArg::Role::Read, init->type.bytes(), false});
    pointers += pointer(type, 3, true), first = "*p3";
  }
  // Leading dims with windows of one element are independent: the units.
  size_t lead = 0;
  while (lead < from.size() && w.size[lead] == 1 && w.stride[lead] == 1 && w.pad_low[lead] == 0 && w.pad_high[lead] == 0) ++lead;
  const Dims outer(from.begin(), from.begin() + static_cast<int64_t>(lead)), rest(out.begin() + static_cast<int64_t>(lead), out.end()),
      windows(w.size.begin() + static_cast<int64_t>(lead), w.size.end());
  IndexSpace space;
  std::vector<Index> at = loop_vars(space, "o", outer, 1), o = loop_vars(space, "s", rest, 1), t = loop_vars(space, "t", windows, 2), place = at;
  std::string inside;
  for (size_t k = 0; k < rest.size(); ++k) {
    Index index = o[k] * w.stride[lead + k] + t[k] * w.window_dilation[lead + k] + Index(-w.pad_low[lead + k]);
    inside += (k ? " && " : "") + ("(uint64_t)(" + space.text(index)) + ") < " + num(from[lead + k]) + "ull";
    place.push_back(index);
  }
  std::vector<Index> source_at = at;
  source_at.insert(source_at.end(), o.begin(), o.end());
  Emitter select(space, [](const ir::Value*, const Index&) -> std::optional<Scalar> { return {}; }, 3);
  const Scalar pair[] = {{"best", 2}, {"x", 2}};
  std::string keep = select.apply(*op.regions[0], pair)[0].text, choose = select.flush(2), invariant = select.flush(0) + select.flush(1);
  const Scalar add[] = {{"p2[chosen]", 2}, {"p1[" + space.text(flatten(source_at, out)) + "]", 2}};
  std::string sum = select.apply(*op.regions[1], add)[0].text, combine = select.flush(2);
  invariant += select.flush(0) + select.flush(1);
  const int64_t plane = operand->type.size() / std::max<int64_t>(1, product(outer));
  std::string tap = "const int64_t where = " + space.text(flatten(place, from)) + ";\nconst " + type +
                    " x = p0[where];\nif (chosen < 0) { chosen = where; best = x; } else {\n" + choose + "if (!(" + keep +
                    ")) { chosen = where; best = x; }\n}\n";
  if (!inside.empty()) tap = "if (" + inside + ") {\n" + tap + "}\n";
  for (size_t k = windows.size(); k-- > 0;) {
    const std::string v = "t" + num(static_cast<int64_t>(k));
    tap = "for (int64_t " + v + " = 0; " + v + " < " + num(windows[k]) + "; ++" + v + ") {\n" + tap + "}\n";
  }
  code.units = product(outer);
  code.unit_cost = static_cast<double>(product(rest) * product(windows)) * 3;
  code.body = pointers + invariant + "for (int64_t u = begin; u < end; ++u) {\nfor (int64_t i = 0; i < " + num(plane) + "; ++i) p2[u * " + num(plane) +
              " + i] = " + first + ";\n" + decode_text("u", "o", outer) + "for (int64_t s = 0; s < " + num(product(rest)) + "; ++s) {\n" +
              decode_text("s", "s", rest) + "int64_t chosen = -1;\n" + type + " best = {};\n" + tap + "if (chosen >= 0) {\n" + combine + "p2[chosen] = " + sum +
              ";\n}\n}\n}\n";
  return code;
}

}  // namespace thalweg::codegen
