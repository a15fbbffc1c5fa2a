// Vector clocks of streams and host, shadows of memory, and reports.
#include "runtime/race_checker.h"

#include <algorithm>
#include <cstdio>

namespace thalweg::runtime {
namespace {

constexpr size_t kHistory = 4096;  // epochs of a timeline that later waits can learn from
constexpr size_t kRecent = 64;     // epochs of a timeline that a picture can show
constexpr size_t kRaces = 1000;

}  // namespace

void check_races(RaceChecker* checker) { race_checker.store(checker, std::memory_order_release); }

RaceChecker::Timeline& RaceChecker::timeline(const Axis& axis) {
  if (timelines_.size() <= axis.slot) timelines_.resize(axis.slot + 1);
  Timeline& line = timelines_[axis.slot];
  if (line.name != axis.name) line.name = axis.name;
  return line;
}

void RaceChecker::join_point(Clock& clock, const Point& point) {
  if (point.axis == nullptr) return;
  uint32_t slot = point.axis->slot;
  clock.raise(slot, point.epoch);
  if (slot >= timelines_.size()) return;
  const auto& history = timelines_[slot].history;
  auto after = std::upper_bound(history.begin(), history.end(), point.epoch, [](uint64_t epoch, const auto& entry) { return epoch < entry.first; });
  if (after != history.begin()) clock.join(std::prev(after)->second);
}

uint32_t RaceChecker::note(const char* label, const std::source_location& site) {
  size_t place = (reinterpret_cast<uintptr_t>(label) / 8 + reinterpret_cast<uintptr_t>(site.file_name()) / 8 + site.line()) % recent_notes_.size();
  RecentNote& recent = recent_notes_[place];
  if (recent.label == label && recent.file == site.file_name() && recent.line == site.line()) return recent.index;
  auto [found, is_new] = note_index_.try_emplace({label, site.file_name(), site.line()}, static_cast<uint32_t>(notes_.size()));
  if (is_new) notes_.push_back({label, std::string(site.file_name()) + ":" + std::to_string(site.line())});
  recent = {label, site.file_name(), site.line(), found->second};
  return found->second;
}

void RaceChecker::submitted(const Axis& axis, uint64_t epoch, const Frontier& waits, const std::vector<Access>& accesses, const char* label,
                            const std::source_location& site) {
  std::lock_guard guard(lock_);
  Timeline& line = timeline(axis);
  bool learns = line.host_version != host_version_ || !waits.empty();
  if (line.host_version != host_version_) line.now.join(host_);
  line.host_version = host_version_;
  for (const Point& point : waits) join_point(line.now, point);
  line.now.raise(axis.slot, epoch);
  if (learns) line.history.emplace_back(epoch, line.now);
  if (line.history.size() > kHistory) line.history.pop_front();
  uint32_t index = note(label, site);
  line.recent.emplace_back(epoch, index);
  if (line.recent.size() > kRecent) line.recent.pop_front();
  for (const Point& point : waits) line.waits.push_back({epoch, point.axis->slot, point.epoch});
  while (line.waits.size() > kRecent) line.waits.pop_front();
  for (const Access& access : accesses) touch(access, {epoch, access.life, axis.slot, index, access.writes, false}, line.now);
}

void RaceChecker::host_saw(const Point& point) {
  std::lock_guard guard(lock_);
  if (host_.at(point.axis->slot) >= point.epoch) return;
  join_point(host_, point);
  ++host_version_;
}

void RaceChecker::host_access(const Access& access, std::source_location site) {
  std::lock_guard guard(lock_);
  touch(access, {0, access.life, 0, note("host", site), access.writes, true}, host_);
}

// The shadow of the access's life of the memory. A new life takes the place of the parts of earlier ones that it overlaps, and remembers their accesses.
RaceChecker::Shadow& RaceChecker::shadow_for(const Access& access) {
  const char *begin = access.base, *end = begin + access.bytes;
  if (const RecentShadow& recent = recent_shadow(begin); recent.base == begin && recent.life == access.life) return *recent.shadow;
  auto found = shadows_.lower_bound(begin);
  if (found != shadows_.end() && found->first == begin && found->second.life == access.life) return remember(found);
  Shadow fresh;
  fresh.end = end;
  fresh.life = access.life;
  if (found != shadows_.begin() && std::prev(found)->second.end > begin) --found;
  while (found != shadows_.end() && found->first < end) {
    Shadow old = std::move(found->second);
    const char* old_begin = found->first;
    recent_shadow(old_begin) = {};
    found = shadows_.erase(found);
    old.each([&](const Touch& touch) { fresh.before.push_back(touch); });
    if (old_begin < begin) {
      Shadow left = old;
      left.end = begin;
      shadows_.emplace(old_begin, std::move(left));
    }
    if (old.end > end) found = shadows_.emplace(end, std::move(old)).first;
  }
  return remember(shadows_.insert_or_assign(begin, std::move(fresh)).first);
}

RaceChecker::Shadow& RaceChecker::remember(std::map<const char*, Shadow>::iterator found) {
  recent_shadow(found->first) = {found->first, found->second.life, &found->second};
  return found->second;
}

void RaceChecker::compare(const Touch& earlier, const Touch& by, const Clock& now, const char* begin, const char* end) {
  if (!earlier.writes && !by.writes) return;
  // The host's own accesses come before whatever it submits later.
  if (earlier.by_host || (!by.by_host && earlier.slot == by.slot && earlier.epoch <= by.epoch) || now.at(earlier.slot) >= earlier.epoch) return;
  ++count_;
  if (races_.size() == kRaces) return;
  Race race{side(earlier), side(by), begin, static_cast<size_t>(end - begin)};
  bool known = std::any_of(races_.begin(), races_.end(), [&](const Race& other) {
    return other.first.label == race.first.label && other.second.label == race.second.label && other.first.site == race.first.site &&
           other.second.site == race.second.site && other.first.stream == race.first.stream && other.second.stream == race.second.stream;
  });
  if (known) return;
  if (prints_) std::fprintf(stderr, "%s\n", race.text().c_str());
  races_.push_back(std::move(race));
}

void RaceChecker::remember_read(Shadow& shadow, const Touch& by) {
  auto is_same = [&](const Touch& other) { return other.slot == by.slot && other.by_host == by.by_host; };
  if (!shadow.has_read || is_same(shadow.read)) {
    shadow.has_read = true;
    shadow.read = by;
    return;
  }
  auto found = std::find_if(shadow.reads.begin(), shadow.reads.end(), is_same);
  if (found != shadow.reads.end()) {
    *found = by;
  } else {
    shadow.reads.push_back(by);
  }
}

void RaceChecker::touch(const Access& access, const Touch& by, const Clock& now) {
  if (access.bytes == 0) return;
  Shadow& shadow = shadow_for(access);
  const uint32_t who = by.by_host ? kNobody : by.slot;
  if (shadow.sole != who || who == kNobody) {
    if (!shadow.is_fresh()) shadow.each([&](const Touch& earlier) { compare(earlier, by, now, access.base, shadow.end); });
    if (by.writes) {
      // Whatever was not ordered before it has been reported; from here on it stands for them all.
      shadow.before.clear();
      shadow.reads.clear();
    }
    shadow.sole = by.writes || shadow.is_fresh() ? who : kNobody;
  }
  if (!by.writes) return remember_read(shadow, by);
  shadow.has_write = true;
  shadow.has_read = false;
  shadow.write = by;
}

RaceSide RaceChecker::side(const Touch& touch) const {
  std::string stream = touch.by_host ? "the host" : touch.slot < timelines_.size() ? timelines_[touch.slot].name : "?";
  return {stream, notes_[touch.note].label, notes_[touch.note].site, touch.epoch, touch.slot, touch.life, touch.writes, touch.by_host};
}

std::vector<Race> RaceChecker::races() const {
  std::lock_guard guard(lock_);
  return races_;
}

void RaceChecker::clear() {
  std::lock_guard guard(lock_);
  count_ = 0;
  races_.clear();
  shadows_.clear();
  recent_shadows_.fill({});
  timelines_.clear();
  host_ = {};
}

}  // namespace thalweg::runtime
