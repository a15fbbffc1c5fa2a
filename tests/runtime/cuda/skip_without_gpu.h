// Tests that need a GPU and are skipped without one.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "runtime/cuda/driver.h"

// Skips the test on a machine without a GPU.
#define SKIP_WITHOUT_GPU()                                                            \
  do {                                                                                \
    std::string reason;                                                               \
    if (::thalweg::runtime::cuda::device_count(&reason) == 0) GTEST_SKIP() << reason; \
  } while (0)
