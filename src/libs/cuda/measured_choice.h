// Ways to do one thing on a GPU, timed against each other; what won is kept on disk for later processes.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "runtime/stream.h"

namespace thalweg::libs::cuda {

// Seconds of one call of `work`, which gets the native stream, as work of submissions of `stream` that write `buffers`; waits for the stream.
double seconds_of(runtime::Stream& stream, std::span<const runtime::BufferPtr> buffers, const char* label, const std::function<void(void* native)>& work);

// What was kept under `key`, which names the thing, the GPU and the library's version. Any thread; failures of the file system only mean that nothing is kept.
std::optional<std::string> kept_choice(const std::string& key);
void keep_choice(const std::string& key, const std::string& choice);

}  // namespace thalweg::libs::cuda
