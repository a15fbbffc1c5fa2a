// Traces: the sets of storages whose pending versions are flushed together.
#pragma once

#include <vector>

#include "lazy/storage.h"

namespace thalweg::lazy {

// One thread's half-built step. A trace that met another one is absorbed by it; root() finds the survivor. Guarded by the session's lock.
class Trace : public Counted<Trace> {
 public:
  std::vector<Storage*> pending;  // each has `current` pending here; not owned: ~Storage removes itself
  int64_t operations = 0;         // recorded since the last flush
  IntrusivePtr<Trace> parent;

  Trace* root();
  void add(Storage& storage);
  void remove(Storage& storage);
  // Takes over all of `other`, which becomes a pointer to this.
  void absorb(Trace& other);
};
using TracePtr = IntrusivePtr<Trace>;

}  // namespace thalweg::lazy
