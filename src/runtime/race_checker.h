// Finds races from one run, whatever its timing: follows which work is ordered after which, and checks each access of each life of memory against the
// accesses before it. It shares no state with the allocator that it checks.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <source_location>
#include <string>
#include <vector>

#include "runtime/backend.h"

namespace thalweg::runtime {

// One side of a race.
struct RaceSide {
  std::string stream, label, site;  // site: file and line of the submission
  uint64_t epoch = 0;               // number on its stream
  uint32_t slot = 0;                // of the stream's timeline
  uint64_t life = 0;                // of the memory
  bool writes = false;
  bool by_host = false;
};

// Two accesses to the same bytes, at least one of them a write, that nothing orders.
struct Race {
  RaceSide first, second;
  const char* begin = nullptr;  // the bytes that both touch
  size_t bytes = 0;
  // Both sides, the missing edge and the wait that would add it, as a few lines of text.
  std::string text() const;
};

// Thread-safe. The whole process has at most one in force: see check_races(). All threads of the host count as one: what one of them saw complete counts
// as seen by the others.
class RaceChecker {
 public:
  // A task was put on `axis` as its `epoch`; it starts after `waits`.
  void submitted(const Axis& axis, uint64_t epoch, const Frontier& waits, const std::vector<Access>& accesses, const char* label,
                 const std::source_location& site);
  // The host saw `point` complete; all that it does from now on is ordered after it.
  void host_saw(const Point& point);
  // The host touches memory of a buffer.
  void host_access(const Access& access, std::source_location site = std::source_location::current());

  // From now on each new race is printed to standard error when it is found.
  void print_races() { prints_ = true; }
  // The races found so far: the first of each pair of submissions, at most a thousand.
  std::vector<Race> races() const;
  uint64_t count() const { return count_.load(); }
  // The timelines of the submissions around a race, with both sides and the missing edge marked, as SVG.
  std::string picture(const Race& race) const;
  void clear();

 private:
  static constexpr uint32_t kNobody = ~uint32_t{0};
  // Where and by whom memory was touched.
  struct Touch {
    uint64_t epoch = 0;
    uint64_t life = 0;
    uint32_t slot = 0;
    uint32_t note = 0;  // index into notes_
    bool writes = false;
    bool by_host = false;
  };
  // The accesses to some bytes in one life of them, as far as later ones could race with them.
  struct Shadow {
    const char* end = nullptr;
    uint64_t life = 0;
    // The one stream that all of the accesses below are by: its next one races with none of them. kNobody: there are several, or the host's.
    uint32_t sole = kNobody;
    bool has_write = false, has_read = false;
    Touch write;                // the last one of this life
    Touch read;                 // since then
    std::vector<Touch> reads;   // by others, since then
    std::vector<Touch> before;  // of earlier lives, until a write of this one is ordered after them all
    bool is_fresh() const { return !has_write && !has_read && before.empty(); }
    template <typename Visit>
    void each(const Visit& visit) const {
      for (const Touch& touch : before) visit(touch);
      if (has_write) visit(write);
      if (has_read) visit(read);
      for (const Touch& touch : reads) visit(touch);
    }
  };
  struct Edge {
    uint64_t epoch = 0;  // that waits
    uint32_t slot = 0;   // for `waited` of this one
    uint64_t waited = 0;
  };
  struct Timeline {
    std::string name;
    Clock now;
    uint64_t host_version = ~uint64_t{0};              // of the host's clock in `now`
    std::deque<std::pair<uint64_t, Clock>> history;    // where `now` learned something of others
    std::deque<std::pair<uint64_t, uint32_t>> recent;  // epoch and note, for pictures
    std::deque<Edge> waits;
  };
  struct Note {
    std::string label, site;
  };

  // Direct-mapped caches of the two look-ups that each access makes.
  struct RecentShadow {
    const char* base = nullptr;
    uint64_t life = 0;
    Shadow* shadow = nullptr;
  };
  struct RecentNote {
    const char *label = nullptr, *file = nullptr;
    uint32_t line = 0, index = 0;
  };

  Timeline& timeline(const Axis& axis);
  void join_point(Clock& clock, const Point& point);
  void touch(const Access& access, const Touch& by, const Clock& now);
  void compare(const Touch& earlier, const Touch& by, const Clock& now, const char* begin, const char* end);
  static void remember_read(Shadow& shadow, const Touch& by);
  Shadow& shadow_for(const Access& access);
  Shadow& remember(std::map<const char*, Shadow>::iterator found);
  // Buffers lie at multiples of powers of two: the product spreads them.
  RecentShadow& recent_shadow(const char* base) { return recent_shadows_[(reinterpret_cast<uintptr_t>(base) / 64 * 0x9E3779B97F4A7C15u) >> 52]; }
  RaceSide side(const Touch& touch) const;
  uint32_t note(const char* label, const std::source_location& site);

  mutable std::mutex lock_;
  std::atomic<uint64_t> count_{0};
  std::deque<Timeline> timelines_;  // by slot
  Clock host_;
  uint64_t host_version_ = 0;
  std::array<RecentShadow, 4096> recent_shadows_{};
  std::array<RecentNote, 256> recent_notes_{};
  std::map<const char*, Shadow> shadows_;
  std::vector<Note> notes_;
  std::map<std::tuple<const char*, const char*, uint32_t>, uint32_t> note_index_;  // label, file and line by address
  std::vector<Race> races_;
  std::atomic<bool> prints_{false};
};

// The checker in force, null when races are not checked.
inline std::atomic<RaceChecker*> race_checker{nullptr};

// Tells the checker in force about a task. Under the ordering lock.
inline void note_task(const Axis& axis, const Task& task, const std::source_location& site) {
  RaceChecker* checker = race_checker.load(std::memory_order_acquire);
  if (checker) [[unlikely]]
    checker->submitted(axis, task.epoch, task.waits, task.accesses, task.label, site);
}

// Puts `checker` in force (null: none) for devices made from now on; while no work is queued. It must outlive them.
void check_races(RaceChecker* checker);

}  // namespace thalweg::runtime
