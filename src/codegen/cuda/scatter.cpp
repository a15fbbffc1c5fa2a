// Text of scattering kernels for GPUs.
#include "codegen/cuda/scatter.h"

#include <algorithm>
#include <bit>

#include "codegen/cuda/sort.h"
#include "codegen/scalar_text.h"
#include "codegen/scatter.h"
#include "ir/dimension_numbers.h"

namespace thalweg::codegen::cuda {
namespace {

constexpr int64_t kRun = 32;     // sorted updates that one group puts together
constexpr int kMostLanes = 256;  // threads over a window
constexpr int kOneGroup = 1024;  // threads where windows may overlap
const char* const kNowhere = "0x7fffffffffffffffll";

std::string num(int64_t n) { return std::to_string(n); }

int64_t product(const ir::Dims& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

// A region that gives the update.
bool is_assignment(const ir::Op& op) {
  const size_t n = op.results.size();
  const auto& results = op.regions[0]->terminator().operands;
  for (size_t i = 0; i < n; ++i)
    if (results[i] != op.regions[0]->args[n + i].get()) return false;
  return true;
}

class ScatterWriter {
 public:
  explicit ScatterWriter(const ir::Op& op) : op_(op), n_(op.results.size()), plan_(plan_scatter(op)) {
    updates_ = product(plan_.scatter), window_ = product(plan_.window);
    lanes_ = static_cast<int>(std::min<int64_t>(kMostLanes, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(window_)))));
    blocks_ = (window_ + lanes_ - 1) / lanes_;
    // Where an update goes without the window's part, and that part.
    place_.constant = plan_.place.constant;
    for (const auto& term : plan_.place.terms) {
      const bool of_window = std::find(plan_.window_vars.begin(), plan_.window_vars.end(), term.first) != plan_.window_vars.end();
      (of_window ? inside_ : place_).terms.push_back(term);
    }
  }

  std::vector<NestCode> write() {
    if (!plan_.whole) return {overlapping()};
    if (updates_ == 1 || op_.attrs.boolean("unique_indices", false)) return {direct()};
    NestCode keys = write_keys();
    keys_arg_ = {nullptr, NestArg::Role::Partial, updates_ * 8, false, 0};
    SortKeys sort;
    sort.length = updates_;
    sort.args = {keys_arg_};
    sort.head = "const int64_t* const keys = (const int64_t*)args[0];\n";
    sort.less = "auto less = [&](int64_t i, int64_t j) { return keys[i] < keys[j]; };\n";
    SortedPositions sorted = sort_positions(sort, 1);
    std::vector<NestCode> codes = {std::move(keys)};
    for (NestCode& code : sorted.codes) codes.push_back(std::move(code));
    positions_ = sorted.positions, offset_ = sorted.offset;
    const std::optional<Reducer> reducer = n_ == 1 ? reducer_of(*op_.regions[0]) : std::nullopt;
    if (reducer) {
      codes.push_back(runs(*reducer));
      codes.push_back(cut_runs(*reducer));
    } else {
      codes.push_back(sequence());
    }
    return codes;
  }

 private:
  std::string text(const Index& index) const { return plan_.space.text(index); }
  std::string decoded() const { return decode_text("s", "s", plan_.scatter); }
  NestCode start_code(int64_t units, int lanes, double cost) const {
    NestCode code;
    code.args = plan_.args;
    code.units = units, code.lanes = lanes, code.unit_cost = cost;
    return code;
  }
  // The window's element of this lane.
  std::string element_of(const std::string& block) const {
    return "const int64_t w = " + block + " * " + num(lanes_) + " + lane;\nif (w < " + num(window_) + ") {\n" + decode_text("w", "w", plan_.window) +
           "const int64_t within = " + text(inside_) + ";\n";
  }
  std::string sorted_pointers(size_t first) const {
    return "const int64_t* const keys = (const int64_t*)args[" + num(static_cast<int64_t>(first)) + "];\nconst int* const sorted = (const int*)args[" +
           num(static_cast<int64_t>(first) + 1) + "] + " + num(offset_) + ";\nauto key_at = [&](int64_t q) { return keys[sorted[q]]; };\n";
  }

