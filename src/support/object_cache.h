// Object files on disk, shared by all processes of a user.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace thalweg {

// 32 hexadecimal digits that stand for `text`.
std::string digest(std::string_view text);

// A folder of object files named by the hash of what they were made from. Every failure of the file system only means that nothing is found or kept.
// Several processes may use one folder: files appear whole, by rename. Thread-safe.
class ObjectCache {
 public:
  // A folder that is made on the first store; empty: nothing is ever found or kept.
  explicit ObjectCache(std::string folder) : folder_(std::move(folder)) {}

  // The object made from `key`, if it is there and intact.
  std::optional<std::string> load(const std::string& key) const;
  // Keeps it, best effort.
  void store(const std::string& key, const std::string& object) const;

  const std::string& folder() const { return folder_; }
  // THALWEG_CACHE_DIR (empty: no cache), else thalweg/ in XDG_CACHE_HOME or ~/.cache.
  static std::string default_folder();

 private:
  std::string path(const std::string& key) const;
  std::string folder_;
};

}  // namespace thalweg
