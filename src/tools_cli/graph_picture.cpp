// Layered drawing: longest-path layers, a few sweeps that put boxes under what they read, then SVG.
#include "tools_cli/graph_picture.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <sstream>
#include <unordered_map>

#include "ir/type.h"

namespace thalweg::tools_cli {
namespace {

using compiler::OutlineGroup;
using ir::Op;
using ir::Value;

constexpr double kCharWidth = 6.7, kLineHeight = 16, kPadding = 10, kTitleHeight = 22, kGapX = 36, kGapY = 54, kMargin = 24, kPageWidth = 2600;
constexpr size_t kMostCharacters = 90;

struct Line {
  const Op* op;
  std::string text;
  bool again;  // of no group: computed in every box that reads it
};

struct Box {
  std::string title, fill;
  std::vector<Line> lines;
  std::set<size_t> readers;
  size_t layer = 0;
  double x = 0, y = 0, width = 0, height = 0, wish = 0;
};

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else if (static_cast<unsigned char>(c) >= 0x20)
      out += c;
  }
  return out;
}

class Picture {
 public:
  Picture(const ir::Function& function, std::span<const OutlineGroup> groups) : function_(function) {
    name_values();
    for (const OutlineGroup& group : groups) add_group(group);
    add_free_ops();
    connect();
    place();
  }
  std::string svg() const;

 private:
  void name_values() {
    for (size_t i = 0; i < function_.body.args.size(); ++i) names_[function_.body.args[i].get()] = "%arg" + std::to_string(i);
    size_t next = 0;
    for (const auto& op : function_.body.ops)
      for (const auto& result : op->results) names_[result.get()] = "%" + std::to_string(next++);
    const auto& results = function_.body.terminator().operands;
    for (size_t i = 0; i < results.size(); ++i) returned_[results[i]].push_back(i);
  }