  // Statements that put update `s` into the results at `key` + `within`; `invariant` gets what belongs before.
  std::string combine(std::string& invariant) {
    Emitter e(plan_.space, [](const ir::Value*, const Index&) -> std::optional<Scalar> { return {}; }, 3);
    std::vector<Scalar> args;
    for (size_t i = 0; i < n_; ++i)
      args.push_back(e.define(scalar_type(op_.result(i)->type.dtype), "p" + num(static_cast<int64_t>(1 + n_ + i)) + "[key + within]", 2));
    for (size_t i = 0; i < n_; ++i)
      args.push_back(e.define(scalar_type(op_.operand(n_ + 1 + i)->type.dtype), "p" + num(static_cast<int64_t>(1 + i)) + "[" + text(plan_.source) + "]", 2));
    const std::vector<Scalar> results = e.apply(*op_.regions[0], args);
    for (size_t i = 0; i < n_; ++i) e.statement("p" + num(static_cast<int64_t>(1 + n_ + i)) + "[key + within] = " + results[i].text + ";", 2);
    std::string body = e.flush(2);
    invariant = e.flush(0) + e.flush(1);
    return body;
  }

  // Windows that may overlap: one update after the other, each by all threads of one group.
  NestCode overlapping() {
    NestCode code = start_code(1, kOneGroup, 4.0 * static_cast<double>(updates_ * window_));
    std::string invariant, body = combine(invariant);
    body = "const int64_t key = " + text(place_) + ", within = " + text(inside_) + ";\n" + body;
    if (!plan_.inside.empty()) body = "if (" + plan_.inside + ") {\n" + body + "}\n";
    code.body = plan_.pointers + invariant + "for (int64_t u = begin; u < end; ++u) {\nfor (int64_t s = 0; s < " + num(updates_) + "; ++s) {\n" + decoded() +
                plan_.start + "for (int64_t w = lane; w < " + num(window_) + "; w += " + num(kOneGroup) + ") {\n" + decode_text("w", "w", plan_.window) + body +
                "}\ngroup_barrier<" + num(kOneGroup) + ">();\n}\n}\n";
    return code;
  }

  // Updates of different places: each for itself.
  NestCode direct() {
    NestCode code = start_code(updates_ * blocks_, lanes_, 8);
    std::string invariant, body = combine(invariant);
    body = "const int64_t key = " + text(place_) + ";\n" + body;
    if (!plan_.inside.empty()) body = "if (" + plan_.inside + ") {\n" + body + "}\n";
    code.body = plan_.pointers + invariant + "for (int64_t u = begin; u < end; ++u) {\nconst int64_t s = u / " + num(blocks_) + ";\n" + decoded() +
                plan_.start + element_of("u % " + num(blocks_)) + body + "}\n}\n";
    return code;
  }

  // The place of each update; one beyond all places for those that lie outside.
  NestCode write_keys() {
    NestCode code;
    code.args = {plan_.args[0], {nullptr, NestArg::Role::Partial, updates_ * 8, false, 0}};
    code.units = updates_, code.unit_cost = 8;
    const std::string type = "const " + scalar_type(plan_.args[0].value->type.dtype) + "*";
    std::string key = text(place_);
    // The window's variables are 0 in conditions on starts, where their extent is 1.
    if (!plan_.inside.empty()) key = plan_.inside + " ? " + key + " : " + kNowhere;
    code.body = type + " const p0 = (" + type +
                ")args[0];\nint64_t* const keys = (int64_t*)args[1];\nfor (int64_t u = begin; u < end; ++u) {\nconst int64_t s = u;\n" + decoded() +
                plan_.start + "keys[u] = " + key + ";\n}\n";
    return code;
  }

  // Any region: each run of one place in order; of assignments only the last.
  NestCode sequence() {
    NestCode code = start_code(updates_ * blocks_, lanes_, 8);
    code.args.push_back(keys_arg_), code.args.push_back(positions_);
    std::string invariant;
    const std::string body = combine(invariant), count = num(updates_);
    const bool last = is_assignment(op_);
    const std::string mine = last ? "q + 1 == " + count + " || key_at(q + 1) != key" : "q == 0 || key_at(q - 1) != key";
    const std::string one = "const int64_t s = sorted[q];\n" + decoded() + body;
    code.body = plan_.pointers + sorted_pointers(plan_.args.size()) + invariant + "for (int64_t u = begin; u < end; ++u) {\nint64_t q = u / " + num(blocks_) +
                ";\nconst int64_t key = key_at(q);\nif (key != " + kNowhere + " && (" + mine + ")) {\n" + element_of("u % " + num(blocks_)) +
                (last ? one : "do {\n" + one + "} while (++q < " + count + " && key_at(q) == key);\n") + "}\n}\n}\n";
    return code;
  }

