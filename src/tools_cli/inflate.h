// Decompression of deflate streams (RFC 1951).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace thalweg::tools_cli {

// The bytes that `compressed` stands for, exactly `size` of them. Throws Error(Invalid) on malformed data.
std::vector<std::byte> inflate(std::span<const std::byte> compressed, size_t size);

}  // namespace thalweg::tools_cli
