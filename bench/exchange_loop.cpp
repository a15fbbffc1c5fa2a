// Loops over a type's DLPack C functions, for bench/exchange.py: compiled by it and called through ctypes with Python's lock held.
#include <chrono>

#include "runtime/dlpack_abi.h"

namespace {

using namespace thalweg::runtime::dlpack;

template <class Step>
double nanoseconds(long count, Step step) {
  auto started = std::chrono::steady_clock::now();
  for (long i = 0; i < count; ++i) {
    if (step() != 0) return -1;
  }
  std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - started;
  return time.count() / static_cast<double>(count);
}

}  // namespace

extern "C" {

// Nanoseconds to describe the object's memory without taking it over, as a library does for the arguments of a call; -1 when it failed.
double borrow_nanoseconds(const ExchangeApi* api, void* object, long count) {
  Tensor tensor;
  return nanoseconds(count, [&] { return api->to_tensor(object, &tensor); });
}

// Nanoseconds to take an owning array of the object and give it back; -1 when it failed.
double own_nanoseconds(const ExchangeApi* api, void* object, long count) {
  return nanoseconds(count, [&] {
    ManagedTensorVersioned* managed = nullptr;
    if (int failed = api->to_managed(object, &managed)) return failed;
    managed->deleter(managed);
    return 0;
  });
}
}