  std::string chunk_head() const {
    return "const int64_t chunk = u / " + num(blocks_) + ", first = chunk * " + num(kRun) + ", last = first + " + num(kRun) + " < " + num(updates_) +
           " ? first + " + num(kRun) + " : " + num(updates_) + ";\n" + element_of("u % " + num(blocks_));
  }
  std::string add_to_result(const Reducer& reducer) const {
    const bool narrow = reducer.memory_dtype() != reducer.dtype;
    const std::string place = "p2[key + within]";
    return "{ " + reducer.memory_type() + " total = " + (narrow ? "s_convert<float>(" + place + ")" : place) + "; " + reducer.merge("total", "sum", false) +
           " " + place + " = " + reducer.result("total", false) + "; }\n";
  }
  NestArg partial_arg(const Reducer& reducer) const {
    return {nullptr, NestArg::Role::Partial, (updates_ + kRun - 1) / kRun * 2 * window_ * ir::byte_size(reducer.memory_dtype()), false, 2};
  }

  // Each group takes kRun sorted updates. Sums of runs that it has alone go to the result; its first and last run, where others have parts of them, to the
  // temporary.
  NestCode runs(const Reducer& reducer) {
    const int64_t chunks = (updates_ + kRun - 1) / kRun;
    NestCode code = start_code(chunks * blocks_, lanes_, 8 * kRun);
    code.args.push_back(keys_arg_), code.args.push_back(positions_), code.args.push_back(partial_arg(reducer));
    const std::string wide = reducer.memory_type(), count = num(updates_);
    code.body = plan_.pointers + sorted_pointers(3) + wide + "* const parts = (" + wide + "*)args[5];\nfor (int64_t u = begin; u < end; ++u) {\n" +
                chunk_head() + "for (int64_t q = first; q < last;) {\nconst int64_t key = key_at(q);\nif (key == " + kNowhere +
                ") break;\nconst bool open = q == first && q > 0 && key_at(q - 1) == key;\n" + wide + " sum = " + reducer.identity(false) +
                ";\ndo {\nconst int64_t s = sorted[q];\n" + decoded() + reducer.accumulate("sum", "p1[" + text(plan_.source) + "]", false) +
                "\n++q;\n} while (q < last && key_at(q) == key);\nconst bool cut = q == last && q < " + count +
                " && key_at(q) == key;\nif (open || cut) parts[(chunk * 2 + (open ? 0 : 1)) * " + num(window_) + " + w] = sum;\nelse " +
                add_to_result(reducer) + "}\n}\n}\n";
    return code;
  }

  // The group whose last run is cut puts together the parts that the next ones have of it.
  NestCode cut_runs(const Reducer& reducer) {
    const int64_t chunks = (updates_ + kRun - 1) / kRun;
    NestCode code = start_code(chunks * blocks_, lanes_, 8);
    code.args.push_back(keys_arg_), code.args.push_back(positions_), code.args.push_back(partial_arg(reducer));
    const std::string wide = reducer.memory_type(), count = num(updates_), window = num(window_), run = num(kRun);
    code.body =
        plan_.pointers + sorted_pointers(3) + "const " + wide + "* const parts = (const " + wide + "*)args[5];\nfor (int64_t u = begin; u < end; ++u) {\n" +
        chunk_head() +
        "const int64_t key = key_at(last - 1);\nconst bool open = first > 0 && key_at(first - 1) == key && key_at(first) == key;\nif (key != " + kNowhere +
        " && last < " + count + " && key_at(last) == key && !open) {\n" + wide + " sum = parts[(chunk * 2 + 1) * " + window +
        " + w];\nint64_t next = chunk + 1, stop = last;\ndo {\n" + reducer.merge("sum", "parts[next * 2 * " + window + " + w]", false) +
        "\n++next;\nstop = stop + " + run + " < " + count + " ? stop + " + run + " : " + count + ";\n} while (stop < " + count + " && key_at(stop) == key);\n" +
        add_to_result(reducer) + "}\n}\n}\n";
    return code;
  }

  const ir::Op& op_;
  const size_t n_;
  ScatterPlan plan_;
  Index place_, inside_;
  int64_t updates_ = 1, window_ = 1, blocks_ = 1, offset_ = 0;
  int lanes_ = 1;
  NestArg keys_arg_{}, positions_{};
};

}  // namespace

