// Union of traces and their pending lists.
#include "lazy/trace.h"

#include "support/error.h"

namespace thalweg::lazy {

Trace* Trace::root() {
  Trace* top = this;
  while (top->parent) top = top->parent.get();
  for (Trace* at = this; at->parent && at->parent.get() != top;) {
    TracePtr next = at->parent;
    at->parent = TracePtr(top);
    at = next.get();
  }
  return top;
}

void Trace::add(Storage& storage) {
  if (storage.trace) {
    Trace* owner = storage.trace->root();
    if (owner == this) return;
    owner->remove(storage);
  }
  storage.trace = TracePtr(this);
  storage.pending_index = pending.size();
  pending.push_back(&storage);
}

void Trace::remove(Storage& storage) {
  THALWEG_ASSERT(storage.pending_index < pending.size() && pending[storage.pending_index] == &storage);
  pending[storage.pending_index] = pending.back();
  pending[storage.pending_index]->pending_index = storage.pending_index;
  pending.pop_back();
  storage.trace.reset();
}

void Trace::absorb(Trace& other) {
  for (Storage* storage : other.pending) {
    storage->trace = TracePtr(this);
    storage->pending_index = pending.size();
    pending.push_back(storage);
  }
  other.pending.clear();
  operations += other.operations;
  other.operations = 0;
  other.parent = TracePtr(this);
}

}  // namespace thalweg::lazy
