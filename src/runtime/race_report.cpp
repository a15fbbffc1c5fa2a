// What a race looks like: text, and a picture of the two timelines.
#include <algorithm>
#include <set>
#include <sstream>

#include "runtime/race_checker.h"

namespace thalweg::runtime {
namespace {

constexpr int kRow = 34, kColumn = 330, kTop = 70, kShown = 12;

std::string escaped(const std::string& text) {
  std::string result;
  for (char letter : text) {
    switch (letter) {
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '&':
        result += "&amp;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += letter;
    }
  }
  return result;
}

void draw_text(std::ostream& out, int x, int y, const std::string& style, const std::string& text) {
  out << "<text x=\"" << x << "\" y=\"" << y << "\" " << style << ">" << escaped(text) << "</text>\n";
}

void draw_arrow(std::ostream& out, int x1, int y1, int x2, int y2, const std::string& style) {
  out << "<line x1=\"" << x1 << "\" y1=\"" << y1 << "\" x2=\"" << x2 << "\" y2=\"" << y2 << "\" marker-end=\"url(#tip)\" " << style << "/>\n";
}

}  // namespace

std::string Race::text() const {
  auto line = [](const RaceSide& side) {
    std::ostringstream text;
    text << (side.writes ? "write" : "read") << " by '" << side.label << "' (number " << side.epoch << " on " << side.stream << ", " << side.site << ")";
    return text.str();
  };
  std::ostringstream text;
  text << "race on " << bytes << " bytes at " << static_cast<const void*>(begin)
       << (first.life == second.life ? "" : ": the memory was freed and reused while it was in use") << "\n  " << line(first) << "\n  " << line(second)
       << "\n  missing: an edge from number " << first.epoch << " of " << first.stream << " to number " << second.epoch << " of " << second.stream
       << "\n  would fix it: " << second.stream << (second.by_host ? " waits" : " is made to wait") << " for number " << first.epoch << " of " << first.stream
       << " before '" << second.label << "'"
       << (first.life == second.life ? ", by naming the buffer in both submissions" : ", by naming the buffer in every submission that uses it");
  return text.str();
}

// Columns are the two streams, rows the last submissions of each up to the race; waits between the two are grey arrows, the missing edge a red one.
std::string RaceChecker::picture(const Race& race) const {
  std::lock_guard guard(lock_);
  struct Box {
    uint32_t slot;
    uint64_t epoch;
    std::string label;
    int column, y = 0;
  };
  std::vector<Box> boxes;
  auto add_column = [&](const RaceSide& side, int column) {
    if (side.by_host || side.slot >= timelines_.size()) {
      boxes.push_back({~0u, 0, side.label, column});
      return;
    }
    std::vector<Box> shown;
    for (const auto& [epoch, note] : timelines_[side.slot].recent) {
      if (epoch <= side.epoch) shown.push_back({side.slot, epoch, notes_[note].label, column});
    }
    if (shown.empty() || shown.back().epoch != side.epoch) shown.push_back({side.slot, side.epoch, side.label, column});
    size_t skipped = shown.size() > kShown ? shown.size() - kShown : 0;
    boxes.insert(boxes.end(), shown.begin() + static_cast<int64_t>(skipped), shown.end());
  };
  add_column(race.first, 0);
  add_column(race.second, 1);
  int rows[2] = {0, 0};
  for (Box& box : boxes) box.y = kTop + kRow * rows[box.column]++;
  auto find = [&](uint32_t slot, uint64_t epoch) -> const Box* {
    for (const Box& box : boxes) {
      if (box.slot == slot && box.epoch == epoch) return &box;
    }
    return nullptr;
  };

  std::ostringstream out;
  int height = kTop + kRow * std::max(rows[0], rows[1]) + 60;
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << 2 * kColumn + 40 << "\" height=\"" << height
      << "\" font-family=\"sans-serif\" font-size=\"13\">\n<defs><marker id=\"tip\" markerWidth=\"8\" markerHeight=\"8\" refX=\"7\" refY=\"4\" "
         "orient=\"auto\"><path d=\"M0,0 L8,4 L0,8 z\"/></marker></defs>\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
  draw_text(out, 20, 24, "font-weight=\"bold\"", "Nothing orders these two accesses to the same " + std::to_string(race.bytes) + " bytes");
  for (int column : {0, 1}) draw_text(out, 20 + column * kColumn, 52, "fill=\"#555\"", "stream " + (column == 0 ? race.first : race.second).stream);
  const Box *first = nullptr, *second = nullptr;
  for (const Box& box : boxes) {
    const RaceSide& side = box.column == 0 ? race.first : race.second;
    bool racing = side.by_host || box.epoch == side.epoch;
    if (racing) (box.column == 0 ? first : second) = &box;
    out << "<rect x=\"" << 20 + box.column * kColumn << "\" y=\"" << box.y << "\" width=\"240\" height=\"24\" rx=\"4\" fill=\""
        << (racing ? "#ffd9d4" : "#e8eef6") << "\" stroke=\"" << (racing ? "#c0392b" : "#9ab\"") << (racing ? "\"" : "") << "/>\n";
    std::string role = racing ? (side.writes ? " (writes)" : " (reads)") : "";
    draw_text(out, 28 + box.column * kColumn, box.y + 17, "", "#" + std::to_string(box.epoch) + " " + box.label + role);
  }
  for (const RaceSide* side : {&race.first, &race.second}) {
    if (side->by_host || side->slot >= timelines_.size()) continue;
    for (const Edge& edge : timelines_[side->slot].waits) {
      const Box *from = find(edge.slot, edge.waited), *to = find(side->slot, edge.epoch);
      if (!from || !to || from->column == to->column) continue;
      int x1 = from->column == 0 ? 260 : 20 + kColumn, x2 = to->column == 0 ? 260 : 20 + kColumn;
      draw_arrow(out, x1, from->y + 12, x2, to->y + 12, "stroke=\"#888\"");
    }
  }
  if (first && second) draw_arrow(out, 260, first->y + 12, 20 + kColumn, second->y + 12, "stroke=\"#c0392b\" stroke-width=\"2\" stroke-dasharray=\"6 4\"");
  draw_text(out, 20, height - 20, "fill=\"#c0392b\"", "dashed: the edge that is missing");
  out << "</svg>\n";
  return out.str();
}

}  // namespace thalweg::runtime
