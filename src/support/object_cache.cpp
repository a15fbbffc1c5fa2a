// A file is: magic, length of key and object, the key, the object, a checksum of all before it.
#include "support/object_cache.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>

namespace thalweg {
namespace {

struct Header {
  char magic[8] = {'T', 'H', 'W', 'G', 'O', 'B', 'J', '1'};
  uint64_t key_size = 0, object_size = 0;
};

// FNV-1a over 8 bytes at a time with a final mix; `seed` gives independent hashes. Not for adversaries: the key itself is compared on load.
uint64_t hash(std::string_view text, uint64_t seed) {
  uint64_t h = 0xcbf29ce484222325u ^ (seed * 0x9e3779b97f4a7c15u);
  auto step = [&](uint64_t word) {
    h = (h ^ word) * 0x100000001b3u;
    h ^= h >> 29;
  };
  size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, text.data() + i, 8);
    step(word);
  }
  for (; i < text.size(); ++i) step(static_cast<unsigned char>(text[i]));
  step(text.size());
  h = (h ^ (h >> 32)) * 0xd6e8feb86659fd93u;
  return h ^ (h >> 32);
}

}  // namespace

std::string digest(std::string_view text) {
  std::array<char, 33> digits;
  std::snprintf(digits.data(), digits.size(), "%016llx%016llx", static_cast<unsigned long long>(hash(text, 1)), static_cast<unsigned long long>(hash(text, 2)));
  return digits.data();
}

std::string ObjectCache::default_folder() {
  if (const char* folder = std::getenv("THALWEG_CACHE_DIR")) return folder;
  if (const char* folder = std::getenv("XDG_CACHE_HOME"); folder && *folder) return std::string(folder) + "/thalweg";
  if (const char* home = std::getenv("HOME"); home && *home) return std::string(home) + "/.cache/thalweg";
  return {};
}

std::string ObjectCache::path(const std::string& key) const { return folder_ + "/" + digest(key) + ".o"; }

std::optional<std::string> ObjectCache::load(const std::string& key) const {
  if (folder_.empty()) return std::nullopt;
  std::error_code error;
  if (!std::filesystem::is_regular_file(path(key), error)) return std::nullopt;
  std::ifstream file(path(key), std::ios::binary);
  if (!file) return std::nullopt;
  std::string bytes((std::istreambuf_iterator<char>(file)), {});
  Header header, expected;
  uint64_t checksum;
  if (bytes.size() < sizeof header + sizeof checksum) return std::nullopt;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (std::memcmp(header.magic, expected.magic, sizeof header.magic) != 0 || header.key_size != key.size()) return std::nullopt;
  if (header.object_size > bytes.size() || sizeof header + header.key_size + header.object_size + sizeof checksum != bytes.size()) return std::nullopt;
  std::string_view all(bytes);
  std::memcpy(&checksum, bytes.data() + bytes.size() - sizeof checksum, sizeof checksum);
  if (checksum != hash(all.substr(0, bytes.size() - sizeof checksum), 0) || all.substr(sizeof header, key.size()) != key) return std::nullopt;
  return bytes.substr(sizeof header + header.key_size, header.object_size);
}

void ObjectCache::store(const std::string& key, const std::string& object) const {
  if (folder_.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  static std::atomic<uint64_t> serial = 0;
  std::string target = path(key), temporary = target + "." + std::to_string(getpid()) + "." + std::to_string(serial++);
  Header header;
  header.key_size = key.size();
  header.object_size = object.size();
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes += key;
  bytes += object;
  uint64_t checksum = hash(bytes, 0);
  bytes.append(reinterpret_cast<const char*>(&checksum), sizeof checksum);
  std::ofstream file(temporary, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (file) std::filesystem::rename(temporary, target, error);
  if (!file || error) std::filesystem::remove(temporary, error);
}

}  // namespace thalweg
