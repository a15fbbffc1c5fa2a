// What a device tensor's StorageImpl holds: the current version of its bytes.
#pragma once

#include "lazy/value.h"

namespace thalweg::lazy {

// The bytes behind one or more tensors. All members are guarded by the session's lock; use Session's calls.
class Storage : public Counted<Storage> {
 public:
  explicit Storage(size_t bytes);
  ~Storage();
  size_t bytes;
  ValuePtr current;    // null: uninitialised
  ValuePtr committed;  // while `current` is pending: the last ready version, to return to if making `current` fails
  // Set once someone outside holds the address (data_ptr, DLPack): new versions are written back into this buffer, which is never donated.
  runtime::BufferPtr home;
  IntrusivePtr<Trace> trace;  // the trace whose pending list has this storage
  size_t pending_index = 0;
};
using StoragePtr = IntrusivePtr<Storage>;

}  // namespace thalweg::lazy