  std::string text_of(const Op& op) const {
    std::string text;
    for (const auto& result : op.results) text += (text.empty() ? "" : ", ") + names_.at(result.get());
    std::string name(ir::name(op.code));
    if (op.code == ir::OpCode::CustomCall) name = op.attrs.string("call_target_name");
    if (op.code == ir::OpCode::Composite) name = op.attrs.string("name");
    text += (text.empty() ? "" : " = ") + name + "(";
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const auto known = names_.find(op.operands[i]);
      text += (i ? ", " : "") + (known == names_.end() ? "?" : known->second);
    }
    text += ")";
    if (!op.results.empty()) text += " : " + to_string(op.results[0]->type);
    for (const auto& result : op.results)
      if (auto at = returned_.find(result.get()); at != returned_.end())
        for (size_t i : at->second) text += "  → result " + std::to_string(i);
    return text;
  }

  void add_line(size_t box, const Op& op, bool again) {
    boxes_[box].lines.push_back({&op, text_of(op), again});
    boxes_of_[&op].insert(box);
  }

  void add_group(const OutlineGroup& group) {
    static const std::map<OutlineGroup::Kind, std::pair<const char*, const char*>> looks = {{OutlineGroup::Kind::Kernel, {"kernel", "#dbeafe"}},
                                                                                            {OutlineGroup::Kind::Product, {"product", "#fde9c8"}},
                                                                                            {OutlineGroup::Kind::Call, {"call", "#f8d7da"}}};
    const auto& [title, fill] = looks.at(group.kind);
    boxes_.push_back({title + std::string(" ") + std::to_string(++counts_[group.kind]), fill, {}, {}});
    for (const Op* op : group.ops) add_line(boxes_.size() - 1, *op, false);
  }

  // From the last op back, so that an op's readers have their boxes. What nobody reads, a constant result say, gets a box of its own.
  void add_free_ops() {
    std::unordered_map<const Value*, std::set<size_t>> readers;
    for (size_t i = function_.body.ops.size(); i-- > 0;) {
      const Op& op = *function_.body.ops[i];
      if (op.code == ir::OpCode::Return) continue;
      if (boxes_of_.count(&op) == 0) {
        std::set<size_t> boxes;
        for (const auto& result : op.results) boxes.insert(readers[result.get()].begin(), readers[result.get()].end());
        if (boxes.empty()) {
          boxes.insert(boxes_.size());
          boxes_.push_back({"result", "#eeeeee", {}, {}});
        }
        for (size_t box : boxes) add_line(box, op, boxes.size() > 1);
      } else {
        home_[&op] = *boxes_of_.at(&op).begin();
      }
      for (const Value* operand : op.operands) readers[operand].insert(boxes_of_.at(&op).begin(), boxes_of_.at(&op).end());
    }
    std::unordered_map<const Op*, size_t> place;
    for (size_t i = 0; i < function_.body.ops.size(); ++i) place[function_.body.ops[i].get()] = i;
    for (Box& box : boxes_) std::sort(box.lines.begin(), box.lines.end(), [&](const Line& a, const Line& b) { return place.at(a.op) < place.at(b.op); });
  }

  // An arrow for every value of a kernel, product or call that another box reads.
  void connect() {
    for (size_t to = 0; to < boxes_.size(); ++to)
      for (const Line& line : boxes_[to].lines)
        for (const Value* operand : line.op->operands) {
          const auto from = operand->def ? home_.find(operand->def) : home_.end();
          if (from == home_.end() || from->second == to) continue;
          boxes_[from->second].readers.insert(to);
          auto& label = labels_[{from->second, to}];
          label += (label.empty() ? "" : "\n") + names_.at(operand) + " : " + to_string(operand->type);
        }
  }

  // Longest path from the top; it settles in as many rounds as there are boxes at most.
  void layer() {
    bool changed = true;
    for (size_t round = 0; changed && round <= boxes_.size(); ++round) {
      changed = false;
      for (const Box& box : boxes_)
        for (size_t reader : box.readers)
          if (boxes_[reader].layer <= box.layer && box.layer + 1 <= boxes_.size()) {
            boxes_[reader].layer = box.layer + 1;
            changed = true;
          }
    }
  }

  void place() {
    layer();
    for (Box& box : boxes_) {
      size_t longest = box.title.size() + 4;
      for (const Line& line : box.lines) longest = std::max(longest, std::min(line.text.size(), kMostCharacters));
      box.width = static_cast<double>(longest) * kCharWidth + 2 * kPadding;
      box.height = kTitleHeight + static_cast<double>(box.lines.size()) * kLineHeight + kPadding;
    }
    std::map<size_t, std::vector<size_t>> layers;
    for (size_t i = 0; i < boxes_.size(); ++i) layers[boxes_[i].layer].push_back(i);
    for (auto& [number, members] : layers) pack(members);
    for (int sweep = 0; sweep < 6; ++sweep)
      for (auto& [number, members] : layers) {
        for (size_t i : members) boxes_[i].wish = middle_of_neighbours(i);
        std::stable_sort(members.begin(), members.end(), [&](size_t a, size_t b) { return boxes_[a].wish < boxes_[b].wish; });
        pack(members);
      }
    double y = kMargin;
    for (const auto& [number, members] : layers)
      for (const std::vector<size_t>& row : rows_of(members)) {
        pack(row);
        double tallest = 0;
        for (size_t i : row) {
          boxes_[i].y = y;
          tallest = std::max(tallest, boxes_[i].height);
        }
        y += tallest + kGapY;
      }
    height_ = y - kGapY + kMargin;
    double left = 0, right = 0;
    for (const Box& box : boxes_) left = std::min(left, box.x), right = std::max(right, box.x + box.width);
    for (Box& box : boxes_) box.x += kMargin - left;
    width_ = right - left + 2 * kMargin;
  }

  // A layer broken into rows that fit a page.
  std::vector<std::vector<size_t>> rows_of(const std::vector<size_t>& members) const {
    std::vector<std::vector<size_t>> rows;
    double width = 0;
    for (size_t i : members) {
      if (rows.empty() || width + boxes_[i].width > kPageWidth) {
        rows.emplace_back();
        width = 0;
      }
      rows.back().push_back(i);
      width += boxes_[i].width + kGapX;
    }
    return rows;
  }

  // Side by side in the given order, the row's middle at zero.
  void pack(const std::vector<size_t>& members) {
    double total = -kGapX;
    for (size_t i : members) total += boxes_[i].width + kGapX;
    double x = -total / 2;
    for (size_t i : members) {
      boxes_[i].x = x;
      x += boxes_[i].width + kGapX;
    }
  }

  double middle_of_neighbours(size_t i) const {
    double sum = 0;
    int count = 0;
    const auto add = [&](const Box& box) { sum += box.x + box.width / 2, ++count; };
    for (size_t reader : boxes_[i].readers) add(boxes_[reader]);
    for (const Box& box : boxes_)
      if (box.readers.count(i)) add(box);
    return count ? sum / count : boxes_[i].x + boxes_[i].width / 2;
  }

  const ir::Function& function_;
  std::unordered_map<const Value*, std::string> names_;
  std::unordered_map<const Value*, std::vector<size_t>> returned_;
  std::unordered_map<const Op*, std::set<size_t>> boxes_of_;
  std::unordered_map<const Op*, size_t> home_;  // of ops in groups
  std::map<OutlineGroup::Kind, int> counts_;
  std::vector<Box> boxes_;
  std::map<std::pair<size_t, size_t>, std::string> labels_;
  double width_ = 0, height_ = 0;
};