std::vector<NestCode> write_scatter(const ir::Op& op) { return ScatterWriter(op).write(); }

NestCode write_select_and_scatter(const ir::Op& op) {
  const ir::Value *operand = op.operand(0), *source = op.operand(1), *init = op.operand(2);
  const ir::Dims &in = operand->type.dims, &out = source->type.dims;
  const ir::Window w = ir::window_of(op.attrs, operand->type.rank());
  const std::string type = scalar_type(operand->type.dtype);
  NestCode code;
  code.args = {{operand, NestArg::Role::Read, operand->type.bytes(), false},
               {source, NestArg::Role::Read, source->type.bytes(), false},
               {op.result(), NestArg::Role::Write, operand->type.bytes(), false}};
  std::string pointers = "const " + type + "* const p0 = (const " + type + "*)args[0];\nconst " + type + "* const p1 = (const " + type + "*)args[1];\n" + type +
                         "* const p2 = (" + type + "*)args[2];\n";
  std::string first;
  if (init->def && init->def->code == ir::OpCode::Constant) {
    first = literal_text(*init->def->attrs.literal("value"), 0);
  } else {
    code.args.push_back({init, NestArg::Role::Read, init->type.bytes(), false});
    pointers += "const " + type + "* const p3 = (const " + type + "*)args[3];\n", first = "*p3";
  }
  IndexSpace space;
  std::vector<Index> window(in.size()), tap(in.size());
  std::string inside, window_loops, tap_loops, window_ends, tap_ends;
  for (size_t k = 0; k < in.size(); ++k) {
    const std::string n = num(static_cast<int64_t>(k)), stride = num(w.stride[k]), low = num(w.pad_low[k]);
    const int64_t reach = (w.size[k] - 1) * w.window_dilation[k];
    window[k] = space.var(space.add_atom({"o" + n, 0, out[k] - 1, 1, -1, 1}));
    tap[k] = window[k] * w.stride[k] + space.var(space.add_atom({"t" + n, 0, w.size[k] - 1, 2, -1, 1})) * w.window_dilation[k] + Index(-w.pad_low[k]);
    inside += (k ? " && (uint64_t)(" : "(uint64_t)(") + space.text(tap[k]) + ") < " + num(in[k]) + "ull";
    // Windows that may reach element i: the first ends at or behind it, the last begins at or before it.
    window_loops += "for (int64_t o" + n + " = i" + n + " + " + low + " > " + num(reach) + " ? (i" + n + " + " + low + " - " + num(reach) + " + " + stride +
                    " - 1) / " + stride + " : 0; o" + n + " < " + num(out[k]) + " && o" + n + " * " + stride + " <= i" + n + " + " + low + "; ++o" + n +
                    ") {\n";
    tap_loops += "for (int64_t t" + n + " = 0; t" + n + " < " + num(w.size[k]) + "; ++t" + n + ") {\n";
    window_ends += "}\n", tap_ends += "}\n";
  }
  Emitter e(space, [](const ir::Value*, const Index&) -> std::optional<Scalar> { return {}; }, 3);
  const Scalar pair[] = {{"best", 2}, {"x", 2}};
  const std::string keep = e.apply(*op.regions[0], pair)[0].text, choose = e.flush(2);
  const Scalar add[] = {{"total", 2}, {"p1[" + space.text(flatten(window, out)) + "]", 2}};
  const std::string sum = e.apply(*op.regions[1], add)[0].text, combine = e.flush(2), invariant = e.flush(0) + e.flush(1);
  const std::string body = tap_loops + (inside.empty() ? "{\n" : "if (" + inside + ") {\n") + "const int64_t where = " + space.text(flatten(tap, in)) +
                           ";\nconst " + type + " x = p0[where];\nif (chosen < 0) { chosen = where; best = x; } else {\n" + choose + "if (!(" + keep +
                           ")) { chosen = where; best = x; }\n}\n}\n" + tap_ends;
  code.units = operand->type.size();
  code.unit_cost = 16.0 * static_cast<double>(product(w.size));
  code.body = pointers + invariant + "for (int64_t u = begin; u < end; ++u) {\n" + decode_text("u", "i", in) + type + " total = " + first + ";\n" +
              window_loops + "int64_t chosen = -1;\n" + type + " best = {};\n" + body + "if (chosen == u) {\n" + combine + "total = " + sum + ";\n}\n" +
              window_ends + "p2[u] = total;\n}\n";
  return code;
}

}  // namespace thalweg::codegen::cuda
