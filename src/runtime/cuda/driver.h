// The CUDA driver, found when it is first needed: its functions as a table, its failures as errors.
#pragma once

#include <string>

#include "runtime/cuda/driver_types.h"

namespace thalweg::runtime::cuda {

// One pointer for each row of driver.def, e.g. driver().event_record(event, stream). The functions return a Result: pass it to check().
struct Driver {
#define THALWEG_DRIVER(name, symbol, since, ...) Result (*name)(__VA_ARGS__);
#include "runtime/cuda/driver.def"
#undef THALWEG_DRIVER
};

// The driver of this machine. The first call loads libcuda.so.1 and initialises it, without making a context. Any thread.
// Throws Error(Missing) when there is no driver or it is too old, and Error(Device) in a child forked after the parent had used CUDA.
const Driver& driver();

// Takes `table` for the driver of this machine: for tests of what happens when calls fail. Before the first call of anything here.
void use_driver(const Driver& table);

// How many GPUs this process may use; 0 on a machine without driver or GPU, and then `reason`, when given, says why. Never throws. Any thread.
int device_count(std::string* reason = nullptr);

// The driver's words for `result`, e.g. "CUDA_ERROR_INVALID_VALUE: invalid argument".
std::string error_text(Result result);

// Throws when `result` is not success: Error(OutOfMemory) for the driver's out of memory, Error(Vendor) otherwise. `call`: what was tried.
void check(Result result, const char* call);

// True in a child forked after the parent had used CUDA: no call of the driver works there.
bool is_forked();
// From now on a fork makes is_forked() true in the child. Called where a context is made.
void note_context_made();

// Makes `context` the calling thread's current one while it lives, and puts the one before back. Cheap where it is current already.
class ContextScope {
 public:
  explicit ContextScope(Context context);
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;

 private:
  bool pushed_;
};

// While it lives, calls of this thread are allowed, and do no harm, while some stream of the process is capturing a graph.
class CaptureExempt {
 public:
  CaptureExempt() { driver().exchange_capture_mode(&mode_); }
  ~CaptureExempt() { driver().exchange_capture_mode(&mode_); }
  CaptureExempt(const CaptureExempt&) = delete;

 private:
  int mode_ = kCaptureRelaxed;
};

}  // namespace thalweg::runtime::cuda
