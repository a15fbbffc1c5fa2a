// What a kind of device supplies: in-order queues of work, and memory. Everything else (who waits for whom, what is reused when) is common to all.
#pragma once

#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/axis.h"
#include "runtime/stream.h"

namespace thalweg::runtime {

// Bytes that a task touches, for backends and tools that watch them.
struct Access {
  const char* base = nullptr;
  size_t bytes = 0;
  bool writes = false;
  uint64_t life = 0;  // which life of the memory: later lives have larger numbers
};

// One piece of work as a queue gets it.
struct Task {
  Work work;           // may be empty: only the waits
  Frontier waits;      // points of other axes that must have completed before the work starts
  uint64_t epoch = 0;  // its number on the queue's axis
  const char* label = "";
  std::vector<Point> sources;    // the writes that made what it reads: if one failed, the work is not run and fails alike
  std::vector<Access> accesses;  // filled where Backend::wants_accesses()
};

// Does what a task is for, once its waits have completed: runs its work or inherits an error, stores what is thrown, destroys the work.
void run_task(Task& task, Axis& axis, void* native);

// The queue behind one stream. Destroyed only after its last epoch has completed.
class Queue {
 public:
  virtual ~Queue() = default;
  // Takes the next task. Called under the ordering lock, in the order of epochs; neither blocks nor throws. The queue runs the task in order after its
  // waits with run_task(), and then advances Axis::done.
  virtual void push(Task task) = 0;
  // Called after push() without the ordering lock, on the thread that submitted: queues that hand tasks to a device do it here. Must not throw.
  virtual void issue() {}
  // The system's handle of the stream, as work gets it; null when there is none.
  virtual void* native() const { return nullptr; }
  // Throws Error(Device) when it takes no work for the moment, because somebody else is capturing a graph on it.
  virtual void check_usable() const {}
};

// A device's queues and memory. Outlives its streams and their axes.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::unique_ptr<Queue> make_queue(Axis& axis) = 0;
  // A queue whose work runs on the host when its waits have completed, also on devices where make_queue()'s work only issues something.
  virtual std::unique_ptr<Queue> make_host_queue(Axis& axis) { return make_queue(axis); }

  // Whether tasks come with their accesses.
  virtual bool wants_accesses() const { return false; }

  // Called as work: passes about this time on the stream.
  virtual void pause(void* native, std::chrono::microseconds time) { std::this_thread::sleep_for(time); }

  // Called as work: sets `bytes` bytes of device memory to `value` on the stream.
  virtual void fill(void* native, void* base, unsigned char value, size_t bytes) { std::memset(base, value, bytes); }

  // Blocks the host until `epoch` of `axis` has completed.
  virtual void wait(Axis& axis, uint64_t epoch) { axis.done.wait(epoch); }
  // Brings Axis::done of this device's axes up to date where completion is not pushed by the queue. Under the ordering lock.
  virtual void poll() {}
  // The same for one axis, with or without the ordering lock.
  virtual void refresh(Axis& axis) {}
  // Gives `axis` an epoch behind what others have put on its stream past us; nothing to do for streams that only we use. Without the ordering lock.
  virtual void mark(Axis& axis) {}
  // The timeline whose work the calling thread is running now, null when none: such work must not block on its own timeline.
  virtual const Axis* running_here() const { return nullptr; }

  // Whether the host can look at the memory.
  virtual bool is_host_memory() const { return true; }
  // Memory is committed and given back in units of this many bytes.
  virtual size_t page_bytes() const = 0;
  // A range of addresses of at most `bytes` without memory behind it, aligned to a page; sets `bytes` to its size. Null when there is none.
  virtual char* reserve(size_t& bytes) = 0;
  virtual void unreserve(char* base, size_t bytes) = 0;
  // Puts memory behind whole pages of a reserved range; false, and nothing changed, when there is not enough.
  virtual bool commit(char* base, size_t bytes) = 0;
  // Takes the memory away again. The contents are lost.
  virtual void decommit(char* base, size_t bytes) = 0;
};

}  // namespace thalweg::runtime