std::string Picture::svg() const {
  std::ostringstream out;
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << width_ << "\" height=\"" << height_ << "\" viewBox=\"0 0 " << width_ << " " << height_
      << "\" font-family=\"DejaVu Sans Mono, Menlo, monospace\" font-size=\"11\">\n<title>" << escaped(function_.name) << "</title>\n"
      << "<defs><marker id=\"tip\" markerWidth=\"8\" markerHeight=\"8\" refX=\"7\" refY=\"4\" orient=\"auto\"><path d=\"M0,0 L8,4 L0,8 z\" fill=\"#667\"/>"
      << "</marker></defs>\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
  for (size_t i = 0; i < boxes_.size(); ++i) {
    for (size_t reader : boxes_[i].readers) {
      const Box &from = boxes_[i], &to = boxes_[reader];
      const double x1 = from.x + from.width / 2, y1 = from.y + from.height, x2 = to.x + to.width / 2, y2 = to.y;
      out << "<path d=\"M" << x1 << "," << y1 << " C" << x1 << "," << y1 + kGapY * 0.7 << " " << x2 << "," << y2 - kGapY * 0.7 << " " << x2 << "," << y2
          << "\" fill=\"none\" stroke=\"#889\" stroke-width=\"1.2\" marker-end=\"url(#tip)\"><title>" << escaped(labels_.at({i, reader}))
          << "</title></path>\n";
    }
  }
  for (const Box& box : boxes_) {
    out << "<g><rect x=\"" << box.x << "\" y=\"" << box.y << "\" width=\"" << box.width << "\" height=\"" << box.height << "\" rx=\"6\" fill=\"" << box.fill
        << "\" stroke=\"#556\"/>\n<text x=\"" << box.x + kPadding << "\" y=\"" << box.y + 15 << "\" font-weight=\"bold\">" << escaped(box.title) << "</text>\n";
    double y = box.y + kTitleHeight + 11;
    for (const Line& line : box.lines) {
      const bool cut = line.text.size() > kMostCharacters;
      std::string shown = line.text.substr(0, kMostCharacters - 1);
      while (cut && !shown.empty() && (static_cast<unsigned char>(shown.back()) & 0x80)) shown.pop_back();  // never half of a letter
      out << "<text x=\"" << box.x + kPadding << "\" y=\"" << y << "\"" << (line.again ? " fill=\"#777\" font-style=\"italic\"" : "") << "><title>"
          << escaped(line.text) << "</title>" << escaped(cut ? shown + "…" : line.text) << "</text>\n";
      y += kLineHeight;
    }
    out << "</g>\n";
  }
  out << "</svg>\n";
  return out.str();
}

}  // namespace

std::string graph_svg(const ir::Function& function, std::span<const OutlineGroup> groups) { return Picture(function, groups).svg(); }

}  // namespace thalweg::tools_cli
