// The registry of library calls by name.
#include "libs/cpu/opaque.h"

#include <map>
#include <memory>
#include <mutex>

namespace thalweg::libs::cpu {
namespace {

// Functions are never freed: a program that is running may hold one that was replaced.
struct Registry {
  std::mutex mutex;
  std::map<std::string, const OpaqueFn*, std::less<>> functions;
};

Registry& registry() {
  static auto* r = new Registry;
  return *r;
}

}  // namespace

void register_opaque(std::string target, OpaqueFn fn) {
  auto owned = std::make_unique<const OpaqueFn>(std::move(fn));
  std::scoped_lock lock(registry().mutex);
  registry().functions[std::move(target)] = owned.release();
}

const OpaqueFn* find_opaque(const std::string& target) {
  std::scoped_lock lock(registry().mutex);
  auto found = registry().functions.find(target);
  return found == registry().functions.end() ? nullptr : found->second;
}

}  // namespace thalweg::libs::cpu
