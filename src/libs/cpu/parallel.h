// The one thread pool of the CPU: parallel loops over a static partition.
#pragma once

#include <cstdint>
#include <type_traits>

namespace thalweg::libs::cpu {

// A reference to a callable (begin, end) that outlives the call it is passed to.
class RangeFnRef {
 public:
  template <class F>
  RangeFnRef(const F& fn)  // NOLINT(google-explicit-constructor): a lambda is meant to be passed as it is
      : context_(&fn), call_([](const void* context, int64_t begin, int64_t end) { (*static_cast<const F*>(context))(begin, end); }) {}
  void operator()(int64_t begin, int64_t end) const { call_(context_, begin, end); }

 private:
  const void* context_;
  void (*call_)(const void* context, int64_t begin, int64_t end);
};

// Calls fn(begin, end) over ranges that cover [0, n) exactly once and returns when all have run. At most threads() ranges, each but the last a multiple of
// `grain` long; with n ≤ grain, n ranges of work too small to share, or inside another parallel loop, all runs on the calling thread. Which ranges there are
// depends on n, grain and threads() alone. The caller takes part, so a worker that wakes late delays nobody; when another thread is using the pool, the caller
// runs all ranges itself. The first exception that fn throws is rethrown here after every range has ended. Never parallel and never blocking in a forked child
// until it first calls this.
void parallel_for(int64_t n, int64_t grain, RangeFnRef fn);

// Threads that a loop may use, the caller included. At first: OMP_NUM_THREADS, else cores().
int threads();
// Sets it, at least 1. Waits for a running loop. Not to be called inside one.
void set_threads(int count);
// Cores that this process may run on, as found at the first call.
int cores();

}  // namespace thalweg::libs::cpu
