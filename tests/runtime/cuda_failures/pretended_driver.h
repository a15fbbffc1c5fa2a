// A driver that pretends to have a GPU: memory is the host's, work is done at once, completion is told late, and any one call can be made to fail.
#pragma once

#include "runtime/cuda/driver.h"

namespace thalweg::runtime::cuda {

// Puts it in place of the machine's driver, before anything else; further calls do nothing.
void pretend_driver();

// Makes the `call`-th call from now on (1: the next) fail with `result`; 0: none. Calls that cannot fail in the real driver are not counted.
void fail_call(int call, Result result);
// The symbol of the call that was made to fail, empty while none was.
const char* failed_symbol();
// Whether every stream is capturing a graph from now on.
void pretend_capture(bool on);
// Bytes of the pretended GPU, and those in use.
size_t pretended_bytes();
size_t pretended_used();
// Streams and events that exist.
int pretended_objects();
// How streams and memory were asked for so far.
struct Requests {
  int streams = 0, blocking_streams = 0, streams_with_priority = 0;
  int memories = 0, shareable_memories = 0;
};
Requests pretended_requests();

}  // namespace thalweg::runtime::cuda
