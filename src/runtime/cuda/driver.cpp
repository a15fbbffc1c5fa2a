// Loading the driver, and its errors.
#include "runtime/cuda/driver.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <mutex>

#include "support/error.h"

namespace thalweg::runtime::cuda {
namespace {

struct Row {
  const char* symbol;
  double since;
  void** pointer;
};

// What loading came to, kept for every later call.
struct Loaded {
  Driver driver{};
  std::string failure;  // empty: the driver is usable
};

std::string load_into(Driver& driver) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return "no NVIDIA driver was found (libcuda.so.1 cannot be loaded); install the driver, or use the CPU";
  const Row rows[] = {
#define THALWEG_DRIVER(name, symbol, since, ...) {symbol, since, reinterpret_cast<void**>(&driver.name)},
#include "runtime/cuda/driver.def"
#undef THALWEG_DRIVER
  };
  for (const Row& row : rows) {
    *row.pointer = dlsym(library, row.symbol);
    if (*row.pointer != nullptr) continue;
    std::ostringstream text;
    text << "the NVIDIA driver is too old: it lacks " << row.symbol << ", which came with CUDA " << row.since << "; install a driver for CUDA 13";
    return text.str();
  }
  if (Result result = driver.init(0); result != kSuccess) {
    const char* name = nullptr;
    driver.error_name(result, &name);
    return std::string("the NVIDIA driver does not start: ") + (name ? name : "unknown error") + "; see whether nvidia-smi works";
  }
  return "";
}

const Driver* replacement = nullptr;

Loaded& loaded() {
  static Loaded& instance = *[] {
    auto* made = new Loaded;
    if (replacement != nullptr) {
      made->driver = *replacement;
    } else {
      made->failure = load_into(made->driver);
    }
    return made;
  }();
  return instance;
}

std::atomic<bool> forked{false};

}  // namespace

bool is_forked() { return forked.load(std::memory_order_relaxed); }

void note_context_made() {
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, [] { forked.store(true); }); });
}

void use_driver(const Driver& table) { replacement = new Driver(table); }

const Driver& driver() {
  Loaded& all = loaded();
  THALWEG_CHECK(all.failure.empty(), Missing, all.failure);
  THALWEG_CHECK(!is_forked(), Device,
                "CUDA does not work in a child forked after its parent had used CUDA; start the process with multiprocessing's method 'spawn' or 'forkserver'");
  return all.driver;
}

int device_count(std::string* reason) {
  Loaded& all = loaded();
  int count = 0;
  std::string why = all.failure;
  if (why.empty() && is_forked()) why = "this process was forked after its parent had used CUDA";
  if (why.empty() && all.driver.device_count(&count) != kSuccess) count = 0;
  if (why.empty() && count == 0) why = "the NVIDIA driver sees no GPU; look at CUDA_VISIBLE_DEVICES";
  if (reason != nullptr) *reason = why;
  return count;
}

std::string error_text(Result result) {
  const char *name = nullptr, *text = nullptr;
  Loaded& all = loaded();
  if (all.driver.error_name != nullptr) {
    all.driver.error_name(result, &name);
    all.driver.error_string(result, &text);
  }
  if (name == nullptr) return "error " + std::to_string(result);
  return std::string(name) + (text ? std::string(": ") + text : "");
}

void check(Result result, const char* call) {
  if (result == kSuccess) [[likely]]
    return;
  raise(result == kErrorOutOfMemory ? ErrorKind::OutOfMemory : ErrorKind::Vendor, "the CUDA driver failed to ", call, ": ", error_text(result));
}

ContextScope::ContextScope(Context context) {
  Context current = nullptr;
  driver().context_current(&current);
  pushed_ = current != context;
  if (pushed_) check(driver().context_push(context), "make a context current");
}

ContextScope::~ContextScope() {
  Context popped;
  if (pushed_) driver().context_pop(&popped);
}

}  // namespace thalweg::runtime::cuda
